"""Forecasts beside what then happens: random states, the real scheduler and the real Kueue.

kwok has the cluster nodes, so that nothing runs. All states are made at once, each with its own
cluster nodes or its own cohort; then all forecasts are made, then all tasks.
"""

import json
import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic, sleep
from typing import Any, NamedTuple

import pytest

from kubectl_sky.observe.admission import QueueState
from kubectl_sky.observe.forecast import ClusterState, Demand, Forecast, LocalQueue, forecast
from kubectl_sky.observe.queues import queues
from kubectl_sky.plan.quota import Pods
from kubectl_sky.words import age, names
from kubectl_sky.words.core_objects import Node, PriorityClass
from kubectl_sky.words.pod_objects import Pod, PodSpec
from kubectl_sky.words.scheduled_objects import KueueQueue, QueuedWorkload, ResourceFlavor
from tests.cluster import kwok
from tests.cluster.target import Cluster
from tests.e2e.command import Command
from tests.e2e.kueue import API
from tests.e2e.support import wait_for_controller
from tests.reading import read_as, read_list

Json = dict[str, Any]

STATES = 100  # of each kind
SETTLED_SECONDS = 10  # without a change: Kueue decides within one or two
RESTLESS_SECONDS = 90
NODES_UNKNOWN = {"the cluster nodes: none can be listed"}
PRIORITIES = {"forecast-low": 10, "forecast-high": 1000}
HELD = {"key": "kwok", "operator": "Exists"}  # tolerates what keeps other pods away
QUEUE = "kueue.x-k8s.io/queue-name"
SPOT = {"key": "spot", "effect": "NoSchedule"}


@pytest.fixture
def cluster(real_cluster: Cluster) -> Cluster:
    """The real cluster: only it has a real scheduler, and the controllers."""
    return real_cluster


@pytest.fixture
def make(kubectl: Command) -> Callable[[list[Json]], None]:
    """Return what creates objects, many at a time."""

    def create(items: list[Json]) -> None:
        for start in range(0, len(items), 500):
            manifest = {"kind": "List", "apiVersion": "v1", "items": items[start : start + 500]}
            done = kubectl("create", "-f", "-", stdin=json.dumps(manifest))
            assert done.returncode == 0, done.stderr

    return create


def cpu_of(rng: random.Random, most: int) -> str:
    return str(rng.randint(1, most))


def pod_spec(cpu: str, **fields: Any) -> Json:
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}
    return {"containers": [container], "restartPolicy": "Never", **fields}


class Cells(NamedTuple):
    """The cluster nodes of one state, the pods that run there, and the pods of a task."""

    name: str
    nodes: list[Json]
    running: list[Json]
    spec: Json
    num_pods: int

    @property
    def pods(self) -> list[Json]:
        return [
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": f"{self.name}-task-{at}", "labels": {"state": self.name}},
                "spec": self.spec,
            }
            for at in range(self.num_pods)
        ]


def make_cells(seed: int) -> Cells:
    rng = random.Random(seed)
    name = f"cells-{seed}"
    nodes = []
    running = []
    labels_of_running = {"state": name, "role": "running"}
    for at in range(rng.randint(1, 4)):
        host = f"{name}-{at}"
        cpu = rng.randint(4, 10)
        size = {"cpu": str(cpu), "memory": "16Gi", "pods": str(rng.choice([1, 20, 20, 20]))}
        taints = [{"key": "kwok", "effect": "NoSchedule"}, *([SPOT] if rng.random() < 0.3 else [])]
        labels = {**kwok.LABELS, "state": name, "zone": rng.choice("ab")}
        nodes.append(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": host, "labels": labels},
                "spec": {"taints": taints, "unschedulable": rng.random() < 0.1},
                "status": {"capacity": size, "allocatable": size},
            }
        )
        most = 1 if size["pods"] == "1" else 6
        for number in range(rng.randint(0, most)):
            used = rng.randint(1, 4)
            if used > cpu:
                break
            cpu -= used
            priority = rng.choice(["", "forecast-low", "forecast-high"])
            fields = {"nodeName": host, "tolerations": [{"operator": "Exists"}]}
            running.append(
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": {"name": f"{host}-{number}", "labels": labels_of_running},
                    "spec": pod_spec(str(used), **fields, priorityClassName=priority),
                }
            )

    rules = [{"key": "zone", "operator": "In", "values": [rng.choice("ab")]}]
    affinity: Json = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": rules}]
            }
        }
    }
    more: Json = {"affinity": affinity} if rng.random() < 0.3 else {}
    spec = pod_spec(
        cpu_of(rng, 7),
        nodeSelector={"state": name},
        tolerations=rng.choice([[HELD], [HELD, {"key": "spot", "operator": "Exists"}]]),
        priorityClassName=rng.choice(["", "", "forecast-low", "forecast-high"]),
        **more,
    )
    return Cells(name, nodes, running, spec, rng.randint(1, 4))


