"""The real command against both clusters: `sky` runs it, `kubectl` is kubectl."""

import fcntl
import json
import os
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.target import Cluster
from tests.e2e import forked

ROOT = Path(__file__).parents[2]
PROGRAM = (sys.executable, "-m", "kubectl_sky")
Done = subprocess.CompletedProcess[str]


@dataclass(frozen=True)
class Command:
    """A program with an environment of its own; calling it runs it to its end."""

    program: tuple[str, ...]
    environment: Mapping[str, str]
    folder: Path
    started: list[subprocess.Popen[str]] = field(default_factory=list, compare=False)

    def __call__(self, *arguments: str, stdin: str = "", timeout: float = 120) -> Done:
        """Run, and return what came of it; the streams are apart."""
        return subprocess.run(
            [*self.program, *arguments],
            cwd=self.folder,
            env=self.environment,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def start(self, *arguments: str, terminal: int | None = None) -> subprocess.Popen[str]:
        """Start it and return at once; it has pipes, or a terminal for all streams."""
        pipe = subprocess.PIPE if terminal is None else terminal
        process = subprocess.Popen(
            [*self.program, *arguments],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL if terminal is None else terminal,
            stdout=pipe,
            stderr=pipe,
            text=True,
            start_new_session=terminal is not None,
            preexec_fn=heed if terminal is None else partial(_control, terminal),
        )
        self.started.append(process)
        return process

    def end(self) -> None:
        """End what was started: what a failed test leaves would fail another one, by a warning."""
        for process in self.started:
            process.kill()
            with process:  # closes its pipes
                pass

    def json(self, *arguments: str) -> Any:
        """Run with `-o json`, which has to go well, and return what it printed."""
        done = self(*arguments, "-o", "json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def write(self, name: str, text: str) -> str:
        """Write a file into the folder where the program runs; return its name."""
        (self.folder / name).write_text(text)
        return name


class Forked(Command):
    """This program, run to its end in a fork; `start` runs a process of its own.

    The interpreter has started before: the environment's variables are the program's only. With
    another program instead, it is a Command like others.
    """

    def __call__(self, *arguments: str, stdin: str = "", timeout: float = 120) -> Done:
        """Run, and return what came of it; the streams are apart."""
        if self.program != PROGRAM:
            return super().__call__(*arguments, stdin=stdin, timeout=timeout)
        return forked.run(arguments, self.folder, self.environment, stdin, timeout)


def heed() -> None:
    """Heed signals that a program would ignore from its start where the tests do."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def _control(terminal: int) -> None:
    """Make the terminal the one whose Ctrl-C interrupts the program."""
    fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
    heed()


def submitted(done: Done) -> str:
    """Return the id that submit printed first."""
    word = done.stdout.split(maxsplit=1)[0] if done.stdout else ""
    kind, _, found = word.partition("/")
    assert kind in ("task", "pipeline", "group"), f"{done.stdout}\n{done.stderr}"
    return found


@pytest.fixture
def environment(cluster: Cluster, namespace: str, tmp_path: Path) -> dict[str, str]:
    """A home of its own, and a kubeconfig whose contexts begin in the test's namespace."""
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    for context in config["contexts"]:
        context["context"]["namespace"] = namespace
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(json.dumps(config))
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return home(tmp_path) | {"KUBECONFIG": str(kubeconfig), "PATH": path}


def home(folder: Path) -> dict[str, str]:
    """An environment that knows a home, and this checkout, whichever one is installed."""
    return {"HOME": str(folder), "PYTHONPATH": str(ROOT), "LC_ALL": "C.UTF-8"}


@pytest.fixture
def offline(tmp_path: Path) -> Command:
    """This program, with neither a cluster nor a login."""
    environment = home(tmp_path) | {"PATH": os.environ["PATH"]}
    return Forked(PROGRAM, environment, tmp_path)


@pytest.fixture
def sky(environment: dict[str, str], tmp_path: Path) -> Iterator[Command]:
    """This program, logged in as `tester`."""
    command = Forked(PROGRAM, environment, tmp_path)
    assert command("auth", "login", "tester").returncode == 0
    yield command
    command.end()


@pytest.fixture
def kubectl(environment: dict[str, str], cluster: Cluster, tmp_path: Path) -> Command:
    """kubectl, which finds this program as a plugin."""
    if not cluster.kubectl:
        pytest.skip("NO KUBECTL: there is none on PATH, and none can be built")
    return Command((str(cluster.kubectl),), environment, tmp_path)
