"""Time how files reach the nodes of a task, beside `kubectl cp`, on the cluster of KUBECONFIG.

Both begin with nothing in the cluster and end when every node has its files: ours is one command,
kubectl's makes the pods, waits for them, and copies to each in turn.
"""

import json
import os
import random
import secrets
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from tests.bench import link, measure

NODES = 4
ROUNDS, FEW = 5, 3
IMAGE = "python:3.13-slim"
LARGE = 100_000_000  # bytes
LINK = 100_000_000  # bits a second, on the way to the cluster
SMALL, MANY = (1000, 3_000), (3000, 17_500)  # files, and bytes of each


@dataclass(frozen=True)
class Bench:
    """A folder with files, and a namespace of its own in the cluster."""

    kubectl: str
    folder: Path
    namespace: str
    kubeconfig: Path

    def run(self, *command: str, stdin: str = "") -> str:
        """Run a command in the folder; it has to go well."""
        environment = measure.environment() | {
            "XDG_CACHE_HOME": str(self.folder / "cache"),
            "KUBECTL_SKY_CONFIG_HOME": str(self.folder / "config"),
            "KUBECONFIG": str(self.kubeconfig),
        }
        done = subprocess.run(
            command,
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            cwd=self.folder,
            env=environment,
        )
        if done.returncode:
            raise SystemExit(f"{' '.join(command)}: {done.stderr}")
        return done.stdout

    def ask(self, *arguments: str, stdin: str = "") -> str:
        """Run kubectl."""
        return self.run(self.kubectl, "-n", self.namespace, *arguments, stdin=stdin)

    def submit(self, *arguments: str, workdir: str = "") -> None:
        """Submit a task that does nothing, and return when its nodes have their files."""
        sky = str(Path(sys.executable).parent / "kubectl-sky")
        task = f"run: 'true'\n{f'workdir: {workdir}' if workdir else ''}\n"
        self.run(sky, "submit", "-", "-d", "-n", self.namespace, *arguments, stdin=task)

    def clear(self) -> None:
        """Delete all that runs, and wait until it has gone."""
        self.ask("delete", "jobs,pods", "--all", "--wait", "--grace-period=1")

    def copy(self) -> None:
        """Do with kubectl what `submit` does: pods, and a copy to each in turn."""
        self.ask("apply", "-f", "-", stdin=json.dumps(pods()))
        self.ask("wait", "pod", "-l", "job-name=copy", "--for=condition=Ready", "--timeout=5m")
        names = self.ask("get", "pods", "-l", "job-name=copy", "-o", "name").split()
        for name in names:
            self.ask("cp", "large", f"{name.removeprefix('pod/')}:/root/sky_workdir")


def pods() -> dict[str, object]:
    """The pods that kubectl copies to."""
    container = {"name": "main", "image": IMAGE, "command": ["sleep", "600"]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "copy"},
        "spec": {
            "completions": NODES,
            "parallelism": NODES,
            "completionMode": "Indexed",
            "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
        },
    }


def code(folder: Path) -> None:
    """Fill a folder with Python's own modules, over and over."""
    modules = [path for path in sorted(Path(os.__file__).parent.glob("*/*.py")) if path.is_file()]
    size = number = 0
    while size < LARGE:
        place = folder / f"part{number // 50}"
        place.mkdir(parents=True, exist_ok=True)
        text = modules[number % len(modules)].read_bytes()
        (place / f"module{number}.py").write_bytes(text)
        size, number = size + len(text), number + 1