@pytest.fixture
def priorities(kubectl: Command, make: Callable[[list[Json]], None]) -> Iterator[None]:
    make(
        [
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": name},
                "value": value,
            }
            for name, value in PRIORITIES.items()
        ]
    )
    yield
    kubectl("delete", "priorityclass", *PRIORITIES)


@pytest.mark.builds("kwok")
def test_forecasts_of_cluster_nodes_are_what_the_scheduler_does(
    cluster: Cluster,
    kubectl: Command,
    namespace: str,
    priorities: None,
    make: Callable[[list[Json]], None],
    tmp_path: Path,
) -> None:
    states = [make_cells(seed) for seed in range(STATES)]
    with kwok.running(cluster, tmp_path):
        try:
            make([node for state in states for node in state.nodes])
            wait_for_controller(lambda: are_ready(kubectl))
            make([pod for state in states for pod in state.running])
            wait_for_controller(lambda: not unsettled(kubectl))
            found = forecast_cells(kubectl, states)
            make([pod for state in states for pod in state.pods])
            wait_for_controller(lambda: not unsettled(kubectl))
            check_cells(kubectl, states, found)
        finally:
            kubectl("delete", "pods", "--all", "--force", "--wait=false")
            kubectl("delete", "nodes", "-l", "type=kwok", "--wait=false")


def are_ready(kubectl: Command) -> bool:
    nodes = kubectl.json("get", "nodes", "-l", "type=kwok")["items"]
    taints = [taint["key"] for node in nodes for taint in node["spec"].get("taints", ())]
    return "node.kubernetes.io/not-ready" not in taints


def unsettled(kubectl: Command) -> list[str]:
    """Return the pods that the scheduler has not decided about, or that are being deleted."""
    pods = []
    for pod in kubectl.json("get", "pods")["items"]:
        conditions = {it["type"] for it in pod["status"].get("conditions", ())}
        placed = bool(pod["spec"].get("nodeName"))
        refused = "PodScheduled" in conditions and "nominatedNodeName" not in pod["status"]
        if not (placed or refused) or "deletionTimestamp" in pod["metadata"]:
            pods.append(pod["metadata"]["name"])
    return pods


def forecast_cells(kubectl: Command, states: list[Cells]) -> dict[str, Forecast]:
    nodes = read_list(Node, kubectl.json("get", "nodes", "-l", "type=kwok")["items"])
    pods = read_list(Pod, kubectl.json("get", "pods")["items"])
    classes = read_list(PriorityClass, kubectl.json("get", "priorityclasses")["items"])
    seen = ClusterState(nodes, pods, classes)
    return {
        state.name: forecast(
            Demand([[Pods(read_as(PodSpec, state.spec), 1)]] * state.num_pods), seen
        )
        for state in states
    }


def check_cells(kubectl: Command, states: list[Cells], found: dict[str, Forecast]) -> None:
    pods = kubectl.json("get", "pods")["items"]
    by_name = {pod["metadata"]["name"]: pod for pod in pods}
    wrong = []
    for state in states:
        said = found[state.name]
        hosts = [by_name[pod["metadata"]["name"]]["spec"].get("nodeName") for pod in state.pods]
        gone = {
            f"{pod['metadata']['name']}"
            for pod in state.running
            if pod["metadata"]["name"] not in by_name
        }
        named = {text.partition("/")[2] for text in said.preempts}
        started = all(hosts)
        if started != (said.outlook == "now") or (started and gone != named):
            wrong.append((state.name, str(said), hosts, gone))
    assert not wrong, "\n".join(map(str, wrong))
    waits = {name for name, said in found.items() if said.outlook != "now"}
    assert len(waits) > STATES // 10, "the states are too easy"

    kubectl("delete", "pods", "-l", "role=running", "--force", "--wait=false")
    later = [state for state in states if found[state.name].outlook == "later"]
    never = [state for state in states if found[state.name].outlook == "never"]
    free = [it for it in later if not any(node["spec"]["unschedulable"] for node in it.nodes)]
    wait_for_controller(lambda: not {state.name for state in free} & find_waiting(kubectl))
    assert {state.name for state in never} <= find_waiting(kubectl)


