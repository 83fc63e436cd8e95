"""Tell what a queue of Kueue does with a new workload, by the quota tree of its scheduler."""

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum, StrEnum
from fractions import Fraction

from msgspec import Struct
from msgspec.structs import replace

from kubectl_sky.observe.preemption import Holder, Preemptor, Snapshot, read_holders
from kubectl_sky.observe.quota_tree import ZERO, Key, Quota, QuotaNode, build_tree, cohort_of
from kubectl_sky.observe.room import PODS, add_up, matches, tolerates
from kubectl_sky.plan.quota import Pods
from kubectl_sky.plan.resources import show
from kubectl_sky.words.core_objects import LimitRange
from kubectl_sky.words.pod_objects import NodeRule, PodSpec
from kubectl_sky.words.scheduled_objects import (
    FlavorSpec,
    Fungibility,
    KueuePreemption,
    KueueQueue,
    LabelSelector,
    QueuedWorkload,
    QueueFlavor,
    QueueStatus,
    ResourceFlavor,
    ResourceGroup,
)


class Outlook(StrEnum):
    """When something would happen."""

    NOW = "now"
    LATER = "later"
    NEVER = "never"


class Admission(Struct, frozen=True):
    """Whether a queue admits a workload, the flavors of its pods, and why it does not.

    `victims` are the workloads that it preempts for it.
    """

    outlook: Outlook
    flavors: tuple[tuple[str, ...], ...] = ()  # of each template of pods
    reason: str = ""
    victims: tuple[Holder, ...] = ()


class QueueState(Struct, frozen=True):
    """A ClusterQueue, and what it shares: the other queues, cohorts and flavors of the cluster.

    Cohorts, flavors and the levels of topologies are None if they may not be read. `workloads` are
    those that may be read.
    """

    item: KueueQueue
    queues: Sequence[KueueQueue]
    cohorts: Sequence[KueueQueue] | None = ()
    flavors: Mapping[str, ResourceFlavor] | None = None
    workloads: Sequence[QueuedWorkload] = ()
    topologies: Mapping[str, Sequence[str]] | None = None

    @property
    def name(self) -> str:
        return self.item.metadata.name

    def read_snapshot(self, *, is_empty: bool = False) -> Snapshot:
        """Return what uses the queues; nothing does if it `is_empty`."""
        queues = self.queues
        if is_empty:
            queues = [replace(queue, status=QueueStatus()) for queue in queues]
        holders = () if is_empty else read_holders(self.workloads)
        return Snapshot(build_tree(queues, self.cohorts or ()), holders)

    def read_preemptor(self, priority: int) -> Preemptor:
        return Preemptor(self.name, self.item.spec.preemption or KueuePreemption(), priority)

    def find_topologies(self, flavors: Iterable[str]) -> set[str]:
        """Return the topologies of flavors."""
        known = (self.flavors.get(name) for name in flavors) if self.flavors else ()
        return {item.spec.topology_name for item in known if item and item.spec.topology_name}

    @property
    def has_only_topologies(self) -> bool:
        """Whether Kueue chooses the cluster nodes of all its workloads."""
        groups = self.item.spec.resource_groups or ()
        names = [flavor.name for group in groups for flavor in group.flavors or ()]
        return all(self.find_topologies([name]) for name in names)

    @property
    def knows_cohort(self) -> bool:
        return self.cohorts is not None or not cohort_of(self.item)


def admit_all(
    workloads: Iterable[Sequence[Pods]],
    state: QueueState,
    limit_ranges: Sequence[LimitRange],
    priority: int = 0,
    level: str | None = None,
) -> Admission:
    """Return whether the quota of a ClusterQueue admits workloads that need each other.

    What does not fit without any other workload is never admitted. `level` is the level of a
    topology that the pods require, empty for none; flavors are not chosen by it if it is None.
    """
    workloads = list(workloads)
    merged = merge(item for workload in workloads for item in workload)
    preemptor = state.read_preemptor(priority)
    empty = _Queue(state, state.read_snapshot(is_empty=True), preemptor, limit_ranges, level)
    together = _admit(merged, empty)
    if together.outlook is not Outlook.NOW:  # else one by one, they may get different flavors
        ones = (_admit(workload, empty) for workload in workloads)
        if any(it.outlook is not Outlook.NOW for it in ones):
            outlook = Outlook.NEVER if state.knows_cohort else Outlook.LATER
            return replace(together, outlook=outlook)

    queue = replace(empty, snapshot=state.read_snapshot())
    flavors: list[tuple[str, ...]] = []
    victims: list[Holder] = []
    for workload in workloads:
        admission = _admit(workload, queue)
        if admission.outlook is not Outlook.NOW:
            return admission
        flavors += admission.flavors
        victims += admission.victims
    return Admission(Outlook.NOW, tuple(flavors), victims=tuple(victims))


