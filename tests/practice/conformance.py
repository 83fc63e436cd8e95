"""Run the same kubectl commands against two clusters and tell how the answers differ.

By hand, with the administrators' kubeconfigs: `python -m tests.practice.conformance REAL OTHER`.
"""

import difflib
import os
import pty
import re
import secrets
import select
import shlex
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from tests.cluster import machine
from tests.practice.normal import normal, unordered

# Kinds of controllers that other tests may be running on the same cluster.
_OTHERS = re.compile(r"x-k8s\.io|codeflare\.dev|volcano\.sh|kubeflow\.org")
_SECONDS = 90  # that a command may take
_LATER = 1.5  # seconds after which what happens meanwhile does
_NODE = ("get", "nodes", "-o", "jsonpath={.items[0].metadata.name}")
_PROVISIONER = ("get", "storageclass", "-o", "jsonpath={.items[0].provisioner}")


@dataclass(frozen=True)
class Step:
    """One kubectl command; `{ns}` in it, and in what it reads, is the scene's namespace.

    Without `shown` only its exit code counts. `meanwhile` is another command, which runs a little
    later; `types` is what a user types, who then has a terminal; `ends` after how many seconds the
    user ends it with Ctrl-C; `about` tells it from others with the same command;
    `only` is a pattern for the parts of the output that count.
    """

    command: str
    stdin: str = ""
    shown: bool = True
    sorted: bool = False
    meanwhile: str = ""
    types: str = ""
    ends: float = 0
    about: str = ""
    only: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Scene:
    """Commands that build on one another, in a namespace of their own."""

    name: str
    steps: Sequence[Step]
    cleanup: str = ""

    def titled(self) -> Iterator[tuple[str, Step]]:
        """Return each step with a title that no other step of the scene has."""
        seen: dict[str, int] = {}
        for step in self.steps:
            title = step.command + f"  # {step.about}" * bool(step.about)
            count = seen[title] = seen.get(title, 0) + 1
            yield title + f" ({count})" * (count > 1), step