def find_waiting(kubectl: Command) -> set[str]:
    """Return the states whose tasks have not started as a whole."""
    pods = kubectl.json("get", "pods")["items"]
    return {pod["metadata"]["labels"]["state"] for pod in pods if not pod["spec"].get("nodeName")}


class Cohort(NamedTuple):
    """The queues of one state, the jobs that use them, and the job of a task in the first one."""

    name: str
    objects: list[Json]
    jobs: list[Json]
    task: Json


def make_quota(rng: random.Random, is_in_cohort: bool) -> Json:
    nominal = rng.randint(0, 10)
    quota: Json = {"nominalQuota": str(nominal)}
    if is_in_cohort and rng.random() < 0.4:
        quota["borrowingLimit"] = str(rng.randint(0, 4))
    if is_in_cohort and rng.random() < 0.4:
        quota["lendingLimit"] = str(rng.randint(0, nominal))
    return quota


def make_preemption(rng: random.Random, is_in_cohort: bool) -> Json:
    """Return whom a queue preempts; a third of the queues preempt nothing."""
    within = rng.choice(["Never", "LowerPriority", "LowerOrNewerEqualPriority"])
    reclaim = rng.choice(["Never", "LowerPriority", "Any"]) if is_in_cohort else "Never"
    borrow: Json = {"policy": "Never"}
    if reclaim == "LowerPriority" and rng.random() < 0.4:
        borrow = {"policy": "LowerPriority"}
        if rng.random() < 0.5:
            borrow["maxPriorityThreshold"] = rng.choice([0, 10])
    return {
        "withinClusterQueue": within,
        "reclaimWithinCohort": reclaim,
        "borrowWithinCohort": borrow,
    }


def make_job(rng: random.Random, name: str, queue: str, cohort: str, role: str) -> Json:
    cpu = cpu_of(rng, 4)
    priority = rng.choice(["", "", "forecast-low", "forecast-high"])
    zone: Json = {"nodeSelector": {"zone": rng.choice("aab")}} if rng.random() < 0.3 else {}
    count = rng.randint(1, 2)
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "labels": {QUEUE: queue, "state": cohort, "role": role},
        },
        "spec": {
            "suspend": True,
            "parallelism": count,
            "completions": count,
            "template": {"spec": pod_spec(cpu, **zone, priorityClassName=priority)},
        },
    }


def make_cohort(seed: int, namespace: str) -> Cohort:
    rng = random.Random(seed)
    name = f"cohort-{seed}"
    objects: list[Json] = []
    zones = ["a", "b"][: rng.randint(1, 2)]
    for zone in zones:
        taints = [SPOT] if rng.random() < 0.15 else []
        spec = {"nodeLabels": {"zone": zone}, "nodeTaints": taints}
        metadata = {"name": f"{name}-{zone}", "labels": {"state": name}}
        flavor = {"apiVersion": API, "kind": "ResourceFlavor", "metadata": metadata, "spec": spec}
        objects.append(flavor)

    is_in_cohort = rng.random() < 0.7
    jobs = []
    for at in range(rng.randint(1, 3) if is_in_cohort else 1):
        queue = f"{name}-{at}"
        flavors = [
            {
                "name": f"{name}-{zone}",
                "resources": [{"name": "cpu", **make_quota(rng, is_in_cohort)}],
            }
            for zone in zones
        ]
        groups = [{"coveredResources": ["cpu"], "flavors": flavors}]
        selector = {"matchLabels": {"none": "such"}} if rng.random() < 0.05 else {}
        spec = {
            "namespaceSelector": selector,
            "resourceGroups": groups,
            "queueingStrategy": rng.choice(["StrictFIFO", "BestEffortFIFO"]),
            "flavorFungibility": {
                "whenCanBorrow": rng.choice(["MayStopSearch", "TryNextFlavor"]),
                "whenCanPreempt": rng.choice(["MayStopSearch", "TryNextFlavor"]),
            },
            "preemption": make_preemption(rng, is_in_cohort),
            **({"cohortName": name} if is_in_cohort else {}),
        }
        labels = {"state": name}
        objects += [
            {
                "apiVersion": API,
                "kind": "ClusterQueue",
                "metadata": {"name": queue, "labels": labels},
                "spec": spec,
            },
            {
                "apiVersion": API,
                "kind": "LocalQueue",
                "metadata": {"name": queue, "namespace": namespace},
                "spec": {"clusterQueue": queue},
            },
        ]
        jobs += [
            make_job(rng, f"{queue}-job-{number}", queue, name, "other")
            for number in range(rng.randint(0, 5))
        ]
    task = make_job(rng, f"{name}-task", f"{name}-0", name, "task")
    if rng.random() < 0.5:
        task["spec"]["template"]["spec"]["priorityClassName"] = "forecast-high"
    return Cohort(name, objects, jobs, task)


