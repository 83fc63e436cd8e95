"""Tell what would happen to a task: when its queue admits it, and which cluster nodes it gets.

`now` and `never` are said only of what is known for sure; what was not read, or is not computed
here, is named.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Annotated

from msgspec import Struct
from msgspec.structs import replace

from kubectl_sky.observe.admission import (
    Admission,
    Outlook,
    QueueState,
    admit_all,
    find_obstacle,
    list_checks,
    merge,
)
from kubectl_sky.observe.capacity import describe_free, join_hosts
from kubectl_sky.observe.preemption import Holder
from kubectl_sky.observe.queue_topology import (
    Topology,
    are_all_running,
    find_topology,
    is_ready,
    list_placed,
)
from kubectl_sky.observe.queues import Queue
from kubectl_sky.observe.quota_tree import cohort_of
from kubectl_sky.observe.room import (
    Room,
    Running,
    choose_domain,
    find_room,
    find_unchecked,
    find_victims,
    keep_others_away,
    list_requests,
    list_sizes,
    number_that_fits,
    read_running,
    without_faults,
)
from kubectl_sky.plan.devices import devices_of
from kubectl_sky.plan.quota import Pods
from kubectl_sky.words import names
from kubectl_sky.words.core_objects import LimitRange, Node, PriorityClass
from kubectl_sky.words.documents import Note, Part
from kubectl_sky.words.pod_objects import Pod, PodContainer, PodSpec, Resources
from kubectl_sky.words.scheduled_objects import KueueQueue

_MAX_VICTIMS = 3  # that are named
_TOPOLOGY = "Kueue's topology"


class Forecast(Part, frozen=True):
    """What would happen to a task that is submitted now."""

    outlook: Annotated[str, Note("`now`, `later` or `never`, as far as is known")]
    text: Annotated[str, Note("where it runs, or what it waits for")]
    hosts: Annotated[tuple[str, ...], Note("cluster nodes that would take it")] = ()
    flavors: Annotated[tuple[str, ...], Note("of its queue")] = ()
    preempts: Annotated[
        tuple[str, ...],
        Note("what would go: pods NAMESPACE/NAME, and `task NAME of USER` of a queue"),
    ] = ()
    unchecked: Annotated[tuple[str, ...], Note("what may change the answer")] = ()

    def __str__(self) -> str:
        if not self.unchecked or self.outlook != Outlook.NOW:
            return self.text
        return f"fits what could be read: {self.text}; not checked: {', '.join(self.unchecked)}"


class ClusterState(Struct, frozen=True):
    """What could be read of a cluster; None if it may not be read."""

    nodes: Sequence[Node] | None
    running: Sequence[Pod] | None
    priorities: Sequence[PriorityClass] | None = ()


class LocalQueue(Struct, frozen=True):
    """What could be read of a queue; None if it may not be read."""

    item: KueueQueue
    queue: Queue
    cluster_queue: QueueState | None
    namespace_labels: Mapping[str, str] | None


class Demand(Struct, frozen=True):
    """A task: the pods of each of its workloads, all of which run at the same time.

    Those of an array are `independent`: each starts where it fits. `levels` are labels of cluster
    nodes whose values all of them share. `level` is that of a topology of the queue in which all of
    them start; None for another request to that.
    """

    workloads: Sequence[Sequence[Pods]]
    independent: bool = False
    levels: Sequence[str] = ()
    queue: str = ""
    queue_priority: int | None = None  # its priority in the queue, if it is not that of its pods
    level: str | None = ""
    is_placed: bool = False  # by its queue, not by the scheduler

    @property
    def pods(self) -> list[Pods]:
        return [item for workload in self.workloads for item in workload]


def forecast(
    demand: Demand,
    cluster: ClusterState,
    queue: LocalQueue | None = None,
    limit_ranges: Sequence[LimitRange] = (),
) -> Forecast:
    """Return what would happen to a task."""
    if queue is None:
        found = _place(merge(demand.pods), demand, cluster)
        text = f"queue {demand.queue}: you may not read it, or it does not exist"
        unread = (text,) if demand.queue else ()
        return replace(found, unchecked=(*unread, *found.unchecked))

    priority = demand.queue_priority
    if priority is None:
        priority = find_priority(demand.pods[0].spec, cluster.priorities or ())
    admission = _admit(demand, queue, priority, limit_ranges)
    if admission.outlook is Outlook.NEVER:
        return Forecast(Outlook.NEVER, f"never: queue {demand.queue}: {admission.reason}")
    if admission.outlook is Outlook.LATER:
        text = f"waits in queue {demand.queue}: {admission.reason}"
        place = "" if queue.queue.stopped else f"; {queue.queue.describe_place(priority)}"
        return Forecast(Outlook.LATER, text + place)

    found = _place_admitted(demand, cluster, queue, admission)
    unchecked = [
        *_find_unchecked_of_queue(queue),
        *_find_unchecked_of_victims(queue, priority, admission.victims),
        *found.unchecked,
    ]
    return replace(found, unchecked=tuple(dict.fromkeys(unchecked)))


def _place_admitted(
    demand: Demand, cluster: ClusterState, queue: LocalQueue, admission: Admission
) -> Forecast:
    """Return where the pods of a task run that its queue admits."""
    state = queue.cluster_queue
    if state is None:
        return _place(merge(demand.pods), demand, cluster)
    flavors = list(dict.fromkeys(name for part in admission.flavors for name in part))
    pods = _with_flavors(demand.pods, admission.flavors, state) if flavors else demand.pods
    if state.find_topologies(flavors):
        topology = find_topology(state, admission.flavors, demand.level)
        if topology and not admission.victims:
            found = _place_by_queue(merge(pods), demand, cluster, state, topology)
            return replace(found, flavors=tuple(flavors))

    victims = admission.victims
    titles = list(dict.fromkeys(_title(it, cluster) for it in victims))
    found = _place(merge(pods), demand, _without_victims(cluster, victims))
    unchecked = list(found.unchecked)
    is_full = found.outlook is Outlook.LATER or found.preempts
    if is_full and not _has_pods_of_all(cluster, victims):
        found = Forecast(Outlook.NOW, "starts where they leave room")
        unchecked.append("the cluster nodes of what it preempts")
    if state.find_topologies(flavors):
        unchecked.append(_TOPOLOGY)
    return replace(
        found,
        text=f"{_describe_queue(queue, flavors, titles)}{found.text}",
        flavors=tuple(flavors),
        preempts=(*titles, *found.preempts),
        unchecked=tuple(unchecked),
    )


def _place_by_queue(
    groups: Sequence[Pods],
    demand: Demand,
    cluster: ClusterState,
    state: QueueState,
    topology: Topology,
) -> Forecast:
    """Return whether Kueue finds cluster nodes in a topology: only then it admits a task."""
    nodes = None if cluster.nodes is None else topology.find_nodes(cluster.nodes)
    levels = topology.list_down_to(demand.level or "")
    placed = replace(demand, levels=levels, is_placed=True, independent=False)
    found = _place(groups, placed, replace(cluster, nodes=nodes))

    unchecked = list(found.unchecked)
    if not state.read_snapshot().knows_all_queues:
        unchecked.append("workloads that you may not read")
    elif cluster.running is not None and not are_all_running(list_placed(state), cluster.running):
        unchecked.append("workloads that have cluster nodes and do not run yet")
    if found.outlook is Outlook.NOW:
        one = f" in one {levels[-1]}" if levels else ""
        text = f"queue {demand.queue} admits it now; starts now{one}"
        return Forecast(Outlook.NOW, text, unchecked=tuple(unchecked))
    may_preempt = found.outlook is Outlook.LATER and state.read_preemptor(0).may_preempt
    rest = ", unless it preempts others" if may_preempt else ""
    text = found.text.replace("waits: ", f"waits in queue {demand.queue}: ", 1)
    return replace(found, text=f"{text}{rest}", unchecked=tuple(unchecked))


def _describe_queue(queue: LocalQueue, flavors: Sequence[str], victims: Sequence[str]) -> str:
    of = f" with flavor {' and '.join(flavors)}" if flavors else ""
    preempts = f", and preempts {_join_victims(victims)}" if victims else ""
    return f"queue {queue.item.metadata.name} admits it now{of}{preempts}; "


def _join_victims(titles: Sequence[str]) -> str:
    more = len(titles) - _MAX_VICTIMS
    return f"{', '.join(titles[:_MAX_VICTIMS])}{f' and {more} more' if more > 0 else ''}"


def _title(victim: Holder, cluster: ClusterState) -> str:
    """Return what goes: the task, if its pods tell that."""
    for pod in cluster.running or ():
        labels = pod.metadata.labels
        if names.TASK_ID in labels and _is_of(pod, victim):
            return f"task {labels.get(names.TASK_NAME)} of {labels.get(names.USERNAME)}"
    return f"{victim.owner.kind} {victim.namespace}/{victim.owner.name}"


def _is_of(pod: Pod, victim: Holder) -> bool:
    owners = pod.metadata.owner_references
    return any(owner.uid == victim.owner.uid for owner in owners)


def _without_victims(cluster: ClusterState, victims: Sequence[Holder]) -> ClusterState:
    """Return the cluster as it is when a queue has preempted workloads."""
    if cluster.running is None:
        return cluster
    remaining = [pod for pod in cluster.running if not any(_is_of(pod, it) for it in victims)]
    return replace(cluster, running=remaining)


def _has_pods_of_all(cluster: ClusterState, victims: Sequence[Holder]) -> bool:
    running = cluster.running
    return running is None or all(any(_is_of(pod, it) for pod in running) for it in victims)


def _admit(
    demand: Demand, queue: LocalQueue, priority: int, limit_ranges: Sequence[LimitRange]
) -> Admission:
    """Return whether a queue admits all workloads of a task, with the flavors of all its pods."""
    state = queue.cluster_queue
    if state is None:
        return Admission(Outlook.NOW)
    outlook, reason = find_obstacle(queue.item, state.item, queue.namespace_labels)
    if outlook is not Outlook.NOW:
        return Admission(outlook, reason=reason)

    admission = admit_all(demand.workloads, state, limit_ranges, priority, demand.level)
    if admission.outlook is Outlook.LATER:
        preemptor = state.read_preemptor(priority)
        is_known = not preemptor.may_preempt or state.read_snapshot().knows_all(state.name)
        rest = "" if is_known else ", unless it preempts workloads that you may not read"
        return replace(admission, reason=f"it needs {admission.reason}{rest}")
    before = [it for it in queue.queue.waiting if it.priority >= priority]
    if admission.outlook is Outlook.NOW and before and queue.queue.strict:
        return Admission(Outlook.LATER, reason="it admits in strict order")
    return admission


def _find_unchecked_of_queue(queue: LocalQueue) -> Iterator[str]:
    state = queue.cluster_queue
    if state is None:
        yield "the quota of the queue: you may not read it"
        return
    if queue.namespace_labels is None:
        yield "whether the queue is for this namespace"
    pending = state.item.status.pending_workloads
    if queue.queue.strict and pending > len(queue.queue.waiting):
        yield "what waits in the queue"
    for name in list_checks(state.item):
        yield f"AdmissionCheck {name}"
    if state.flavors is None:
        yield "the flavors: you may not read them"
    if not state.knows_cohort:
        yield "the cohort: you may not read it"
    if state.topologies is None and state.find_topologies(state.flavors or ()):
        yield _TOPOLOGY


def _find_unchecked_of_victims(
    queue: LocalQueue, priority: int, victims: Sequence[Holder]
) -> Iterator[str]:
    """Yield what may change whom a queue preempts, or who gets the quota of those."""
    state = queue.cluster_queue
    if state is None or not victims:
        return
    if not state.read_snapshot().knows_all(state.name):
        yield "workloads that you may not read"
    lower = sum(item.priority < priority for item in queue.queue.waiting)
    if state.item.status.pending_workloads > lower:
        yield "what waits in the queue"
    if state.item.spec.admission_scope:
        yield "who has used less of the queue"
    if any(victim.queue != state.name for victim in victims):
        yield "whether Kueue shares fairly (fairSharing in its configuration)"
        yield from _find_waiting_beside(state)


def _find_waiting_beside(state: QueueState) -> Iterator[str]:
    cohort = cohort_of(state.item)
    for item in state.queues:
        is_beside = item.metadata.name != state.name and cohort_of(item) == cohort
        if is_beside and item.status.pending_workloads:
            yield f"what waits in ClusterQueue {item.metadata.name}"


def _with_flavors(
    pods: Sequence[Pods], flavors: Sequence[Sequence[str]], state: QueueState
) -> list[Pods]:
    """Return the pods as Kueue changes them: for the cluster nodes of their flavors."""
    result = []
    for item, chosen in zip(pods, flavors, strict=True):
        spec = item.spec
        for flavor in (state.flavors[name].spec for name in chosen if state.flavors):
            spec = replace(
                spec,
                node_selector={**(spec.node_selector or {}), **(flavor.node_labels or {})},
                tolerations=(*(spec.tolerations or ()), *(flavor.tolerations or ())),
            )
        result.append(Pods(spec, item.count))
    return result


def _place(groups: Sequence[Pods], demand: Demand, cluster: ClusterState) -> Forecast:
    """Return where pods run that no queue holds back."""
    if cluster.nodes is None:
        others = (text for item in groups for text in find_unchecked(item.spec))
        unchecked = ("the cluster nodes: none can be listed", *dict.fromkeys(others))
        return Forecast(Outlook.NOW, "starts where there is room", unchecked=unchecked)

    running = read_running(cluster.running or ())
    placer = _Placer(cluster.nodes, running, cluster.priorities or ())
    if cluster.running is None:
        placer.unchecked.append("what runs in other namespaces")
    if len(groups) > 1:
        placer.unchecked.append("how different pods share cluster nodes")
    for item in groups:
        if found := placer.place(item, demand):
            return found

    # Which cluster nodes a queue chooses is not known.
    chosen = [it.metadata.name for it in cluster.nodes] if demand.is_placed else placer.hosts
    if keep_others_away(cluster.running or (), chosen):
        placer.unchecked.append("the rules of running pods")
    total = sum(item.count for item in groups)
    hosts = tuple(dict.fromkeys(placer.hosts))
    started = len(placer.hosts)
    text = "starts now" if started == total else f"{started} of {total} start now"
    text = f"{text} on {join_hosts(hosts)}"
    victims = tuple(it.title for it in placer.victims)
    if victims:
        text = f"{text}, and preempts {_join_victims(victims)}"
    left = tuple(dict.fromkeys(placer.unchecked))
    return Forecast(Outlook.NOW, text, hosts, preempts=victims, unchecked=left)


class _Placer:
    """Place pods one after the other, as the scheduler does."""

    def __init__(
        self, nodes: Sequence[Node], running: list[Running], priorities: Sequence[PriorityClass]
    ) -> None:
        self.hosts: list[str] = []
        self.victims: list[Running] = []
        self.unchecked: list[str] = []
        self._nodes = nodes
        self._running = running
        self._priorities = priorities

    def place(self, item: Pods, demand: Demand) -> Forecast | None:
        """Place pods of one kind; return what they wait for if there is no room for them."""
        self.unchecked += find_unchecked(item.spec)
        spec = self._without_devices(item.spec)
        nodes = filter(is_ready, self._nodes) if demand.is_placed else self._nodes
        found = find_room(spec, nodes, self._running)
        _, rooms = choose_domain(found, demand.levels)
        fits = sum(room.count for room in rooms)
        taken = [room.host for room in rooms for _ in range(room.count)][: item.count]
        for host in taken:
            self._start(spec, host)
        if len(taken) == item.count or (taken and demand.independent):
            return None

        missing = 1 if demand.independent else item.count - len(taken)
        if not (demand.levels or demand.is_placed) and self._preempt(spec, missing):
            return None
        return self._explain(spec, item.count, fits, rooms, demand)

    def _start(self, spec: PodSpec, host: str) -> None:
        self.hosts.append(host)
        priority = find_priority(spec, self._priorities)
        self._running.append(Running("", host, priority, list_sizes(spec)))

    def _preempt(self, spec: PodSpec, count: int) -> bool:
        """Make room by preemption; return whether that is possible."""
        if not _may_preempt(spec, self._priorities):
            return False
        priority = find_priority(spec, self._priorities)
        for _ in range(count):
            found = find_victims(spec, priority, self._nodes, self._running)
            if found is None:
                return False
            host, victims = found
            self.victims += victims
            for victim in victims:
                self._running.remove(victim)
            self._start(spec, host)
        return True

    def _without_devices(self, spec: PodSpec) -> PodSpec:
        """Return the spec without resources that only DRA drivers have: they are not counted."""
        of_drivers = {it.resource for node in self._nodes for it in devices_of(node)}
        of_devices = of_drivers & list_requests(spec).keys()
        if not of_devices:
            return spec
        self.unchecked.append("free devices of DRA drivers")
        return replace(
            spec, containers=tuple(_without_resources(it, of_devices) for it in spec.containers)
        )

    def _explain(
        self, spec: PodSpec, count: int, fits: int, rooms: Sequence[Room], demand: Demand
    ) -> Forecast:
        needed = 1 if demand.independent else count
        permanent = [pod for pod in self._running if pod.is_permanent]
        possible = number_that_fits(spec, map(without_faults, self._nodes), permanent)
        if possible < needed:
            text = f"never: the cluster nodes of today have room for {possible} of {needed} nodes"
            return Forecast(Outlook.NEVER, f"{text}{describe_free(spec, rooms)}")
        one = f" in one {demand.levels[-1]}" if demand.levels else ""
        text = f"waits: {fits or 'none'} of {needed} nodes fit now{one}"
        return Forecast(Outlook.LATER, f"{text}{describe_free(spec, rooms)}")


def find_priority(spec: PodSpec, priorities: Iterable[PriorityClass]) -> int:
    """Return the priority that the API server gives a pod; 0 if that is not readable."""
    if spec.priority:
        return spec.priority
    name = spec.priority_class_name
    for item in priorities:
        if item.metadata.name == name or (item.global_default and not name):
            return item.value
    return 0


def _may_preempt(spec: PodSpec, priorities: Iterable[PriorityClass]) -> bool:
    name = spec.priority_class_name
    policies = [
        item.preemption_policy
        for item in priorities
        if item.metadata.name == name or (item.global_default and not name)
    ]
    return "Never" not in (spec.preemption_policy, *policies)


def _without_resources(container: PodContainer, without: Collection[str]) -> PodContainer:
    resources = container.resources
    if not resources:
        return container
    requests = {key: size for key, size in (resources.requests or {}).items() if key not in without}
    limits = {key: size for key, size in (resources.limits or {}).items() if key not in without}
    return replace(container, resources=Resources(requests=requests, limits=limits))
