"""What would happen to a task: cluster nodes, preemption, queues, and what could not be read."""

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from kubectl_sky.observe.admission import QueueState
from kubectl_sky.observe.forecast import ClusterState, Demand, Forecast, LocalQueue, forecast
from kubectl_sky.observe.queues import queues
from kubectl_sky.plan.quota import Pods
from kubectl_sky.words import age
from kubectl_sky.words.core_objects import Node, PriorityClass
from kubectl_sky.words.pod_objects import Pod, PodSpec
from kubectl_sky.words.scheduled_objects import KueueQueue, QueuedWorkload, ResourceFlavor
from tests.reading import read_as, read_list

Json = dict[str, Any]

NOW = age.parse("2026-01-01T06:00:00Z")
assert NOW


def make_node(name: str, cpu: str = "4", labels: Json | None = None, **spec: Any) -> Json:
    size = {"cpu": cpu, "memory": "16Gi", "pods": "20"}
    metadata = {"name": name, "labels": labels or {}}
    return {"metadata": metadata, "spec": spec, "status": {"allocatable": size}}


def make_spec(cpu: str = "1", **spec: Any) -> Json:
    return {"containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}], **spec}


def make_pod(name: str, host: str, cpu: str, owner: str = "", **spec: Any) -> Json:
    owners = [{"kind": owner, "name": "owner", "uid": "u"}] if owner else []
    metadata = {"name": name, "namespace": "team", "uid": name, "ownerReferences": owners}
    return {"metadata": metadata, "spec": make_spec(cpu, nodeName=host, **spec)}


def make_class(name: str, value: int, **fields: Any) -> Json:
    return {"metadata": {"name": name}, "value": value, **fields}


def ask(
    pods: int = 1,
    spec: Json | None = None,
    nodes: list[Json] | None = None,
    running: Sequence[Json] | None = (),
    queue: LocalQueue | None = None,
    **demand: Any,
) -> Forecast:
    items = [Pods(read_as(PodSpec, spec or make_spec()), 1)] * pods
    read_nodes = read_list(Node, nodes) if nodes else None
    pods_there = None if running is None else read_list(Pod, running)
    cluster = ClusterState(read_nodes, pods_there, read_list(PriorityClass, CLASSES))
    name = queue.item.metadata.name if queue else ""
    wanted = Demand([[item] for item in items], queue=name, **demand)
    return forecast(wanted, cluster, queue)


CLASSES = [make_class("high", 100), make_class("polite", 100, preemptionPolicy="Never")]
NODES = [make_node("n1"), make_node("n2")]
ZONES = [make_node("n1", labels={"zone": "a"}), make_node("n2", labels={"zone": "b"})]
FULL = [make_pod("a", "n1", "4"), make_pod("b", "n2", "3")]


@pytest.mark.parametrize(
    ("arguments", "outlook", "text"),
    [
        ({"nodes": NODES}, "now", "starts now on n1"),
        ({"pods": 2, "spec": make_spec("3"), "nodes": NODES}, "now", "starts now on n1, n2"),
        (
            {"nodes": NODES, "running": FULL, "pods": 2},
            "later",
            "waits: 1 of 2 nodes fit now: n2 has 1 CPU free, n1 has 0 CPUs free",
        ),
        (
            {"nodes": NODES, "running": FULL, "pods": 2, "independent": True},
            "now",
            "1 of 2 start now on n2",
        ),
        (
            {"nodes": NODES, "spec": make_spec("5")},
            "never",
            "never: the cluster nodes of today have room for 0 of 1 nodes:"
            " n1, n2 have 4 CPUs free each",
        ),
        (
            {
                "nodes": NODES,
                "spec": make_spec("4"),
                "running": [
                    make_pod("d1", "n1", "1", "DaemonSet"),
                    make_pod("d2", "n2", "1", "DaemonSet"),
                ],
            },
            "never",
            "never: the cluster nodes of today have room for 0 of 1 nodes",
        ),
        (
            {"nodes": [make_node("n1", unschedulable=True)]},
            "later",
            "waits: none of 1 nodes fit now: no cluster node accepts it",
        ),
        (
            {
                "nodes": [
                    make_node("n1", labels={"zone": "a"}),
                    make_node("n2", labels={"zone": "b"}),
                ],
                "pods": 2,
                "spec": make_spec("3"),
                "levels": ["zone"],
            },
            "later",
            "waits: 1 of 2 nodes fit now in one zone",
        ),
    ],
)
def test_task_starts_where_there_is_room(arguments: Json, outlook: str, text: str) -> None:
    found = ask(**arguments)

    assert found.outlook == outlook
    assert str(found).startswith(text)
    assert not found.unchecked


def test_task_of_high_priority_preempts_the_pods_that_cost_least() -> None:
    running = [
        make_pod("important", "n1", "4", priority=50),
        make_pod("small", "n2", "1", priority=10),
        make_pod("large", "n2", "3", priority=5),
    ]

    found = ask(nodes=NODES, running=running, spec=make_spec("2", priorityClassName="high"))

    assert found.preempts == ("team/large",)
    assert str(found) == "starts now on n2, and preempts team/large"


def test_task_whose_priority_does_not_preempt_waits() -> None:
    spec = make_spec("2", priorityClassName="polite")

    assert ask(nodes=NODES, running=FULL, spec=spec).outlook == "later"


def test_what_could_not_be_read_is_named() -> None:
    assert str(ask()) == (
        "fits what could be read: starts where there is room; not checked: the cluster nodes: none"
        " can be listed"
    )
    assert str(ask(nodes=NODES, running=None)) == (
        "fits what could be read: starts now on n1; not checked: what runs in other namespaces"
    )
    claims = make_spec(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}])
    assert ask(nodes=NODES, spec=claims).unchecked == ("where its volumes can be used",)
    assert ask(spec=claims).unchecked[1:] == ("where its volumes can be used",)