def test_forecasts_of_queues_are_what_kueue_does(
    kueue: None,
    kubectl: Command,
    namespace: str,
    priorities: None,
    make: Callable[[list[Json]], None],
) -> None:
    states = [make_cohort(seed, namespace) for seed in range(STATES)]
    try:
        make([item for state in states for item in state.objects])
        make([job for state in states for job in state.jobs])
        wait_for_controller(lambda: not undecided(kubectl, states))
        restless = settle(kubectl)
        states = [state for state in states if state.name not in restless]
        assert len(states) > 0.9 * STATES, restless
        wait_for_controller(lambda: are_counted(kubectl, states))
        found = forecast_queues(kubectl, states)
        make([state.task for state in states])
        wait_for_controller(lambda: not undecided(kubectl, states, with_tasks=True))
        settle(kubectl)
        check_queues(kubectl, states, found)
    finally:
        kubectl("delete", "jobs", "--all", "--wait=false")
        wait_for_controller(lambda: not reserved(kubectl))
        kubectl("delete", "localqueues", "--all", "--wait=false")
        for kind in ("clusterqueues", "resourceflavors"):
            kubectl("delete", kind, "-l", "state", "--wait=false")


def reserved(kubectl: Command) -> dict[str, bool | None]:
    """Return whether each job has its quota, by name; None if that is not decided."""
    result: dict[str, bool | None] = {}
    for item in kubectl.json("get", "workloads")["items"]:
        (owner,) = item["metadata"]["ownerReferences"]
        conditions = {it["type"]: it for it in item.get("status", {}).get("conditions", ())}
        decided = conditions.get("QuotaReserved")
        result[owner["name"]] = None if decided is None else decided["status"] == "True"
    return result


def settle(kubectl: Command) -> set[str]:
    """Wait until Kueue changes nothing; return the states in which it preempts for ever.

    There, a workload that was preempted gets quota again before the one that it went for.
    """
    seen: dict[str, bool | None] = {}
    changed: dict[str, float] = {}
    start = monotonic()
    while True:
        latest = reserved(kubectl)
        now = monotonic()
        changed |= {
            state_of(name): now for name, value in latest.items() if seen.get(name, ...) != value
        }
        seen = latest
        restless = {name for name, at in changed.items() if now - at < SETTLED_SECONDS}
        if not restless or now - start > RESTLESS_SECONDS:
            return restless
        sleep(1)


def state_of(job: str) -> str:
    """Return the state of a job: `cohort-7` of `cohort-7-0-job-1`."""
    return "-".join(job.split("-")[:2])


def find_preempted(kubectl: Command) -> dict[str, set[str]]:
    """Return which jobs were preempted for which workload, by the uid of that."""
    found: dict[str, set[str]] = defaultdict(set)
    for item in kubectl.json("get", "workloads")["items"]:
        (owner,) = item["metadata"]["ownerReferences"]
        for condition in item.get("status", {}).get("conditions", ()):
            uid = re.search(
                r"accommodate a workload \(UID: ([-0-9a-f]+)", condition.get("message", "")
            )
            if condition["type"] == "Preempted" and uid:
                found[uid[1]].add(owner["name"])
    return found