def fill(folder: Path, files: int, size: int) -> str:
    """Make files of words; return the folder's name."""
    chance = random.Random(1)
    words = ["".join(chance.choices("abcdefgh_", k=chance.randint(2, 11))) for _ in range(5000)]
    for number in range(files):
        place = folder / f"part{number % 50}"
        place.mkdir(parents=True, exist_ok=True)
        text = " ".join(chance.choices(words, k=size // 7))
        (place / f"file{number}.py").write_text(text.ljust(size, "\n")[:size])
    return folder.name


def timed(work: Callable[[], object]) -> float:
    """Return the seconds that something takes."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


@contextmanager
def ready() -> Iterator[Bench]:
    """Give a folder with the files, and a namespace that goes in the end."""
    kubectl = shutil.which("kubectl") or ""
    with tempfile.TemporaryDirectory() as name:
        kubeconfig = Path(os.environ["KUBECONFIG"])
        bench = Bench(kubectl, Path(name), f"bench-{secrets.token_hex(4)}", kubeconfig)
        code(bench.folder / "large")
        for folder, (files, size) in {"small": SMALL, "many": MANY}.items():
            fill(bench.folder / folder, files, size)
        bench.run(kubectl, "create", "namespace", bench.namespace)
        try:
            yield bench
        finally:
            bench.run(kubectl, "delete", "namespace", bench.namespace, "--wait=false")


def table() -> None:
    """Print the table, or why there is none."""
    if not (os.environ.get("KUBECONFIG") and shutil.which("kubectl")):
        print("\nHow files travel is timed beside kubectl, on the cluster of KUBECONFIG.")
        return
    with ready() as bench:
        print("\n| seconds | median | min to max | goal |\n|---|---|---|---|")
        what = f"100 MB of code to {NODES} nodes"
        ours, theirs = beside(bench, ROUNDS)
        compared(what, ours, theirs)
        with link.slow(bench.kubeconfig, LINK / 8, bench.folder) as kubeconfig:
            far, what = replace(bench, kubeconfig=kubeconfig), f"{what} over a link of 100 Mbit/s"
            ours, theirs = beside(far, FEW)
            compared(what, ours, theirs)
        row("1,000 small files: `submit --detach`, never seen before", first(bench), "< 1")
        row("the same without files", without(bench), "")
        row("52 MB in 3,000 files, unchanged: `submit --id` again adds", again(bench), "< 0.1")


def compared(what: str, ours: list[float], theirs: list[float]) -> None:
    """Print the rows of both."""
    row(f"{what}: pods, and `kubectl cp` to each in turn", theirs, "")
    against(f"{what}: `kubectl-sky submit`", ours, theirs)


def against(name: str, ours: list[float], theirs: list[float]) -> None:
    """Print our row, with the ratio to theirs."""
    ratio = statistics.median(ours) / statistics.median(theirs)
    row(name, ours, f"ratio < 0.33, is {ratio:.2f}")


def row(name: str, seconds: list[float], goal: str) -> None:
    """Print a row."""
    spread = f"{min(seconds):.2f} to {max(seconds):.2f}"
    print(f"| {name} | {statistics.median(seconds):.2f} | {spread} | {goal} |", flush=True)


def beside(bench: Bench, rounds: int) -> tuple[list[float], list[float]]:
    """Return the seconds of both, taken in turn."""
    ours, theirs = [], []
    for _ in range(rounds):
        theirs.append(timed(bench.copy))
        bench.clear()
        ours.append(timed(lambda: bench.submit("--num-nodes", str(NODES), workdir="large")))
        bench.clear()
    return ours, theirs


def first(bench: Bench) -> list[float]:
    """Return the seconds of a submit whose files have just been written."""
    seconds = []
    for number in range(ROUNDS):
        (bench.folder / "small" / "part0" / "new").write_text(str(number))
        seconds.append(timed(lambda: bench.submit(workdir="small")))
    bench.clear()
    return seconds


def without(bench: Bench) -> list[float]:
    """Return the seconds of a submit that brings nothing."""
    seconds = [timed(bench.submit) for _ in range(ROUNDS)]
    bench.clear()
    return seconds


def submitted(bench: Bench, task: str, workdir: str) -> None:
    """Submit what is there."""
    bench.submit("--id", task, workdir=workdir)


def again(bench: Bench) -> list[float]:
    """Return by how many seconds files make an unchanged submit longer."""
    tasks = {"bare0001": "", "files001": "many"}
    for task, workdir in tasks.items():
        submitted(bench, task, workdir)
    time.sleep(3)  # the files are at rest then, and the first of these remembers them
    taken = []
    for _ in range(ROUNDS + 1):
        bare, files = (timed(partial(submitted, bench, *task)) for task in tasks.items())
        taken.append(files - bare)
    bench.clear()
    return taken[1:]