@dataclass(frozen=True)
class Kubectl:
    """kubectl for one cluster, with a home of its own."""

    program: Path
    kubeconfig: Path
    home: Path

    def environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        """The environment in which it runs."""
        own = {"HOME": str(self.home), "KUBECONFIG": str(self.kubeconfig), "TERM": "dumb"}
        return {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", **own, **(more or {})}

    def run(self, arguments: Sequence[str], stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Run it to its end."""
        return subprocess.run(
            [str(self.program), *arguments],
            env=self.environment(),
            cwd=self.home,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )


class Stage:
    """A scene on one cluster."""

    def __init__(self, kubectl: Kubectl, scene: Scene) -> None:
        self._kubectl = kubectl
        self._scene = scene
        self._namespace = f"{scene.name}-{secrets.token_hex(3)}"
        made_up = {kubectl.run(_NODE).stdout: "NODE", kubectl.run(_PROVISIONER).stdout: "FOLDERS"}
        self._names = {name: word for name, word in made_up.items() if name}

    def play(self) -> dict[str, list[str]]:
        """Return what came of each step, by its title."""
        self._kubectl.run(["create", "namespace", self._namespace])
        try:
            self._run("wait --for=create serviceaccount/default --timeout=30s")
            return {title: self._step(step) for title, step in self._scene.titled()}
        finally:
            if self._scene.cleanup:
                self._run(self._scene.cleanup)
            self._run("delete namespace {ns} --wait=false")

    def _run(self, command: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return self._kubectl.run(self._words(command), self._own(stdin))

    def _step(self, step: Step) -> list[str]:
        if step.meanwhile:
            threading.Timer(_LATER, self._run, (step.meanwhile,)).start()
        if step.types or step.ends:
            code, text = self._on_terminal(step)
            told = normal(text, self._names)
        else:
            words = self._words(step.command)
            done = subprocess.run(
                [str(self._kubectl.program), *words],
                env=self._kubectl.environment(step.environment),
                cwd=self._kubectl.home,
                input=self._own(step.stdin),
                capture_output=True,
                text=True,
                timeout=_SECONDS,
                check=False,
            )
            code, told = done.returncode, normal(done.stdout, self._names)
            told += [f"! {line}" for line in normal(without_prose(done.stderr), self._names)]
        told = [line for line in told if not _OTHERS.search(line)]
        if not step.shown:
            told = []
        if step.only:
            told = [part for line in told for part in re.findall(step.only, line)]
        return [*(unordered(told) if step.sorted else told), f"exit code {code}"]

    def _words(self, command: str) -> list[str]:
        return ["--namespace", self._namespace, *shlex.split(self._own(command))]

    def _own(self, text: str) -> str:
        return text.replace("{ns}", self._namespace)

    def _on_terminal(self, step: Step) -> tuple[int, str]:
        """Run with a terminal as all streams; return exit code and screen."""
        ours, theirs = pty.openpty()
        running = subprocess.Popen(
            [str(self._kubectl.program), *self._words(step.command)],
            env=self._kubectl.environment(step.environment),
            cwd=self._kubectl.home,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        threading.Timer(_LATER, os.write, (ours, step.types.encode())).start()
        if step.ends:
            threading.Timer(step.ends, running.send_signal, (2,)).start()
        screen = b""
        deadline = time.monotonic() + _SECONDS
        while time.monotonic() < deadline:
            if select.select([ours], [], [], 0.2)[0]:
                try:
                    screen += os.read(ours, 65536)
                except OSError:  # the other side has closed it
                    break
        os.close(ours)
        code = running.wait(timeout=10)
        return code, re.sub(r"\x1b\[[?\d;]*[a-zA-Z]", "", screen.decode()).replace("\r", "")


def without_prose(stderr: str) -> str:
    """Return only the reasons of an API server's refusals, and that it warns."""
    reasons = re.findall(r"Error from server \((\w+)\)", stderr)
    reasons += ["Invalid"] * len(re.findall(r"^The .* is invalid:", stderr, re.MULTILINE))
    if reasons:
        return "\n".join(sorted(reasons))
    stderr = re.sub(r"( is invalid| is not supported by [^:]*): .*", r"\1", stderr)
    return re.sub(r"^Warning: .*$", "Warning", stderr, flags=re.MULTILINE)


def compare(scene: Scene, real: Kubectl, other: Kubectl) -> dict[str, list[str]]:
    """Return the lines that differ, by the step's title: `-` on the real one, `+` on the other."""
    alone = real.kubeconfig == other.kubeconfig  # one server: the scenes would share its kinds
    with ThreadPoolExecutor(1 if alone else 2) as pool:
        ours, theirs = pool.map(lambda kubectl: Stage(kubectl, scene).play(), (real, other))
    found = {title: differing(ours[title], theirs[title]) for title in ours}
    return {title: lines for title, lines in found.items() if lines}


def differing(real: list[str], other: list[str]) -> list[str]:
    """Return the lines of a diff without its headers."""
    lines = list(difflib.unified_diff(real, other, n=0, lineterm=""))[2:]
    return [line for line in lines if not line.startswith("@@")]


def _main() -> None:
    from tests.practice.scenes import SCENES  # noqa: PLC0415 -- it is made of what is above

    real, other, *wanted = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        sides = []
        for name, kubeconfig in (("real", real), ("other", other)):
            home = Path(folder) / name
            home.mkdir()
            sides.append(Kubectl(machine.kubectl(), Path(kubeconfig).absolute(), home))
        for scene in SCENES:
            if wanted and scene.name not in wanted:
                continue
            begun = time.monotonic()
            differences = compare(scene, *sides)
            seconds = time.monotonic() - begun
            told = f"== {scene.name}: {len(differences)} of {len(scene.steps)}, {seconds:.0f} s\n"
            for title, lines in differences.items():
                told += "\n  ".join([f"* {title}", *lines]) + "\n"
            sys.stdout.write(told)
            sys.stdout.flush()


if __name__ == "__main__":
    _main()
