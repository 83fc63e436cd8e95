"""Tables of a large cluster: up to 10,000 tasks, tasks of up to 1,000 nodes, a long queue."""

import base64
import json
import re
import statistics
import urllib.request
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import pairwise
from urllib.parse import urlsplit

import yaml

from kubectl_sky.cluster import access, objects
from kubectl_sky.cluster.connection import Connection
from kubectl_sky.cluster.session import Session
from kubectl_sky.words import kinds, names
from programs.bench import pretend
from programs.bench.harness import Bench, Run, median
from tests.cluster import multikueue
from tests.polling import eventually

_TASKS = (100, 1_000, 10_000)
_NODES = (10, 100, 1_000)
_QUEUED = 1_000
_TASK = """
name: idle
num_nodes: {}
resources: {{image_id: "busybox:1.36", cpus: 1, memory: 1}}
run: "true"
"""
_READS = (
    "kubectl get jobs",
    "kubectl-sky list",
    "kubectl-sky list -A",
    "kubectl-sky list -o json",
    "kubectl-sky status b0000000",
    "kubectl-sky doctor b0000000",
    "kubectl-sky gpus",
    "kubectl-sky usage",
)
_ANSWERED = re.compile(r" [1-5]\d\d in \d+ ms$", re.MULTILINE)
_IN_ETCD = ("jobs", "pods", "configmaps", "secrets", "services/specs", "endpointslices", "events")


class Growth:
    """What commands took, by the number of objects beside them."""

    def __init__(self, bench: Bench, sizes: tuple[int, ...]) -> None:
        self.bench = bench
        self.sizes = sizes[:1] if bench.short else sizes
        self.runs: dict[str, list[list[Run]]] = {}
        self.requests: dict[str, int] = {}

    def time(self, line: str, once: bool = False) -> None:
        """Time a command; if it may run several times, count its requests, too."""
        rounds = 1 if once or self.bench.short else 3
        self.runs.setdefault(line, []).append([self.bench.time(line) for _ in range(rounds)])
        if not once and line.startswith("kubectl-sky"):
            self.requests[line] = len(_ANSWERED.findall(self.bench.time(f"{line} -v=6").stderr))

    def table(self, name: str) -> None:
        """Print the seconds at each size, and the rest for the largest."""
        rows = []
        for line, by_size in self.runs.items():
            seconds = [median(runs) for runs in by_size]
            largest = by_size[-1]
            requests = f"{self.requests[line]:,}" if line in self.requests else ""
            rows.append(
                (
                    f"`{line}`",
                    *(f"{value:.2f}" for value in seconds),
                    *(f"{last / before:.1f}" for before, last in pairwise(seconds[-2:])),
                    f"{statistics.median(run.processor for run in largest):.2f}",
                    f"{max(run.megabytes for run in largest):.0f}",
                    requests,
                )
            )

        growth = ["growth"] * (len(self.sizes) > 1)
        head = ("command", *(f"{size:,}: s" for size in self.sizes), *growth)
        self.bench.table(name, (*head, "processor s", "MB", "requests"), rows)


def open_session(bench: Bench) -> Session:
    return Session.connect(Connection(kubeconfig=bench.environment["KUBECONFIG"]))


def cluster_nodes(bench: Bench) -> AbstractContextManager[None]:
    """Pretend the cluster nodes that all tables need."""
    return pretend.cluster_nodes(bench, open_session(bench))


def _job(bench: Bench) -> pretend.Json:
    """Return the Job of a rendered task of one node."""
    bench.write("one.yaml", _TASK.format(1))
    text = bench.run("kubectl-sky render one.yaml --id bench002 --as-submitted")
    (job,) = (item for item in yaml.safe_load_all(text) if item["kind"] == "Job")
    return dict(job)


def run_tasks(bench: Bench, namespace: str, count: int) -> None:
    """Create tasks of one node, and wait until their pods run."""
    session = open_session(bench)
    pretend.submit(session, _job(bench), namespace, count)
    selector = "status.phase=Running"
    eventually(
        lambda: (
            len(objects.list_all(session, kinds.POD, namespace, field_selector=selector)) == count
        ),
        seconds=900,
    )


def tasks(bench: Bench) -> None:
    """Commands that read or delete many tasks of one node each."""
    growth = Growth(bench, _TASKS)
    for size in growth.sizes:
        with bench.namespace() as namespace:
            run_tasks(bench, namespace, size)
            for line in _READS:
                growth.time(line)
            growth.time("kubectl-sky stop --all --yes", once=True)
    growth.table("tasks")


