"""Find room for pods: which cluster nodes accept them, what is free there, whom they preempt."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction

from msgspec import Struct
from msgspec.structs import replace

from kubectl_sky.plan.resources import PodResources, allocatable, amounts
from kubectl_sky.words.core_objects import LimitRange, Node, Taint
from kubectl_sky.words.pod_objects import NodeRule, NodeTerm, Pod, PodSpec, Toleration

PODS = "pods"
_HOSTNAME = "kubernetes.io/hostname"
_PERMANENT = ("DaemonSet", "Node")  # owners of pods that no task waits for


class Room(Struct, frozen=True):
    """A cluster node that accepts a pod: what is free there, and how many such pods that holds."""

    host: str
    labels: Mapping[str, str]
    free: Mapping[str, Fraction]
    count: int


class Running(Struct, frozen=True):
    """A pod that uses a cluster node, or for which the scheduler makes room there."""

    title: str  # NAMESPACE/NAME
    host: str
    priority: int
    requests: Mapping[str, Fraction]
    is_permanent: bool = False


def read_running(pods: Iterable[Pod]) -> list[Running]:
    """Return what pods use, added up once for each."""
    return [
        Running(
            f"{pod.metadata.namespace}/{pod.metadata.name}",
            pod.spec.node_name or pod.status.nominated_node_name,
            pod.spec.priority,
            list_sizes(pod.spec),
            any(owner.kind in _PERMANENT for owner in pod.metadata.owner_references),
        )
        for pod in pods
    ]


def add_up(spec: PodSpec, limit_ranges: Sequence[LimitRange] = ()) -> dict[str, Fraction]:
    """Return what a pod requests, with its overhead, as schedulers count it."""
    total = PodResources(spec, limit_ranges).total("requests")
    overhead = amounts(spec.overhead)
    return {
        name: total.get(name, Fraction(0)) + overhead.get(name, Fraction(0))
        for name in sorted(total.keys() | overhead.keys())
    }


def list_requests(spec: PodSpec) -> dict[str, Fraction]:
    """Return what a pod requests, without amounts of 0."""
    return {name: size for name, size in add_up(spec).items() if size}


def list_sizes(spec: PodSpec) -> dict[str, Fraction]:
    """Return what a pod takes of a cluster node: its requests, and one of the pods there."""
    return {**list_requests(spec), PODS: Fraction(1)}


def find_room(
    spec: PodSpec, cluster_nodes: Iterable[Node], running: Iterable[Running]
) -> list[Room]:
    """Return the cluster nodes that accept a pod, with what the running pods leave free."""
    sizes = list_sizes(spec)
    used: defaultdict[tuple[str, str], Fraction] = defaultdict(Fraction)

    for other in running:
        for name, size in other.requests.items():
            used[other.host, name] += size

    rooms = []
    for item in filter(lambda item: accepts(item, spec), cluster_nodes):
        host = item.metadata.name
        labels = item.metadata.labels
        free = {name: allocatable(item, name) - used[host, name] for name in sizes}
        count = max(0, min(int(free[name] / size) for name, size in sizes.items()))
        rooms.append(Room(host, labels, free, count))
    return rooms


def choose_domain(rooms: Iterable[Room], levels: Sequence[str]) -> tuple[str, list[Room]]:
    """Return the domain of cluster nodes that has most room, and its cluster nodes.

    Those of a domain have the same values of all labels, of which the last one names it. Without
    labels, all of them are one domain.
    """
    domains = defaultdict[tuple[str, ...], list[Room]](list)
    for room in rooms:
        if all(label in room.labels for label in levels):
            domains[tuple(room.labels[label] for label in levels)].append(room)

    def count(domain: tuple[tuple[str, ...], list[Room]]) -> int:
        return sum(room.count for room in domain[1])

    values, found = max(domains.items(), key=count, default=((), []))
    name = values[-1] if values else ""
    return name, found


def number_that_fits(
    spec: PodSpec, cluster_nodes: Iterable[Node], running: Iterable[Running]
) -> int:
    """Return how many pods like this can start now, beside the running pods of all namespaces.

    Pods that have to run beside each other, as with a ReadWriteOnce volume, share a cluster node.
    """
    counts = [0, *(room.count for room in find_room(spec, cluster_nodes, running))]
    affinity = spec.affinity and spec.affinity.pod_affinity
    return (max if affinity and affinity.required else sum)(counts)


def without_faults(cluster_node: Node) -> Node:
    """Return a cluster node as it is when it is ready, and not cordoned."""
    taints = tuple(
        it for it in cluster_node.spec.taints if not it.key.startswith("node.kubernetes.io/")
    )
    return replace(
        cluster_node, spec=replace(cluster_node.spec, taints=taints, unschedulable=False)
    )


def find_victims(
    spec: PodSpec, priority: int, cluster_nodes: Iterable[Node], running: Sequence[Running]
) -> tuple[str, list[Running]] | None:
    """Return the cluster node where the scheduler makes room for a pod, and the pods that go.

    As the scheduler does it: of each cluster node all pods of lower priority go, then as many as
    possible stay, those of the highest priority first. Of the cluster nodes, the one counts whose
    victims have the lowest priority, then the fewest. PodDisruptionBudgets are not looked at.
    """
    sizes = list_sizes(spec)
    by_host = defaultdict[str, list[Running]](list)
    for pod in running:
        by_host[pod.host].append(pod)

    found: list[tuple[int, int, int, str, list[Running]]] = []
    for node in cluster_nodes:
        host = node.metadata.name
        if not accepts(node, spec):
            continue
        victims = _choose_victims(node, by_host[host], sizes, priority)
        if victims:
            priorities = [pod.priority for pod in victims]
            found.append((max(priorities), sum(priorities), len(victims), host, victims))
    if not found:
        return None
    *_, host, victims = min(found, key=lambda item: item[:4])
    return host, victims


def _choose_victims(
    node: Node, there: Sequence[Running], sizes: Mapping[str, Fraction], priority: int
) -> list[Running]:
    """Return the pods of a cluster node that go to make room; none if that is not enough."""
    free = [allocatable(node, name) for name in sizes]
    victims = []
    for pod in sorted(there, key=lambda pod: (pod.priority < priority, -pod.priority)):
        left = [have - pod.requests.get(name, 0) for have, name in zip(free, sizes, strict=True)]
        if pod.priority >= priority or _holds(left, sizes):
            free = left
        else:
            victims.append(pod)
    return victims if _holds(free, sizes) else []


def _holds(free: Sequence[Fraction], sizes: Mapping[str, Fraction]) -> bool:
    return all(have >= size for have, size in zip(free, sizes.values(), strict=True))


def accepts(cluster_node: Node, pod_spec: PodSpec) -> bool:
    """Return whether selector, required affinity and tolerations of a pod allow a cluster node."""
    spec = cluster_node.spec
    labels = cluster_node.metadata.labels
    selected = pod_spec.node_selector or {}
    tolerations = pod_spec.tolerations or ()
    terms = pod_spec.node_terms or (NodeTerm(),)
    fields = {"metadata.name": cluster_node.metadata.name}

    return (
        not spec.unschedulable
        and selected.items() <= labels.items()
        and any(
            all(matches(rule, labels) for rule in term.match_expressions or ())
            and all(matches(rule, fields) for rule in term.match_fields or ())
            for term in terms
        )
        and all(
            taint.effect == "PreferNoSchedule" or tolerates(tolerations, taint)
            for taint in spec.taints
        )
    )


def matches(rule: NodeRule, labels: Mapping[str, str]) -> bool:
    """Return whether labels meet a rule."""
    value = labels.get(rule.key)
    values = rule.values or ()
    if rule.operator in ("In", "NotIn"):
        return (value in values) is (rule.operator == "In")
    if rule.operator in ("Gt", "Lt"):
        numbers = [text for text in (value, *values) if text and text.lstrip("-").isdigit()]
        if len(numbers) != 2:
            return False
        found, limit = map(int, numbers)
        return found > limit if rule.operator == "Gt" else found < limit
    return (value is not None) is (rule.operator == "Exists")


def tolerates(tolerations: Iterable[Toleration], taint: Taint) -> bool:
    return any(
        toleration.key in ("", taint.key)
        and toleration.effect in ("", taint.effect)
        and (toleration.operator == "Exists" or toleration.value == taint.value)
        for toleration in tolerations
    )


def find_unchecked(spec: PodSpec) -> Iterator[str]:
    """Yield what the scheduler looks at, too, and this module does not."""
    affinity = spec.affinity
    if affinity and (affinity.pod_affinity or affinity.pod_anti_affinity):
        yield "the rules for other pods"
    if spec.claims:
        yield "where its volumes can be used"
    if spec.resource_claims:
        yield "devices of ResourceClaims"
    if spec.host_network or any(port.host_port for it in spec.containers for port in it.ports):
        yield "ports of the cluster nodes"
    rules = spec.topology_spread_constraints or ()
    if any(rule.when_unsatisfiable != "ScheduleAnyway" for rule in rules):
        yield "how its pods have to be spread"
    for gate in spec.scheduling_gates or ():
        yield f"scheduling gate {gate.name}"
    if spec.scheduler_name not in ("", "default-scheduler"):
        yield f"scheduler {spec.scheduler_name}"


def keep_others_away(running: Iterable[Pod], hosts: Collection[str]) -> bool:
    """Return whether running pods may allow no other pods on these cluster nodes."""
    for pod in running:
        rules = pod.spec.affinity and pod.spec.affinity.pod_anti_affinity
        for term in (rules and rules.required) or ():
            if pod.spec.node_name in hosts or term.topology_key != _HOSTNAME:
                return True
    return False