def are_counted(kubectl: Command, states: list[Cohort]) -> bool:
    """Return whether the status of the queues has what is reserved: Kueue writes it later."""
    known = reserved(kubectl)
    expected: dict[str, int] = defaultdict(int)
    for state in states:
        for job in state.jobs:
            expected[job["metadata"]["labels"][QUEUE]] += bool(known[job["metadata"]["name"]])
    counts = {
        item["metadata"]["name"]: item.get("status", {}).get("reservingWorkloads", 0)
        for item in kubectl.json("get", "clusterqueues")["items"]
    }
    return all(counts[queue] == count for queue, count in expected.items())


def undecided(kubectl: Command, states: list[Cohort], *, with_tasks: bool = False) -> list[str]:
    """Return the jobs that Kueue has not looked at, unless another one holds up its queue."""
    known = reserved(kubectl)
    jobs = [job for state in states for job in state.jobs]
    if with_tasks:
        jobs += [state.task for state in states]
    queue_of = {it["metadata"]["name"]: it["metadata"]["labels"][QUEUE] for it in jobs}
    held = {queue_of[name] for name, has_quota in known.items() if has_quota is False}
    return [
        name
        for name, queue in queue_of.items()
        if name not in known or (known[name] is None and queue not in held)
    ]


def forecast_queues(kubectl: Command, states: list[Cohort]) -> dict[str, Forecast]:
    cluster_queues = read_list(KueueQueue, kubectl.json("get", "clusterqueues")["items"])
    flavors = read_list(ResourceFlavor, kubectl.json("get", "resourceflavors")["items"])
    local = read_list(KueueQueue, kubectl.json("get", "localqueues")["items"])
    workloads = read_list(QueuedWorkload, kubectl.json("get", "workloads")["items"])
    classes = read_list(PriorityClass, kubectl.json("get", "priorityclasses")["items"])
    by_name = {item.metadata.name: item for item in cluster_queues}
    now = age.parse("2026-01-01T00:00:00Z")
    assert now
    shown = {queue.name: queue for queue in queues(local, by_name, workloads, now)}
    known = {item.metadata.name: item for item in flavors}

    result = {}
    for state in states:
        name = f"{state.name}-0"
        state_of_queue = QueueState(by_name[name], cluster_queues, (), known, workloads)
        item = next(it for it in local if it.metadata.name == name)
        spec = state.task["spec"]
        pods = Pods(read_as(PodSpec, spec["template"]["spec"]), spec["parallelism"])
        queue = LocalQueue(item, shown[name], state_of_queue, {})
        nothing = ClusterState(None, None, classes)
        result[state.name] = forecast(Demand([[pods]], queue=name), nothing, queue)
    return result


def check_queues(kubectl: Command, states: list[Cohort], found: dict[str, Forecast]) -> None:
    known = reserved(kubectl)
    preempted = find_preempted(kubectl)
    uids = {
        item["metadata"]["ownerReferences"][0]["name"]: item["metadata"]["uid"]
        for item in kubectl.json("get", "workloads")["items"]
    }
    wrong = []
    sure = []
    for state in states:
        said = found[state.name]
        if said.outlook == "now" and set(said.unchecked) - NODES_UNKNOWN:
            continue
        sure.append(said)
        task = state.task["metadata"]["name"]
        gone = preempted[uids[task]]
        named = {text.partition("/")[2] for text in said.preempts}
        if bool(known[task]) != (said.outlook == "now") or gone != named:
            wrong.append((state.name, str(said), known[task], gone))
    assert not wrong, "\n".join(map(str, wrong))
    assert len(sure) > 0.8 * STATES, "too little is told for sure"
    assert sum(bool(said.preempts) for said in sure) > STATES // 20, "too little is preempted"
    outlooks = {said.outlook for said in found.values()}
    assert outlooks == {"now", "later", "never"}, "the states are too easy"

    kubectl("delete", "jobs", "-l", "role=other", "--wait=false")
    later = [state for state in states if found[state.name].outlook == "later"]
    never = [state for state in states if found[state.name].outlook == "never"]
    wait_for_controller(
        lambda: all(reserved(kubectl)[state.task["metadata"]["name"]] for state in later)
    )
    known = reserved(kubectl)
    assert not [state.name for state in never if known[state.task["metadata"]["name"]]]