def nodes(bench: Bench) -> None:
    """Commands on one task of many nodes, which run until they are stopped."""
    growth = Growth(bench, _NODES)
    stored: dict[str, list[str]] = {"jobs": [], "indexed": []}

    for size in growth.sizes:
        bench.write("many.yaml", _TASK.format(size))
        for backend, kept in stored.items():
            task = f"{backend[0]}0000001"
            with bench.namespace() as namespace:
                flags = f"--id {task} --backend {backend}"
                growth.time(f"kubectl-sky submit many.yaml --detach {flags}", once=True)
                bench.run(f"kubectl wait pod -l task-id={task} --for=condition=Ready --timeout=9m")
                kept.append(f"{_kilobytes(bench, namespace):,.0f}")
                growth.time(f"kubectl-sky status {task}")
                growth.time(f"kubectl-sky doctor {task}")
                growth.time(f"kubectl-sky stop {task} --yes", once=True)

    growth.table("nodes")
    head = ("KB in etcd", *(f"{size:,} nodes" for size in growth.sizes))
    bench.table("etcd", head, [(f"`{backend}`", *kept) for backend, kept in stored.items()])


def _kilobytes(bench: Bench, namespace: str) -> float:
    """Return what etcd keeps of a namespace's objects, without their history."""
    assert bench.cluster
    (cluster, *_) = yaml.safe_load(bench.cluster.kubeconfig.read_text())["clusters"]
    port = urlsplit(cluster["cluster"]["server"]).port or 0
    url = f"http://127.0.0.1:{port + 1}/v3/kv/range"  # tests/cluster/place.py chooses the port
    size = 0

    for kind in _IN_ETCD:
        ends = (f"/registry/{kind}/{namespace}{after}" for after in "/0")  # `0` follows `/`
        encoded = (base64.b64encode(end.encode()).decode() for end in ends)
        body = json.dumps(dict(zip(("key", "range_end"), encoded, strict=True)))
        with urllib.request.urlopen(url, body.encode()) as answer:
            pairs = json.load(answer).get("kvs", ())
        size += sum(
            len(base64.b64decode(pair[part])) for pair in pairs for part in ("key", "value")
        )

    return size / 1000


def submit(bench: Bench) -> None:
    """Submit a task of many nodes, beside kubectl with the same manifests."""
    size = _NODES[0 if bench.short else -1]
    bench.write("many.yaml", _TASK.format(size))

    @contextmanager
    def rendered() -> Iterator[None]:
        with bench.namespace() as namespace:
            text = bench.run(f"kubectl-sky render many.yaml -n {namespace} --id bench003")
            bench.write("all.yaml", text)
            yield

    ours = "kubectl-sky submit many.yaml --detach"
    lines = ("kubectl apply -f all.yaml", "kubectl create -f all.yaml", ours)
    bench.compare("submit", f"{size:,} nodes", lines, rounds=3, base=ours, around=rendered)


def queue(bench: Bench) -> None:
    """Commands beside many Jobs that wait in a queue of the real Kueue."""
    size = _TASKS[0] if bench.short else _QUEUED
    job = _job(bench)
    session = open_session(bench)
    job["metadata"]["labels"] |= {names.QUEUE: multikueue.QUEUE}
    job["spec"] |= {"suspend": True}
    bench.run(f"kubectl config set-context --current --namespace={multikueue.NAMESPACE}")
    kueue = bench.folder / "kueue"
    kueue.mkdir()
    bench.write("queues.json", multikueue.as_list(*multikueue.queues(stopPolicy="Hold")))
    assert bench.cluster

    with multikueue.kueue_with_webhooks(bench.cluster, kueue):
        bench.run("kubectl apply -f queues.json")
        pretend.submit(session, job, multikueue.NAMESPACE, size)
        eventually(
            lambda: len(access.list_kueue(session, kinds.QUEUED_WORKLOAD)) == size, seconds=300
        )
        growth = Growth(bench, (size,))
        for line in ("queues list", "queues status team", "list", "doctor b0000000"):
            growth.time(f"kubectl-sky {line}")
        growth.table("queue")
        bench.run("kubectl delete jobs --all")
        bench.run("kubectl delete -f queues.json")


# Kueue leaves its webhooks, which refuse Jobs when it ends.
TABLES = {"tasks": tasks, "nodes": nodes, "submit": submit, "queue": queue}