def merge(pods: Iterable[Pods]) -> list[Pods]:
    """Add up the pods of the same spec."""
    merged: list[Pods] = []
    for item in pods:
        same = next((it for it in merged if it.spec == item.spec), None)
        if same:
            merged[merged.index(same)] = Pods(same.spec, same.count + item.count)
        else:
            merged.append(item)
    return merged


class _Queue(Struct, frozen=True):
    """A queue, what uses its quota, and the new workload there."""

    state: QueueState
    snapshot: Snapshot
    preemptor: Preemptor
    limit_ranges: Sequence[LimitRange]
    level: str | None

    @property
    def node(self) -> QuotaNode:
        return self.snapshot.nodes[self.state.name]


def _admit(pods: Sequence[Pods], queue: _Queue) -> Admission:
    """Return whether the quota of a ClusterQueue admits the pods of a workload; count them if so.

    As Kueue does it, each template gets one flavor for all resources of a group.
    """
    used: dict[Key, Fraction] = {}
    contested: dict[Key, str] = {}
    chosen = []
    for item in pods:
        flavors = _choose_flavors(item, queue, used, contested)
        if isinstance(flavors, Admission):
            return flavors
        chosen.append(flavors)

    victims: list[Holder] = []
    if contested:
        victims = queue.preemptor.find_victims(queue.snapshot, contested.keys(), used)
        if not victims:
            return Admission(Outlook.LATER, reason=" and ".join(dict.fromkeys(contested.values())))
        queue.snapshot.evict(victims)
    for key, amount in used.items():
        queue.node.use(key, amount)
    return Admission(Outlook.NOW, tuple(chosen), victims=tuple(victims))


def _choose_flavors(
    item: Pods, queue: _Queue, used: dict[Key, Fraction], contested: dict[Key, str]
) -> tuple[str, ...] | Admission:
    """Return the flavors of a template, one for each group of resources, or why it gets none.

    Add what it uses of them, and what is missing of that unless others are preempted.
    """
    groups = queue.state.item.spec.resource_groups or ()
    covered = {name for group in groups for name in group.resources}
    sizes = add_up(item.spec, queue.limit_ranges)
    requests = {name: size * item.count for name, size in sizes.items()}
    if PODS in covered:
        requests[PODS] = Fraction(item.count)
    missing = [name for name, size in requests.items() if size and name not in covered]
    if missing:
        return Admission(Outlook.NEVER, reason=f"it has no quota for {', '.join(sorted(missing))}")

    flavors = []
    for group in groups:
        names = requests.keys() & group.resources
        if not names:
            continue
        wanted = {name: requests[name] for name in sorted(names)}
        choice = _choose_flavor(_Request(item.spec, queue, group, wanted, used))
        if isinstance(choice, Admission):
            return choice
        flavors.append(choice.flavor)
        contested |= choice.missing
        for name, size in wanted.items():
            key = choice.flavor, name
            used[key] = used.get(key, ZERO) + size
    return tuple(flavors)


class _Mode(IntEnum):
    """How a flavor gives quota, the worst way first."""

    NO_FIT = 0
    NO_CANDIDATES = 1  # it would have to preempt, and may preempt nothing
    PREEMPT = 2
    RECLAIM = 3  # it preempts workloads of other queues only
    FIT = 4