class Racks(NamedTuple):
    """The cluster nodes of one topology, the pods that run there, and a job that needs room."""

    name: str
    nodes: list[Json]
    running: list[Json]
    objects: list[Json]
    task: Json

    @property
    def level(self) -> str:
        annotations = self.task["spec"]["template"]["metadata"]["annotations"]
        return str(annotations.get(names.REQUIRED_TOPOLOGY, ""))


LEVELS = ["forecast/block", "forecast/rack", "kubernetes.io/hostname"]


def pod_of_memory(size: int, **fields: Any) -> Json:
    """A pod that requests GiB: the cluster says of each cluster node that it has 16 CPUs."""
    spec = pod_spec("0", **fields)
    spec["containers"][0]["resources"] = {"requests": {"memory": f"{size}Gi"}}
    return spec


def make_racks(seed: int, namespace: str) -> Racks:
    rng = random.Random(seed)
    name = f"racks-{seed}"
    nodes = []
    running = []
    for at in range(rng.randint(2, 6)):
        host = f"{name}-{at}"
        memory = rng.randint(2, 6)
        size = {"cpu": "16", "memory": f"{memory}Gi", "pods": "20"}
        place = {LEVELS[0]: rng.choice("ab"), LEVELS[1]: rng.choice("xy"), LEVELS[2]: host}
        labels = {**kwok.LABELS, "state": name, **place}
        if rng.random() < 0.1:
            del labels[LEVELS[1]]
        nodes.append(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": host, "labels": labels},
                "spec": {
                    "taints": [{"key": "kwok", "effect": "NoSchedule"}],
                    "unschedulable": rng.random() < 0.1,
                },
                "status": {"capacity": size, "allocatable": size},
            }
        )
        if used := rng.randint(0, memory):
            fields = {"nodeName": host, "tolerations": [{"operator": "Exists"}]}
            running.append(
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": {"name": host, "labels": {"state": name, "role": "running"}},
                    "spec": pod_of_memory(used, **fields),
                }
            )

    metadata = {"name": name, "labels": {"state": name}}
    flavor_spec = {"nodeLabels": {"state": name}, "topologyName": name, "tolerations": [HELD]}
    quota = {"name": "memory", "nominalQuota": "1000Gi"}
    groups = [{"coveredResources": ["memory"], "flavors": [{"name": name, "resources": [quota]}]}]
    queue_spec = {"namespaceSelector": {}, "resourceGroups": groups}
    levels = [{"nodeLabel": level} for level in LEVELS]
    objects = [
        {"apiVersion": API, "kind": "Topology", "metadata": metadata, "spec": {"levels": levels}},
        {"apiVersion": API, "kind": "ResourceFlavor", "metadata": metadata, "spec": flavor_spec},
        {"apiVersion": API, "kind": "ClusterQueue", "metadata": metadata, "spec": queue_spec},
        {
            "apiVersion": API,
            "kind": "LocalQueue",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"clusterQueue": name},
        },
    ]
    task = make_job(rng, f"{name}-task", name, name, "task")
    task["spec"] |= dict.fromkeys(("parallelism", "completions"), rng.randint(1, 5))
    level = rng.choice([None, *LEVELS])
    annotations = {names.REQUIRED_TOPOLOGY: level} if level else {}
    spec = pod_of_memory(rng.randint(1, 3))
    task["spec"]["template"] = {"metadata": {"annotations": annotations}, "spec": spec}
    return Racks(name, nodes, running, objects, task)


