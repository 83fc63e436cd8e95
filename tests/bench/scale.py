"""How commands grow with a cluster: `python -m tests.bench.scale [--write] [TABLE…]`.

On the real API server, with cluster nodes and pods that kwok pretends: 100, 1,000 and 10,000 tasks,
and tasks of 10, 100 and 1,000 nodes. What each command took goes into build/bench/scale.json; with
`--write` the tables go into docs/scale.md.
"""

import json
import re
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import yaml

from kubectl_sky.cluster import access, objects
from kubectl_sky.words import kinds, names
from tests.bench import etcd, kwok, link, measure, pretend, rest
from tests.bench.cluster import Bench, real
from tests.cluster import multikueue
from tests.cluster.target import Cluster
from tests.polling import eventually

ROUNDS = 3
CLUSTER_NODES = 1_000
TASKS = (100, 1_000, 10_000)
NODES = (10, 100, 1_000)
RAW = measure.ROOT / "build" / "bench" / "scale.json"
BARE = (sys.executable, "-m", "tests.bench.floor")
FLOOR = "floor: 16 parallel POSTs"
TASK = """
name: idle
num_nodes: {}
resources: {{image_id: "busybox:1.36", cpus: 1, memory: 1}}
run: "true"
"""
_ANSWERED = re.compile(r" [1-5]\d\d in \d+ ms$", re.MULTILINE)


@dataclass(frozen=True)
class Point:
    """What one command took with so many objects: medians; `kilobytes` came from the server."""

    command: str
    size: int
    seconds: float
    processor: float
    megabytes: float
    requests: int = 0
    kilobytes: int = 0