class _Offer(Struct, frozen=True):
    """How a flavor gives quota, how high in the tree it borrows, and what is missing of what."""

    flavor: str
    mode: _Mode = _Mode.FIT
    level: int = 0
    missing: Mapping[Key, str] = {}
    reason: str = ""  # why it never fits

    def is_better(self, other: "_Offer", fungibility: Fungibility) -> bool:
        if _Mode.NO_FIT in (self.mode, other.mode):
            return self.mode > other.mode
        mine = (self.mode, -self.level)
        others = (other.mode, -other.level)
        if fungibility.preference == "PreemptionOverBorrowing":
            return mine[::-1] > others[::-1]
        return mine > others

    def is_final(self, fungibility: Fungibility) -> bool:
        """Return whether no other flavor is tried."""
        if self.mode <= _Mode.NO_CANDIDATES:
            return False
        if self.mode < _Mode.FIT and fungibility.when_can_preempt in ("", _NEXT):
            return False
        return not self.level or fungibility.when_can_borrow != _NEXT


_NEXT = "TryNextFlavor"


class _Request(Struct, frozen=True):
    """The pods of a template, and the quota that they ask for of a group of resources."""

    spec: PodSpec
    queue: _Queue
    group: ResourceGroup
    wanted: Mapping[str, Fraction]
    used: Mapping[Key, Fraction]  # by other templates


def _choose_flavor(request: _Request) -> _Offer | Admission:
    """Return the flavor of a template for the resources of a group, or why it gets none."""
    state = request.queue.state
    flavors = request.group.flavors or ()
    keys = {label for it in flavors for label in _spec_of(it, state).node_labels or ()}
    fungibility = state.item.spec.flavor_fungibility or Fungibility()
    best = _Offer("", _Mode.NO_FIT)
    waits: list[str] = []
    refusals: list[str] = []
    for flavor in flavors:
        refusal = _refuse(request.spec, flavor.name, state, keys)
        refusal = refusal or _refuse_topology(request, flavor.name)
        if refusal:
            refusals.append(refusal)
            continue
        offer = _make_offer(request, flavor.name)
        if offer.reason:
            refusals.append(offer.reason)
            continue
        waits += offer.missing.values()
        if offer.is_better(best, fungibility) or offer.is_final(fungibility):
            best = offer
        if offer.is_final(fungibility):
            break

    if best.mode > _Mode.NO_CANDIDATES:
        return best
    if waits:
        return Admission(Outlook.LATER, reason=" or ".join(dict.fromkeys(waits)))
    return Admission(Outlook.NEVER, reason="; ".join(dict.fromkeys(refusals)) or "it has no flavor")


def _make_offer(request: _Request, flavor: str) -> _Offer:
    """Return how a flavor gives quota for all resources of a group: as for the worst of them."""
    queue = request.queue
    fungibility = queue.state.item.spec.flavor_fungibility or Fungibility()
    totals = {
        (flavor, name): size + request.used.get((flavor, name), ZERO)
        for name, size in request.wanted.items()
    }
    beyond = _list_beyond(totals, queue.node)
    if beyond:
        return _Offer(flavor, _Mode.NO_FIT, reason=f"{', '.join(beyond)} of flavor {flavor}")

    worst = _Offer(flavor)
    lacking = []
    contested = []
    for key, size in totals.items():
        mode, level = _find_mode(queue, key, size)
        offer = _Offer(flavor, mode, level)
        worst = offer if worst.is_better(offer, fungibility) else worst
        if mode is not _Mode.FIT:
            rest = size - queue.node.available(key)
            lacking.append(f"{show(key[1], rest)} more {key[1]}")
            contested.append(key)
    text = f"{' and '.join(lacking)} of flavor {flavor}"
    return replace(worst, missing=dict.fromkeys(contested, text))


def _list_beyond(totals: Mapping[Key, Fraction], node: QuotaNode) -> list[str]:
    """Return which amounts are more than a queue may ever use."""
    return [
        f"{key[1]}: requested {show(key[1], size)}, at most {show(key[1], node.capacity(key))}"
        for key, size in totals.items()
        if size > node.capacity(key)
    ]