@pytest.mark.parametrize(
    ("fields", "unchecked"),
    [
        ({"hostNetwork": True}, "ports of the cluster nodes"),
        ({"schedulingGates": [{"name": "wait"}]}, "scheduling gate wait"),
        (
            {"topologySpreadConstraints": [{"whenUnsatisfiable": "DoNotSchedule"}]},
            "how its pods have to be spread",
        ),
        ({"topologySpreadConstraints": [{"whenUnsatisfiable": "ScheduleAnyway"}]}, ""),
        ({"schedulerName": "volcano"}, "scheduler volcano"),
    ],
)
def test_what_the_scheduler_looks_at_too_is_named(fields: Json, unchecked: str) -> None:
    found = ask(nodes=NODES, spec=make_spec(**fields))

    assert found.unchecked == ((unchecked,) if unchecked else ())


@pytest.mark.parametrize(
    ("host", "key", "unchecked"),
    [
        ("n1", "kubernetes.io/hostname", ("the rules of running pods",)),
        ("n2", "kubernetes.io/hostname", ()),
        ("n2", "zone", ("the rules of running pods",)),
    ],
)
def test_rules_of_running_pods_that_may_keep_the_task_away_are_named(
    host: str, key: str, unchecked: tuple[str, ...]
) -> None:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"skypilot-task": "true"}}}
    rules = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    running = [make_pod("a", host, "1", affinity={"podAntiAffinity": rules})]

    assert ask(nodes=NODES, running=running).unchecked == unchecked


def make_queue(used: str = "0", pending: list[int] | None = None, **spec: Any) -> LocalQueue:
    """A queue of 4 CPUs, whose flavor is the cluster nodes of zone b."""
    resources = [{"name": "cpu", "nominalQuota": 4}]
    groups = [{"flavors": [{"name": "zone-b", "resources": resources}]}]
    reserved = [{"name": "zone-b", "resources": [{"name": "cpu", "total": used}]}]
    cluster_queue = read_as(
        KueueQueue,
        {
            "metadata": {"name": "all"},
            "spec": {"namespaceSelector": {}, "resourceGroups": groups, **spec},
            "status": {"flavorsReservation": reserved, "pendingWorkloads": len(pending or ())},
        },
    )
    item = read_as(KueueQueue, {"metadata": {"name": "gold"}, "spec": {"clusterQueue": "all"}})
    waiting = [
        {"metadata": {"name": f"w{at}"}, "spec": {"queueName": "gold", "priority": priority}}
        for at, priority in enumerate(pending or ())
    ]
    workloads = read_list(QueuedWorkload, waiting)
    assert NOW
    (shown,) = queues([item], {"all": cluster_queue}, workloads, NOW)
    flavor = {"metadata": {"name": "zone-b"}, "spec": {"nodeLabels": {"zone": "b"}}}
    state = QueueState(
        cluster_queue, [cluster_queue], (), {"zone-b": read_as(ResourceFlavor, flavor)}
    )
    return LocalQueue(item, shown, state, {})


