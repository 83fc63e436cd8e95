"""Time commands beside kubectl and stern on a real cluster: `python -m tests.bench.cluster [NAME]`.

`logs` of 1, 10 and 100 pods; `list` of 1,000 and 10,000 tasks with their pods, which are objects
that nothing runs; `submit` of 1,000 nodes beside `kubectl apply` of the same manifests.
"""

import os
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from kubectl_sky.cluster.session import Connection, Session
from tests.bench import measure, pretend
from tests.cluster import golang
from tests.cluster.hold import Holder
from tests.cluster.target import Cluster

ROUNDS = 3
LOGS = {1: 100_000, 10: 100_000, 100: 10_000}  # lines of each pod, by the number of pods
TASKS = (1_000, 10_000)
NODES = 1_000
ROOT = Path(__file__).parent.parent.parent
STERN = ROOT / "tests" / "cluster" / "modules" / "stern"
SKY = (sys.executable, "-m", "kubectl_sky")
WRITER = """
name: writer
num_nodes: {pods}
resources: {{image_id: "busybox:1.36", cpus: 0.01, memory: 0.02}}
run: |
  awk 'BEGIN {{ for (i = 0; i < {lines}; i++) printf "line %06d: some forty characters\\n", i }}'
"""
IDLE = (
    "name: idle\nnum_nodes: {}\nresources: {{image_id: 'busybox:1.36', cpus: 900}}\nrun: 'true'\n"
)


class Bench:
    """A cluster, and the programs that are timed on it."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        assert cluster.kubectl
        self.kubectl = str(cluster.kubectl)
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
        done = subprocess.run(
            command, check=True, capture_output=True, text=True, env=self.environment
        )
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
            self.run(*SKY, "submit", file, "-n", name, "--id", task, "--detach")
            self.run(*SKY, "wait", task, "-n", name, "--timeout", "10m")
            select = ("-n", name, "-l", f"task-id={task}", f"--max-log-requests={pods}")
            commands: measure.Commands = {
                "`kubectl-sky logs`": (*SKY, "logs", task, "-n", name),
                "`kubectl-sky logs -f`": (*SKY, "logs", task, "-n", name, "-f"),
                "`kubectl-sky logs -o json`": (*SKY, "logs", task, "-n", name, "-o", "json"),
                "`stern`": (stern, *select, "--no-follow", "--color=never"),
                "`kubectl logs -l`": (self.kubectl, "logs", *select, "--prefix", "--tail=-1"),
            }
            runs = measure.in_turn(commands, self.environment, ROUNDS)
        measure.table(f"logs of {pods} pods of {lines:,} lines", runs)

    def lists(self) -> None:
        """Tasks that have ended."""
        text = self.run(*SKY, "render", self.write("idle.yaml", IDLE.format(1)), "--id", "bench002")
        (job,) = (item for item in yaml.safe_load_all(text) if item["kind"] == "Job")
        with self.namespace() as name:
            made = 0
            for tasks in TASKS:
                pretend.tasks(self.session, job, name, range(made, tasks))
                made = tasks
                select = ("get", "jobs", "-n", name, "-l", "skypilot-task=true")
                listed = (*SKY, "list", "-n", name, "--all-users")
                commands: measure.Commands = {
                    "`kubectl get jobs`": (self.kubectl, *select),
                    "`kubectl get jobs,pods`": (self.kubectl, "get", "jobs,pods", *select[2:]),
                    "`kubectl-sky list`": listed,
                    "`kubectl-sky list -o wide`": (*listed, "-o", "wide"),
                }
                runs = measure.in_turn(commands, self.environment, ROUNDS)
                measure.table(f"list of {tasks:,} tasks and their pods", runs)

    def submits(self) -> None:
        """Jobs that never start, in a new namespace each time."""
        file = self.write("idle.yaml", IDLE.format(NODES))
        runs: dict[str, list[measure.Run]] = {"`kubectl apply`": [], "`kubectl-sky submit`": []}
        for _ in range(ROUNDS):
            for which, durations in runs.items():
                with self.namespace() as name:
                    flags = ("-n", name, "--id", "bench003")
                    rendered = self.write("all.yaml", self.run(*SKY, "render", file, *flags))
                    ours = which != "`kubectl apply`"
                    command = (*SKY, "submit", file, *flags, "--detach")
                    theirs = (self.kubectl, "apply", "-f", rendered)
                    durations.append(measure.once(command if ours else theirs, self.environment))
        measure.table(f"submit of {NODES:,} nodes", runs)


TABLES = {"logs": Bench.logs, "list": Bench.lists, "submit": Bench.submits}


def main() -> None:
    """Print the tables."""
    holder = Holder.start(os.environ)
    try:
        with tempfile.TemporaryDirectory() as folder:
            bench = Bench(holder.cluster(), Path(folder))
            for name in sys.argv[1:] or TABLES:
                TABLES[name](bench)
    finally:
        holder.stop()


if __name__ == "__main__":
    main()