def _find_mode(queue: _Queue, key: Key, size: Fraction) -> tuple[_Mode, int]:
    """Return how a flavor gives an amount of a resource, and how high in the tree it borrows."""
    node = queue.node
    level, may_reclaim = node.find_level(key, size)
    if size <= node.available(key):
        return _Mode.FIT, level
    preemptor = queue.preemptor
    is_own = size <= node.quotas.get(key, Quota()).nominal
    if not (is_own or may_reclaim or preemptor.may_borrow):
        return _Mode.NO_FIT, level

    victims = preemptor.find_victims(queue.snapshot, {key}, {key: size})
    if not victims:
        return _Mode.NO_CANDIDATES, level
    for victim in victims:
        queue.snapshot.remove(victim)
    level, _ = node.find_level(key, size)
    for victim in victims:
        queue.snapshot.add(victim)
    is_of_own = any(victim.queue == preemptor.queue for victim in victims)
    mode = _Mode.PREEMPT if is_of_own else _Mode.RECLAIM
    return mode, level


def _spec_of(flavor: QueueFlavor, state: QueueState) -> FlavorSpec:
    known = state.flavors.get(flavor.name) if state.flavors else None
    return known.spec if known else FlavorSpec()


def _refuse(spec: PodSpec, name: str, state: QueueState, keys: set[str]) -> str:
    """Return why the cluster nodes of a flavor do not accept a pod; empty if they do.

    Of the labels that a pod requires, those that no flavor of the group has do not count.
    """
    if state.flavors is None:
        return ""
    if name not in state.flavors:
        return f"flavor {name} does not exist"
    flavor = state.flavors[name].spec
    tolerations = (*(spec.tolerations or ()), *(flavor.tolerations or ()))
    for taint in flavor.node_taints or ():
        if taint.effect != "PreferNoSchedule" and not tolerates(tolerations, taint):
            return f"flavor {name} has the taint {taint.key}"

    if not _selects_labels(spec, flavor.node_labels or {}, keys):
        return f"flavor {name} has other labels than it requires"
    return ""


def _refuse_topology(request: _Request, name: str) -> str:
    """Return why the topology of a flavor, or that it has none, does not suit the pods."""
    state = request.queue.state
    level = request.queue.level
    if level is None or state.flavors is None or state.topologies is None:
        return ""
    topology = state.flavors[name].spec.topology_name
    if not level:
        is_for_all = not topology or state.has_only_topologies
        return "" if is_for_all else f"flavor {name} is for pods that require a topology"
    if not topology and request.wanted.keys() == {PODS}:
        return ""
    if level in state.topologies.get(topology, ()):
        return ""
    return f"flavor {name} has no topology with the level {level}"


def _selects_labels(spec: PodSpec, labels: Mapping[str, str], keys: set[str]) -> bool:
    """Return whether the labels of a flavor are those that a pod requires, as far as `keys` say."""
    selected = {key: value for key, value in (spec.node_selector or {}).items() if key in keys}
    if not selected.items() <= labels.items():
        return False
    terms: list[list[NodeRule]] = []
    for term in spec.node_terms:
        rules = [rule for rule in term.match_expressions or () if rule.key in keys]
        if not rules:
            return True
        terms.append(rules)
    return not terms or any(all(matches(rule, labels) for rule in rules) for rules in terms)


def find_obstacle(
    local: KueueQueue, queue: KueueQueue, namespace_labels: Mapping[str, str] | None
) -> tuple[Outlook, str]:
    """Return why a ClusterQueue admits nothing from a namespace, whatever its quota."""
    name = queue.metadata.name
    selector = queue.spec.namespace_selector
    if namespace_labels is not None and not selects(selector, namespace_labels):
        return Outlook.NEVER, f"ClusterQueue {name} admits nothing from this namespace"
    for item in (local, queue):
        if item.spec.stop_policy not in ("", "None"):
            return Outlook.LATER, f"queue {item.metadata.name} is stopped"
    active = next((it for it in queue.status.conditions if it.type == "Active"), None)
    if active and active.status != "True":
        return Outlook.LATER, active.message or f"ClusterQueue {name} is not active"
    return Outlook.NOW, ""


def list_checks(queue: KueueQueue) -> list[str]:
    """Return the AdmissionChecks that decide after the quota."""
    strategy = queue.spec.admission_checks_strategy
    checks = [it.name for it in strategy.admission_checks or ()] if strategy else []
    return [*checks, *(queue.spec.admission_checks or ())]


def selects(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    if selector is None:
        return False
    chosen = (selector.match_labels or {}).items() <= labels.items()
    return chosen and all(matches(rule, labels) for rule in selector.match_expressions or ())