@pytest.mark.parametrize(
    ("queue", "cpu", "text"),
    [
        (make_queue(), "2", "queue gold admits it now with flavor zone-b; starts now on n2"),
        (
            make_queue("3"),
            "2",
            "waits in queue gold: it needs 1 more cpu of flavor zone-b;",
        ),
        (make_queue(), "6", "never: queue gold: cpu: requested 6, at most 4 of flavor zone-b"),
        (
            make_queue(pending=[5], queueingStrategy="StrictFIFO"),
            "1",
            "waits in queue gold: it admits in strict order; would be second in queue",
        ),
        (make_queue(pending=[5]), "1", "queue gold admits it now"),
        (make_queue(stopPolicy="Hold"), "1", "waits in queue gold: queue all is stopped"),
        (
            make_queue(admissionChecksStrategy={"admissionChecks": [{"name": "budget"}]}),
            "1",
            "fits what could be read: queue gold admits it now with flavor zone-b; starts now on"
            " n2; not checked: AdmissionCheck budget",
        ),
    ],
)
def test_task_in_a_queue_starts_when_it_is_admitted_and_has_room(
    queue: LocalQueue, cpu: str, text: str
) -> None:
    found = ask(spec=make_spec(cpu), nodes=ZONES, queue=queue)

    assert str(found).startswith(text)


def hold(queue: LocalQueue, name: str = "train-abc") -> LocalQueue:
    """Let a queue preempt for priority, and a Job of low priority hold all of its 4 CPUs."""
    item = read_as(
        QueuedWorkload,
        {
            "metadata": {
                "name": "w",
                "namespace": "team",
                "ownerReferences": [{"kind": "Job", "name": name, "uid": "uid-job"}],
            },
            "spec": {"queueName": "gold", "priority": 0},
            "status": {
                "conditions": [{"type": "QuotaReserved", "status": "True"}],
                "admission": {
                    "clusterQueue": "all",
                    "podSetAssignments": [
                        {"flavors": {"cpu": "zone-b"}, "resourceUsage": {"cpu": "4"}}
                    ],
                },
            },
        },
    )
    state = queue.cluster_queue
    assert state
    known = [item] if name else []
    return replace(queue, cluster_queue=replace(state, workloads=known))


LOWER: Json = {"preemption": {"withinClusterQueue": "LowerPriority"}}
IMPORTANT = make_spec("2", priorityClassName="high")


def make_victim(kind: str = "Job") -> Json:
    pod = make_pod("a", "n2", "4")
    owner = {"kind": kind, "name": "train-abc", "uid": f"uid-{kind.lower()}"}
    labels = {"task-id": "abc", "task-name": "train", "username": "bob"}
    return {**pod, "metadata": pod["metadata"] | {"ownerReferences": [owner], "labels": labels}}


def test_queue_preempts_the_task_of_another_user_whose_room_is_free_then() -> None:
    queue = hold(make_queue("4", **LOWER))

    found = ask(spec=IMPORTANT, nodes=ZONES, running=[make_victim()], queue=queue)

    assert str(found) == (
        "queue gold admits it now with flavor zone-b, and preempts task train of bob;"
        " starts now on n2"
    )
    assert found.preempts == ("task train of bob",)


def test_cluster_nodes_of_workloads_whose_pods_are_not_known_are_not_checked() -> None:
    queue = hold(make_queue("4", **LOWER))

    found = ask(spec=IMPORTANT, nodes=ZONES, running=[make_victim("JobSet")], queue=queue)

    assert found.preempts == ("Job team/train-abc",)
    assert found.unchecked == ("the cluster nodes of what it preempts",)


def test_workloads_that_may_not_be_read_are_named() -> None:
    queue = hold(make_queue("4", **LOWER), name="")

    found = ask(spec=IMPORTANT, nodes=ZONES, queue=queue)

    assert str(found).startswith(
        "waits in queue gold: it needs 2 more cpu of flavor zone-b, unless it preempts workloads"
        " that you may not read;"
    )


def test_what_waits_may_get_the_quota_of_what_is_preempted() -> None:
    queue = hold(make_queue("4", pending=[200], **LOWER))

    found = ask(spec=IMPORTANT, nodes=ZONES, running=[make_victim()], queue=queue)

    assert found.unchecked == ("what waits in the queue",)


def test_admitted_task_still_waits_for_the_cluster_nodes_of_its_flavor() -> None:
    found = ask(nodes=ZONES, running=[make_pod("a", "n2", "4")], queue=make_queue())

    assert str(found) == (
        "queue gold admits it now with flavor zone-b; waits: none of 1 nodes fit now:"
        " n2 has 0 CPUs free"
    )


RACKS = ("block", "rack", "kubernetes.io/hostname")


def make_racks(racks: Json) -> list[Json]:
    """Cluster nodes of 4 CPUs: how many in each `block/rack`."""
    nodes: list[Json] = []
    for path, count in racks.items():
        block, rack = path.split("/")
        for _ in range(count):
            name = f"n{len(nodes) + 1}"
            labels = {"zone": "b", "block": block, "rack": rack, "kubernetes.io/hostname": name}
            nodes.append(make_node(name, labels=labels))
    return nodes


