"""Time commands beside kubectl and stern on a real cluster: `python -m tests.bench.cluster [NAME]`.

`list` in an empty namespace, and `logs` of 1, 10 and 100 pods. With `--write`, the tables take
the place of those in docs/performance.md. `tests.bench.scale` times others.
"""

import os
import secrets
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kubectl_sky.cluster.session import Connection, Session
from tests.bench import measure
from tests.cluster import golang
from tests.cluster.hold import Holder
from tests.cluster.target import Cluster

ROUNDS = 3
LOGS = {1: 100_000, 10: 100_000, 100: 10_000}  # lines of each pod, by the number of pods
STARTS = 21
ROOT = Path(__file__).parent.parent.parent
STERN = ROOT / "tests" / "cluster" / "modules" / "stern"
WRITER = """
name: writer
num_nodes: {pods}
resources: {{image_id: "busybox:1.36", cpus: 0.01, memory: 0.02}}
run: |
  awk 'BEGIN {{ for (i = 0; i < {lines}; i++) printf "line %06d: some forty characters\\n", i }}'
"""


class Bench:
    """A cluster, and the programs that are timed on it."""

    def __init__(self, cluster: Cluster, sky: str, folder: Path) -> None:
        assert cluster.kubectl
        self.cluster = cluster
        self.kubectl = str(cluster.kubectl)
        self.kubeconfig = cluster.kubeconfig
        self.sky = sky
        self.folder = folder
        self.environment = {
            **measure.environment(),
            "KUBECONFIG": str(cluster.kubeconfig),
            "KUBECTL_SKY_CACHE_HOME": str(folder / "cache"),
            "KUBECTL_SKY_CONFIG_HOME": str(folder / "config"),
        }
        self.session = Session.connect(Connection(kubeconfig=str(cluster.kubeconfig)))

    def run(self, *command: str) -> str:
        """Run what is not timed; return what it prints."""
        done = subprocess.run(command, capture_output=True, text=True, env=self.environment)
        if done.returncode:
            raise SystemExit(f"`{' '.join(command)}` failed: {done.stderr[-2000:]}")
        return done.stdout

    @contextmanager
    def namespace(self) -> Iterator[str]:
        """A namespace that is gone afterwards, with all that is in it."""
        name = f"bench-{secrets.token_hex(3)}"
        self.run(self.kubectl, "create", "namespace", name)
        try:
            yield name
        finally:
            self.run(self.kubectl, "delete", "namespace", name, "--timeout=600s")

    def write(self, name: str, text: str) -> str:
        """Write a file; return where."""
        (self.folder / name).write_text(text)
        return str(self.folder / name)

    def logs(self) -> None:
        """Of one pod, and of many."""
        for pods, lines in LOGS.items():
            self.logs_of(pods, lines)

    def logs_of(self, pods: int, lines: int) -> None:
        """All lines of a task that has ended."""
        stern = str(golang.build("stern", STERN, "github.com/stern/stern"))
        file = self.write("writer.yaml", WRITER.format(pods=pods, lines=lines))
        task = "bench001"
        with self.namespace() as name:
            self.run(self.sky, "submit", file, "-n", name, "--id", task, "--detach")
            self.run(self.sky, "wait", task, "-n", name, "--timeout", "10m")
            select = ("-n", name, "-l", f"task-id={task}", f"--max-log-requests={pods}")
            commands: measure.Commands = {
                "`kubectl-sky logs`": (self.sky, "logs", task, "-n", name),
                "`kubectl-sky logs --by-node`": (self.sky, "logs", task, "-n", name, "--by-node"),
                "`kubectl-sky logs -f`": (self.sky, "logs", task, "-n", name, "-f"),
                "`kubectl-sky logs -o json`": (self.sky, "logs", task, "-n", name, "-o", "json"),
                "`stern --no-follow`": (stern, *select, "--no-follow", "--color=never"),
                "`kubectl logs -l … --prefix`": (
                    self.kubectl,
                    "logs",
                    *select,
                    "--prefix",
                    "--tail=-1",
                ),
            }
            runs = measure.in_turn(commands, self.environment, ROUNDS)
        head = (f"{pods} pods of {lines:,} lines", *measure.COMPARED)
        measure.table(f"logs of {pods}", head, measure.compared(runs, "`stern --no-follow`"))

    def start(self) -> None:
        """Of nothing: what remains is the start of the programs."""
        with self.namespace() as name:
            commands: measure.Commands = {
                "`kubectl get jobs`": (self.kubectl, "get", "jobs", "-n", name),
                "`kubectl-sky list`": (self.sky, "list", "-n", name, "--all-users"),
            }
            runs = measure.in_turn(commands, self.environment, STARTS)
        measure.table("start", ("in an empty namespace", *measure.COMPARED), measure.compared(runs))


TABLES = {"start": Bench.start, "logs": Bench.logs}


@contextmanager
def real() -> Iterator[tuple[Cluster, str, Path]]:
    """Give a cluster, the installed program, and a folder."""
    sky = str(measure.installed() / "kubectl-sky")
    holder = Holder.start(os.environ)
    try:
        with tempfile.TemporaryDirectory() as folder:
            yield holder.cluster(), sky, Path(folder)
    finally:
        holder.stop()


if __name__ == "__main__":
    with real() as given:
        for name in measure.arguments() or TABLES:
            TABLES[name](Bench(*given))