class Scale(Bench):
    """A large cluster, and the commands that are timed on it."""

    def __init__(self, cluster: Cluster, sky: str, folder: Path) -> None:
        super().__init__(cluster, sky, folder)
        self.points: list[Point] = []

    def timed(self, name: str, size: int, command: Sequence[str], rounds: int = ROUNDS) -> None:
        """Time a command; where it may run several times, count what it asks of the server, too."""
        runs = [measure.once(command, self.environment) for _ in range(rounds)]
        counted = self._traffic(command) if rounds > 1 and command[0] == self.sky else (0, 0)
        point = Point(
            name,
            size,
            measure.median(runs),
            statistics.median(run.processor for run in runs),
            max(run.megabytes for run in runs),
            *counted,
        )
        self.points.append(point)
        print(point, flush=True)

    def _traffic(self, command: Sequence[str]) -> tuple[int, int]:
        """Return the requests of a command, and the kilobytes of their answers, as compressed."""
        with link.linked(self.kubeconfig, self.folder) as (kubeconfig, counted):
            environment = {**self.environment, "KUBECONFIG": str(kubeconfig)}
            done = subprocess.run(
                [*command, "-v=6"], capture_output=True, text=True, env=environment, check=True
            )
            return len(_ANSWERED.findall(done.stderr)), counted.received // 1000

    def tasks(self) -> None:
        """Commands that read or end many tasks of one node each."""
        job = self._job()
        for size in TASKS:
            with self.namespace() as name:
                pretend.tasks(self.session, job, name, range(size), place)
                self._read(name, size)
                if size == TASKS[1]:
                    self._serve(name)
                stop = (self.sky, "stop", "--all", "--yes", "-n", name)
                self.timed("stop --all", size, stop, rounds=1)
            with self.namespace() as name:
                pretend.tasks(self.session, job, name, range(size), place)
                self.timed("floor: 16 parallel DELETEs", size, (*BARE, "delete", name), rounds=1)
            with self.namespace() as name:
                pretend.tasks(self.session, job, name, range(size))
                ids = (f"b{number:07d}" for number in range(TASKS[0]))
                self.timed(f"wait, {TASKS[0]} tasks", size, (self.sky, "wait", *ids, "-n", name))
                watch = (self.sky, "status", "b0000000", "--watch", "-n", name)
                self.timed("status TASK --watch", size, watch)
                ended = ("--older-than", "1s", "--yes", "-n", name)
                self.timed("clean", size, (self.sky, "clean", *ended), rounds=1)

    def _read(self, name: str, size: int) -> None:
        task = "b0000000"
        select = ("get", "jobs", "-n", name, "-l", "skypilot-task=true")
        self.timed("floor: pages of 500", size, (*BARE, "list", name))
        self.timed("kubectl get jobs", size, (self.kubectl, *select))
        for command in (
            ("list", "-n", name),
            ("list", "-A"),
            ("list", "-n", name, "-o", "json"),
            ("status", task, "-n", name),
            ("doctor", task, "-n", name),
            ("gpus",),
            ("usage", "-n", name),
        ):
            shown = " ".join(command).replace(f" -n {name}", "").replace(task, "TASK")
            self.timed(shown, size, (self.sky, *command))

    def _serve(self, name: str) -> None:
        """`GET /tasks` beside the raw list, in one run."""
        seconds = rest.medians(self, self.cluster.token(), name)
        base = next(iter(seconds.values()))
        rows = [
            (f"`{request}`", f"{1000 * taken:.0f}", f"{taken / base:.2f}")
            for request, taken in seconds.items()
        ]
        measure.table("rest", (f"{TASKS[1]:,} tasks", "ms", "ratio"), rows)

    def queue(self) -> None:
        """Commands beside a thousand Jobs that wait in a queue of the real Kueue."""
        size, job = TASKS[1], self._job()
        job["metadata"]["labels"] |= {names.QUEUE: multikueue.QUEUE}
        job["spec"] |= {"suspend": True}
        folder = self.folder / "kueue"
        folder.mkdir()
        with multikueue.kueue_with_webhooks(self.cluster, folder):
            text = multikueue.as_list(*multikueue.queues(stopPolicy="Hold"))
            manifest = self.folder / "queues.json"
            manifest.write_text(text)
            self.run(self.kubectl, "apply", "-f", str(manifest))
            pretend.queued(self.session, job, range(size))
            eventually(partial(self._all_queued, size), seconds=300)
            for command in (("queues", "list"), ("queues", "status", multikueue.QUEUE), ("list",)):
                self.timed(f"{' '.join(command)}, queued", size, (self.sky, *command))
            self.timed("doctor, queued", size, (self.sky, "doctor", "b0000000"))
            points = [point for point in self.points if point.command.endswith(", queued")]
            rows = [
                (
                    f"`{point.command.removesuffix(', queued')}`",
                    f"{point.seconds:.2f}",
                    f"{point.processor:.2f}",
                    f"{point.megabytes:.0f}",
                    str(point.requests),
                    f"{point.kilobytes:,}",
                )
                for point in points
            ]
            head = ("command", "s", "processor s", "MB", "requests", "KB from the server")
            measure.table("queue", head, rows)
            self.run(self.kubectl, "delete", "jobs", "--all", "-n", multikueue.NAMESPACE)
            self.run(self.kubectl, "delete", "-f", str(manifest))

    def _all_queued(self, count: int) -> bool:
        return len(access.list_kueue(self.session, kinds.QUEUED_WORKLOAD)) == count

    def _job(self) -> pretend.Json:
        """Return the Job of a rendered task of one node."""
        file = self.folder / "one.yaml"
        file.write_text(TASK.format(1))
        text = self.run(self.sky, "render", str(file), "--id", "bench002", "--as-submitted")
        (job,) = (item for item in yaml.safe_load_all(text) if item["kind"] == "Job")
        return dict(job)

    def nodes(self) -> None:
        """Commands on one task of many nodes, which run until they are stopped."""
        stored: dict[str, list[str]] = {}
        for size in NODES:
            file = self.folder / "many.yaml"
            file.write_text(TASK.format(size))
            for backend in ("jobs", "indexed"):
                with self.namespace() as name:
                    flags = ("-n", name, "--id", "bench003", "--backend", backend)
                    submit = (self.sky, "submit", str(file), *flags, "--detach")
                    after = f", {backend}"
                    self.timed(f"submit{after}", size, submit, rounds=1)
                    eventually(partial(self._all_run, name, size), seconds=600)
                    kept = etcd.kilobytes(self.kubeconfig, name)
                    stored.setdefault(backend, []).append(f"{kept:,.0f}")
                    for command in ("status", "doctor"):
                        self.timed(
                            f"{command}{after}", size, (self.sky, command, "bench003", "-n", name)
                        )
                    stop = (self.sky, "stop", "bench003", "--yes", "-n", name)
                    self.timed(f"stop{after}", size, stop, rounds=1)
        rows = [(f"`{backend}`", *kept) for backend, kept in stored.items()]
        measure.table("etcd", ("KB in etcd", *(f"{size:,} nodes" for size in NODES)), rows)

    def _all_run(self, namespace: str, count: int) -> bool:
        pods = objects.list_all(
            self.session, kinds.POD, namespace, field_selector="status.phase=Running"
        )
        return len(pods) == count

    def submits(self) -> None:
        """A task of many nodes beside kubectl and beside its bare requests."""
        file = self.folder / "many.yaml"
        file.write_text(TASK.format(NODES[-1]))
        runs: dict[str, list[measure.Run]] = {}
        for _ in range(ROUNDS):
            for which in ("`kubectl apply`", "`kubectl create`", FLOOR, "`submit`"):
                with self.namespace() as name:
                    flags = ("-n", name, "--id", "bench003")
                    rendered = self.folder / "all.yaml"
                    rendered.write_text(self.run(self.sky, "render", str(file), *flags))
                    from_file = ("-f", str(rendered))
                    commands: measure.Commands = {
                        "`kubectl apply`": (self.kubectl, "apply", *from_file),
                        "`kubectl create`": (self.kubectl, "create", *from_file),
                        FLOOR: (*BARE, "create", str(rendered)),
                        "`submit`": (self.sky, "submit", str(file), *flags, "--detach"),
                    }
                    run = measure.once(commands[which], self.environment)
                    runs.setdefault(which, []).append(run)
        rows = measure.compared(runs, "`submit`")
        measure.table("submit", (f"{NODES[-1]:,} nodes", *measure.COMPARED), rows)

    def publish(self) -> None:
        """Write the points, and print a table of all commands."""
        RAW.parent.mkdir(parents=True, exist_ok=True)
        RAW.write_text(json.dumps([asdict(point) for point in self.points], indent=1) + "\n")
        commands = dict.fromkeys(point.command for point in self.points)
        for name, sizes in (("tasks", TASKS), ("nodes", NODES)):
            rows = []
            for command in commands:
                points = {point.size: point for point in self.points if point.command == command}
                if set(points) == set(sizes):
                    rows.append(_row(command, [points[size] for size in sizes]))
            head = ("command", *(f"{size:,}: s" for size in sizes))
            more = ("growth", "processor s", "MB", "requests", "KB from the server")
            if rows:
                measure.table(name, (*head, *more), rows)


def _row(command: str, points: Sequence[Point]) -> Sequence[str]:
    largest = points[-1]
    return (
        f"`{command}`",
        *(f"{point.seconds:.2f}" for point in points),
        f"{points[-1].seconds / points[-2].seconds:.1f}",
        f"{largest.processor:.2f}",
        f"{largest.megabytes:.0f}",
        f"{largest.requests:,}" if largest.requests else "",
        f"{largest.kilobytes:,}" if largest.kilobytes else "",
    )


def place(number: int) -> str:
    """Return the cluster node of a task: none has more pods than its GPUs."""
    return kwok.node(number % CLUSTER_NODES)


TABLES = {
    "tasks": Scale.tasks,
    "nodes": Scale.nodes,
    "submit": Scale.submits,
    "queue": Scale.queue,
}


def main() -> None:
    """Bring the cluster up, measure, and take it down."""
    kwok.program()
    with real() as (cluster, sky, folder):
        scale = Scale(cluster, sky, folder)
        with kwok.nodes(cluster, scale.session, CLUSTER_NODES, folder):
            for table in measure.arguments() or TABLES:
                TABLES[table](scale)
                scale.publish()


if __name__ == "__main__":
    main()