def with_topology(queue: LocalQueue, levels: Sequence[str] | None = RACKS) -> LocalQueue:
    """Let the flavor of a queue have a topology; it may not be read without levels."""
    spec = {"nodeLabels": {"zone": "b"}, "topologyName": "racks"}
    flavor = read_as(ResourceFlavor, {"metadata": {"name": "zone-b"}, "spec": spec})
    state = queue.cluster_queue
    assert state
    topologies = levels and {"racks": levels}
    changed = replace(state, flavors={"zone-b": flavor}, topologies=topologies)
    return replace(queue, cluster_queue=changed)


def ask_topology(
    racks: Json, pods: int, queue: LocalQueue, level: str | None = "", **fields: Any
) -> Forecast:
    nodes = fields.get("nodes") or make_racks(racks)
    cluster = ClusterState(read_list(Node, nodes), read_list(Pod, fields.get("running", ())))
    workload = [Pods(read_as(PodSpec, fields.get("spec") or make_spec("1")), pods)]
    return forecast(Demand([workload], queue="gold", level=level), cluster, queue)


@pytest.mark.parametrize(
    ("racks", "pods", "level", "text"),
    [
        ({"a/1": 1, "a/2": 1}, 4, "rack", "queue gold admits it now; starts now in one rack"),
        ({"a/1": 1, "a/2": 2}, 4, "rack", "queue gold admits it now; starts now in one rack"),
        ({"a/1": 1, "a/2": 1}, 4, "block", "queue gold admits it now; starts now in one block"),
        ({"a/1": 1, "a/2": 1}, 4, "", "queue gold admits it now; starts now"),
        ({"a/1": 1}, 2, "room", "never: queue gold: flavor zone-b has no topology with the level"),
    ],
)
def test_queue_with_a_topology_starts_a_task_where_it_fits_in_one_domain(
    racks: Json, pods: int, level: str, text: str
) -> None:
    found = ask_topology(racks, pods, with_topology(make_queue()), level)

    assert str(found).startswith(text)
    assert not found.unchecked


def test_queue_with_a_topology_waits_for_room_in_one_domain() -> None:
    busy = [make_pod(name, name, "3") for name in ("n1", "n2")]
    queue = with_topology(make_queue())

    found = ask_topology({"a/1": 1, "a/2": 1}, 2, queue, "rack", running=busy)
    assert str(found) == (
        "waits in queue gold: 1 of 2 nodes fit now in one rack: n1 has 1 CPU free"
    )
    assert ask_topology({"a/1": 1, "a/2": 1}, 2, queue, "block", running=busy).outlook == "now"
    again = ask_topology({"a/1": 1, "b/1": 1}, 2, queue, "rack", running=busy)
    assert again.outlook == "later", "another rack of the same name"


def test_queue_with_a_topology_waits_for_cluster_nodes_that_are_not_ready() -> None:
    nodes = make_racks({"a/1": 2})
    taint = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
    nodes[1]["spec"] = {"taints": [taint]}
    spec = make_spec("3", tolerations=[{"operator": "Exists"}])
    queue = with_topology(make_queue(resourceGroups=[GROUP_OF_8]))

    found = ask_topology({}, 2, queue, "rack", nodes=nodes, spec=spec)

    assert str(found).startswith("waits in queue gold: 1 of 2 nodes fit now in one rack")


@pytest.mark.parametrize("levels", [None, ("block", "rack")])
def test_topology_that_is_not_computed_is_named(levels: Sequence[str] | None) -> None:
    queue = with_topology(make_queue(), levels)

    assert ask_topology({"a/1": 1}, 1, queue, "rack").unchecked == ("Kueue's topology",)
    assert ask_topology({"a/1": 1}, 1, queue, None).unchecked == ("Kueue's topology",)


def test_workloads_that_have_cluster_nodes_and_do_not_run_yet_are_named() -> None:
    queue = with_topology(hold(make_queue("4", **LOWER)))
    state = queue.cluster_queue
    assert state
    larger = make_queue("4", resourceGroups=[GROUP_OF_8]).cluster_queue
    assert larger
    queue = replace(queue, cluster_queue=replace(state, item=larger.item, queues=larger.queues))

    found = ask_topology({"a/1": 2}, 1, queue, "rack")

    assert found.unchecked == ("workloads that have cluster nodes and do not run yet",)
    runs = ask_topology({"a/1": 2}, 1, queue, "rack", running=[make_victim()])
    assert not runs.unchecked


GROUP_OF_8: Json = {
    "flavors": [{"name": "zone-b", "resources": [{"name": "cpu", "nominalQuota": 8}]}]
}