@pytest.mark.builds("kwok")
def test_forecasts_of_topologies_are_what_kueue_does(
    cluster: Cluster,
    kueue: None,
    kubectl: Command,
    namespace: str,
    make: Callable[[list[Json]], None],
    tmp_path: Path,
) -> None:
    states = [make_racks(seed, namespace) for seed in range(STATES // 2)]
    with kwok.running(cluster, tmp_path):
        try:
            make([node for state in states for node in state.nodes])
            wait_for_controller(lambda: are_ready(kubectl))
            make([pod for state in states for pod in state.running])
            make([item for state in states for item in state.objects])
            wait_for_controller(lambda: not unsettled(kubectl))
            wait_for_controller(lambda: are_active(kubectl))
            nodes = kubectl.json("get", "nodes", "-l", "type=kwok")["items"]
            pods = kubectl.json("get", "pods")["items"]
            found = {state.name: forecast_racks(nodes, pods, state) for state in states}
            make([state.task for state in states])
            tasks = {state.task["metadata"]["name"] for state in states}
            wait_for_controller(lambda: tasks <= reserved(kubectl).keys())
            settle(kubectl)
            check_racks(kubectl, states, found)
        finally:
            kubectl("delete", "jobs", "--all", "--wait=false")
            wait_for_controller(lambda: not reserved(kubectl))
            kubectl("delete", "pods", "--all", "--force", "--wait=false")
            kubectl("delete", "localqueues", "--all", "--wait=false")
            for kind in ("clusterqueues", "resourceflavors", "topologies"):
                kubectl("delete", kind, "-l", "state", "--wait=false")
            kubectl("delete", "nodes", "-l", "type=kwok", "--wait=false")


def are_active(kubectl: Command) -> bool:
    items = kubectl.json("get", "clusterqueues")["items"]
    states = [
        condition["status"]
        for item in items
        for condition in item.get("status", {}).get("conditions", ())
        if condition["type"] == "Active"
    ]
    return len(states) == len(items) and set(states) == {"True"}


def forecast_racks(all_nodes: list[Json], all_pods: list[Json], state: Racks) -> Forecast:
    nodes, pods = (
        [item for item in items if item["metadata"]["labels"]["state"] == state.name]
        for items in (all_nodes, all_pods)
    )
    (flavor,) = read_list(ResourceFlavor, [state.objects[1]])
    (cluster_queue, local) = read_list(KueueQueue, state.objects[2:])
    topologies = {state.name: LEVELS}
    of_queue = QueueState(
        cluster_queue, [cluster_queue], (), {state.name: flavor}, topologies=topologies
    )
    now = age.parse("2026-01-01T00:00:00Z")
    assert now
    (shown,) = queues([local], {state.name: cluster_queue}, [], now)
    spec = state.task["spec"]
    wanted = Pods(read_as(PodSpec, spec["template"]["spec"]), spec["parallelism"])
    demand = Demand([[wanted]], queue=state.name, level=state.level)
    cluster = ClusterState(read_list(Node, nodes), read_list(Pod, pods))
    return forecast(demand, cluster, LocalQueue(local, shown, of_queue, {}))


def check_racks(kubectl: Command, states: list[Racks], found: dict[str, Forecast]) -> None:
    known = reserved(kubectl)
    wrong = [
        (state.name, state.level, str(said))
        for state in states
        if (said := found[state.name]).unchecked
        or (said.outlook != "now" and known[state.task["metadata"]["name"]])
    ]
    assert not wrong, "\n".join(map(str, wrong))
    now = [state for state in states if found[state.name].outlook == "now"]
    wait_for_controller(lambda: not list_refused(kubectl, now))  # a node may just be not ready
    assert {said.outlook for said in found.values()} == {"now", "later", "never"}

    kubectl("delete", "pods", "-l", "role=running", "--force", "--wait=false")
    never = [state for state in states if found[state.name].outlook == "never"]
    later = [state for state in states if found[state.name].outlook == "later"]
    free = [it for it in later if not any(node["spec"]["unschedulable"] for node in it.nodes)]
    whole = [it for it in free if fits_in_one_domain(it)]
    assert whole
    wait_for_controller(lambda: not list_refused(kubectl, whole))
    assert len(list_refused(kubectl, never)) == len(never)


def list_refused(kubectl: Command, states: list[Racks]) -> list[str]:
    known = reserved(kubectl)
    return [state.name for state in states if not known[state.task["metadata"]["name"]]]


def fits_in_one_domain(state: Racks) -> bool:
    """Return whether a job fits in a domain of its level where nothing else runs."""
    spec = state.task["spec"]
    requests = spec["template"]["spec"]["containers"][0]["resources"]["requests"]
    size = int(requests["memory"].removesuffix("Gi"))
    down_to = LEVELS[: LEVELS.index(state.level) + 1] if state.level else []
    rooms: dict[tuple[str, ...], int] = defaultdict(int)
    for node in state.nodes:
        labels = node["metadata"]["labels"]
        if all(level in labels for level in LEVELS):
            domain = tuple(labels[level] for level in down_to)
            rooms[domain] += int(node["status"]["allocatable"]["memory"].removesuffix("Gi")) // size
    return max(rooms.values(), default=0) >= int(spec["parallelism"])
