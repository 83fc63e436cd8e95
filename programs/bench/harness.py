"""Run command lines in turn; print their times, CPU times and memory as tables.

With `--write`, a table also replaces the one of its name in docs/scale.md,
between `<!-- table NAME -->` and `<!-- end -->`.
"""

import json
import os
import re
import secrets
import shlex
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from tests.cluster import cache, golang, machine
from tests.cluster.target import Cluster

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs" / "scale.md"
COMPARED = ("s", "min-max", "processor s", "MB", "lines", "ratio")
_ONCE = Path(__file__).with_name("once.py")
_STERN = ROOT / "tests" / "cluster" / "modules" / "stern"


@dataclass(frozen=True)
class Run:
    """One run of a program; the output is read to its end and counted."""

    seconds: float
    processor: float
    megabytes: float
    lines: int
    code: int
    stderr: str


@dataclass(frozen=True)
class Bench:
    """The programs that are timed, by PATH, and the folder where they run.

    A short run takes the smallest size of each table once, to see that the tables can be made.
    """

    folder: Path
    environment: Mapping[str, str]
    cluster: Cluster | None = None
    short: bool = False
    writes: bool = False

    @classmethod
    def install(cls, folder: Path) -> "Bench":
        """Install this checkout as a user does, from a wheel, and link the pinned kubectl."""
        programs = folder / "venv" / "bin"
        cache.say(f"installing the wheel into {programs.parent}")
        subprocess.run([sys.executable, "-m", "venv", str(programs.parent)], check=True)
        pip = [str(programs / "pip"), "install", "--quiet"]
        packages = [*map(str, (ROOT / "packages").iterdir()), str(ROOT)]
        subprocess.run([*pip, *packages], check=True)
        (programs / "kubectl").symlink_to(machine.kubectl())
        # Modules are compiled once, as wherever the program is installed.
        kept = {key: val for key, val in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
        changed = {
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "KUBECTL_SKY_CACHE_HOME": str(folder / "cache"),
            "KUBECTL_SKY_CONFIG_HOME": str(folder / "config"),
        }
        return cls(folder, kept | changed)

    def on(self, cluster: Cluster) -> "Bench":
        """Return it with a cluster, and with the pinned stern beside its kubectl."""
        programs = self.folder / "venv" / "bin"
        stern = golang.build("stern", _STERN, "github.com/stern/stern")
        (programs / "stern").symlink_to(stern)
        kubeconfig = self.folder / "kubeconfig"
        shutil.copy(cluster.kubeconfig, kubeconfig)
        environment = {**self.environment, "KUBECONFIG": str(kubeconfig)}
        return replace(self, cluster=cluster, environment=environment)

    def write(self, name: str, text: str) -> None:
        """Write a file into the folder."""
        (self.folder / name).write_text(text)

    def run(self, line: str) -> str:
        """Run what is not timed; return its output."""
        command = shlex.split(line)
        done = subprocess.run(
            command, capture_output=True, text=True, env=self.environment, cwd=self.folder
        )
        if done.returncode:
            raise SystemExit(f"`{line}` failed: {done.stderr[-2000:]}")
        return done.stdout

    def time(self, line: str) -> Run:
        """Run a program once. Raises SystemExit if it fails."""
        command = [sys.executable, "-S", str(_ONCE), *shlex.split(line)]
        output = subprocess.check_output(command, text=True, env=self.environment, cwd=self.folder)
        run = Run(**json.loads(output))
        if run.code:
            raise SystemExit(f"`{line}` failed ({run.code}): {run.stderr[-2000:]}")
        return run

    def compare(
        self,
        name: str,
        title: str,
        lines: Iterable[str],
        rounds: int,
        base: str = "",
        around: Callable[[], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        """Print a table of commands, each run once a round, so that a slow minute slows all.

        The ratio is that of the seconds to those of `base`, by default of the first command.
        """
        lines = list(lines)
        runs: dict[str, list[Run]] = {line: [] for line in lines}
        for _ in range(1 if self.short else rounds):
            for line in lines:
                with around():
                    runs[line].append(self.time(line))
        divisor = median(runs[base or lines[0]])
        rows = [compared(line, runs[line], divisor) for line in lines]
        self.table(name, (title, *COMPARED), rows)

    def table(self, name: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """Print a table, and with `--write` put it into the page that has its name."""
        first, *others = ("| " + " | ".join(row) + " |" for row in (head, *rows))
        text = "\n".join([first, "|" + "---|" * len(head), *others])
        print(f"\n{name}\n{text}", flush=True)
        mark = re.compile(rf"(?<=<!-- table {name} -->\n\n).*?(?=\n\n<!-- end -->)", re.DOTALL)
        if self.writes:
            PAGE.write_text(mark.sub(lambda _: text, PAGE.read_text()))

    @contextmanager
    def namespace(self) -> Iterator[str]:
        """A namespace that all programs use, deleted afterwards with its objects."""
        name = f"bench-{secrets.token_hex(3)}"
        self.run(f"kubectl create namespace {name}")
        self.run(f"kubectl config set-context --current --namespace={name}")
        try:
            yield name
        finally:
            self.run(f"kubectl delete namespace {name} --timeout=600s")


def median(runs: Sequence[Run]) -> float:
    """Return the median of the seconds."""
    return statistics.median(run.seconds for run in runs)


def compared(line: str, runs: Sequence[Run], divisor: float) -> Sequence[str]:
    """Return a command's row of a table of comparison."""
    seconds = [run.seconds for run in runs]
    return (
        f"`{line}`",
        f"{median(runs):.3g}",
        f"{min(seconds):.3g}-{max(seconds):.3g}",
        f"{statistics.median(run.processor for run in runs):.2g}",
        f"{max(run.megabytes for run in runs):.0f}",
        f"{runs[0].lines:,}",
        f"{median(runs) / divisor:.2f}",
    )
