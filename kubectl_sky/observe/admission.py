"""Tell what a queue of Kueue does with a new workload, by the quota tree of its scheduler.

A ClusterQueue or cohort keeps for itself what it does not lend; the rest of its quota, and of what
it uses, is its parent's. https://kueue.sigs.k8s.io/docs/concepts/cohort
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from fractions import Fraction

from msgspec import Struct
from msgspec.structs import replace

from kubectl_sky.observe.room import PODS, add_up, matches, tolerates
from kubectl_sky.plan.quota import Pods
from kubectl_sky.plan.resources import amounts, show
from kubectl_sky.words.core_objects import LimitRange
from kubectl_sky.words.pod_objects import NodeRule, PodSpec
from kubectl_sky.words.scheduled_objects import (
    FlavorSpec,
    KueueQueue,
    LabelSelector,
    QueueFlavor,
    QueueStatus,
    ResourceFlavor,
    ResourceGroup,
)

Key = tuple[str, str]  # flavor and resource
_ZERO = Fraction(0)


class Outlook(StrEnum):
    """When something would happen."""

    NOW = "now"
    LATER = "later"
    NEVER = "never"


class Quota(Struct, frozen=True):
    """The quota of a resource of a flavor; without a limit, any amount is borrowed or lent."""

    nominal: Fraction = _ZERO
    borrowing: Fraction | None = None
    lending: Fraction | None = None


class QuotaNode:
    """A ClusterQueue or cohort, with what its subtree has and uses."""

    def __init__(self, item: KueueQueue | None = None) -> None:
        self.parent: QuotaNode | None = None
        self.quotas = dict(_read_quotas(item)) if item else {}
        self.subtree = {key: quota.nominal for key, quota in self.quotas.items()}
        self.usage: dict[Key, Fraction] = {}

    def local(self, key: Key) -> Fraction:
        """Return what it never lends."""
        lending = self.quotas.get(key, Quota()).lending
        return _ZERO if lending is None else max(_ZERO, self.subtree.get(key, _ZERO) - lending)

    def available(self, key: Key) -> Fraction:
        """Return what it may still use, of its own and by borrowing."""
        subtree = self.subtree.get(key, _ZERO)
        usage = self.usage.get(key, _ZERO)
        if self.parent is None:
            return subtree - usage
        of_parent = self.parent.available(key)
        local = self.local(key)
        borrowing = self.quotas.get(key, Quota()).borrowing
        if borrowing is not None:
            used_there = max(_ZERO, usage - local)
            of_parent = min(subtree - local - used_there + borrowing, of_parent)
        return max(_ZERO, local - usage) + of_parent

    def capacity(self, key: Key) -> Fraction:
        """Return the most that it may ever use."""
        subtree = self.subtree.get(key, _ZERO)
        if self.parent is None:
            return subtree
        most = self.local(key) + self.parent.capacity(key)
        borrowing = self.quotas.get(key, Quota()).borrowing
        return most if borrowing is None else min(subtree + borrowing, most)

    def lend(self) -> None:
        """Count what it does not keep for itself as its parent's."""
        if self.parent:
            for key, total in self.subtree.items():
                shared = self.parent.subtree.get(key, _ZERO)
                self.parent.subtree[key] = shared + total - self.local(key)

    def use(self, key: Key, amount: Fraction) -> None:
        """Add to what it uses, and to what its parent uses beyond its own."""
        free = max(_ZERO, self.local(key) - self.usage.get(key, _ZERO))
        self.usage[key] = self.usage.get(key, _ZERO) + amount
        if self.parent and amount > free:
            self.parent.use(key, amount - free)

    def borrows(self, key: Key, amount: Fraction) -> bool:
        return self.usage.get(key, _ZERO) + amount > self.quotas.get(key, Quota()).nominal


def build_tree(queues: Iterable[KueueQueue], cohorts: Iterable[KueueQueue]) -> dict[str, QuotaNode]:
    """Return the ClusterQueues by name, in the tree of their cohorts, with what they use."""
    items = list(queues)
    groups = _build_cohorts(list(cohorts))
    nodes = {item.metadata.name: QuotaNode(item) for item in items}
    for item in items:
        if cohort := cohort_of(item):
            nodes[item.metadata.name].parent = groups.setdefault(cohort, QuotaNode())

    for node in (*nodes.values(), *sorted(groups.values(), key=_depth, reverse=True)):
        node.lend()
    for item in items:
        for flavor in item.status.flavors_reservation or ():
            totals = amounts({it.name: it.total for it in flavor.resources or ()})
            for name, total in totals.items():
                nodes[item.metadata.name].use((flavor.name, name), total)
    return nodes


def _build_cohorts(cohorts: Sequence[KueueQueue]) -> dict[str, QuotaNode]:
    """Return the cohorts by name; one whose parents go round in a circle has none."""
    groups = {item.metadata.name: QuotaNode(item) for item in cohorts}
    parents = {item.metadata.name: item.spec.parent_name for item in cohorts}
    for name, parent in parents.items():
        if parent and name not in _list_above(parent, parents):
            groups[name].parent = groups.setdefault(parent, QuotaNode())
    return groups


def cohort_of(queue: KueueQueue) -> str:
    return queue.spec.cohort_name or queue.spec.cohort


def _list_above(name: str, parents: Mapping[str, str]) -> list[str]:
    above: list[str] = []
    while name and name not in above:
        above.append(name)
        name = parents.get(name, "")
    return above


def _depth(node: QuotaNode) -> int:
    return 1 + _depth(node.parent) if node.parent else 0


def _read_quotas(item: KueueQueue) -> Iterator[tuple[Key, Quota]]:
    for group in item.spec.resource_groups or ():
        for flavor in group.flavors or ():
            for resource in flavor.resources or ():
                fields = {
                    "nominal": resource.nominal_quota,
                    "borrowing": resource.borrowing_limit,
                    "lending": resource.lending_limit,
                }
                yield (flavor.name, resource.name), Quota(**amounts(fields))


class Admission(Struct, frozen=True):
    """Whether a queue admits a workload, the flavors of its pods, and why it does not."""

    outlook: Outlook
    flavors: tuple[tuple[str, ...], ...] = ()  # of each template of pods
    reason: str = ""


class QueueState(Struct, frozen=True):
    """A ClusterQueue, and what it shares: the other queues, cohorts and flavors of the cluster.

    Cohorts and flavors are None if they may not be read.
    """

    item: KueueQueue
    queues: Sequence[KueueQueue]
    cohorts: Sequence[KueueQueue] | None = ()
    flavors: Mapping[str, ResourceFlavor] | None = None

    def build_node(self, *, is_empty: bool = False) -> QuotaNode:
        """Return its place in the tree; as if nothing were used if it `is_empty`."""
        queues = self.queues
        if is_empty:
            queues = [replace(queue, status=QueueStatus()) for queue in queues]
        return build_tree(queues, self.cohorts or ())[self.item.metadata.name]

    @property
    def knows_cohort(self) -> bool:
        return self.cohorts is not None or not cohort_of(self.item)

    @property
    def prefers_own(self) -> bool:
        """Whether a flavor without borrowing goes before one that borrows."""
        fungibility = self.item.spec.flavor_fungibility
        return fungibility is not None and fungibility.when_can_borrow == "TryNextFlavor"


def admit_all(
    workloads: Iterable[Sequence[Pods]], state: QueueState, limit_ranges: Sequence[LimitRange]
) -> Admission:
    """Return whether the quota of a ClusterQueue admits workloads that need each other.

    What does not fit without any other workload is never admitted.
    """
    workloads = list(workloads)
    merged = merge(item for workload in workloads for item in workload)
    empty = state.build_node(is_empty=True)
    together = _admit(merged, state, empty, limit_ranges)
    if together.outlook is not Outlook.NOW:  # else one by one, they may get different flavors
        ones = (_admit(workload, state, empty, limit_ranges) for workload in workloads)
        if any(it.outlook is not Outlook.NOW for it in ones):
            outlook = Outlook.NEVER if state.knows_cohort else Outlook.LATER
            return replace(together, outlook=outlook)

    flavors: list[tuple[str, ...]] = []
    node = state.build_node()
    for workload in workloads:
        admission = _admit(workload, state, node, limit_ranges)
        if admission.outlook is not Outlook.NOW:
            return admission
        flavors += admission.flavors
    return Admission(Outlook.NOW, tuple(flavors))


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


def _admit(
    pods: Sequence[Pods], state: QueueState, node: QuotaNode, limit_ranges: Sequence[LimitRange]
) -> Admission:
    """Return whether the quota of a ClusterQueue admits the pods of a workload; count them if so.

    As Kueue does it, each template gets one flavor for all resources of a group: the first one that
    its pods accept and that has room, before one for which it has to borrow if the queue says so.
    """
    used: dict[Key, Fraction] = {}
    chosen = []
    for item in pods:
        flavors = _choose_flavors(_Request(item, state, node, limit_ranges), used)
        if isinstance(flavors, Admission):
            return flavors
        chosen.append(flavors)
    for key, amount in used.items():
        node.use(key, amount)
    return Admission(Outlook.NOW, tuple(chosen))


class _Request(Struct, frozen=True):
    """The pods of a template, and the quota that they ask for."""

    pods: Pods
    state: QueueState
    node: QuotaNode
    limit_ranges: Sequence[LimitRange]


def _choose_flavors(request: _Request, used: dict[Key, Fraction]) -> tuple[str, ...] | Admission:
    """Return the flavors of a template, one for each group of resources, or why it gets none."""
    item = request.pods
    groups = request.state.item.spec.resource_groups or ()
    covered = {name for group in groups for name in group.resources}
    sizes = add_up(item.spec, request.limit_ranges)
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
        choice = _choose_flavor(request, group, wanted, used)
        if isinstance(choice, Admission):
            return choice
        flavors.append(choice)
        for name, size in wanted.items():
            used[choice, name] = used.get((choice, name), _ZERO) + size
    return tuple(flavors)


def _choose_flavor(
    request: _Request,
    group: ResourceGroup,
    wanted: Mapping[str, Fraction],
    used: Mapping[Key, Fraction],
) -> str | Admission:
    """Return the flavor of a template for the resources of a group, or why it gets none."""
    state = request.state
    node = request.node
    keys = {
        label
        for flavor in group.flavors or ()
        for label in _spec_of(flavor, state).node_labels or ()
    }
    borrowing: list[str] = []
    waits: list[str] = []
    refusals: list[str] = []
    for flavor in group.flavors or ():
        refusal = _refuse(request.pods.spec, flavor.name, state, keys)
        totals = {
            (flavor.name, name): size + used.get((flavor.name, name), _ZERO)
            for name, size in wanted.items()
        }
        outlook, reason = (Outlook.NEVER, refusal) if refusal else _compare(totals, node)
        if outlook is not Outlook.NOW:
            (waits if outlook is Outlook.LATER else refusals).append(reason)
        elif state.prefers_own and any(map(node.borrows, totals, totals.values())):
            borrowing.append(flavor.name)
        else:
            return flavor.name

    if borrowing:
        return borrowing[0]
    if waits:
        return Admission(Outlook.LATER, reason=" or ".join(dict.fromkeys(waits)))
    return Admission(Outlook.NEVER, reason="; ".join(dict.fromkeys(refusals)) or "it has no flavor")


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


def _compare(totals: Mapping[Key, Fraction], node: QuotaNode) -> tuple[Outlook, str]:
    """Return whether a flavor has room for these amounts, and what is missing."""
    beyond = []
    missing = []
    for (flavor, name), size in totals.items():
        most = node.capacity((flavor, name))
        rest = size - node.available((flavor, name))
        if size > most:
            numbers = show(name, size), show(name, most)
            beyond.append("{}: requested {}, at most {}".format(name, *numbers))
        if rest > 0:
            missing.append(f"{show(name, rest)} more {name}")
    if beyond:
        return Outlook.NEVER, f"{', '.join(beyond)} of flavor {flavor}"
    if missing:
        return Outlook.LATER, f"{' and '.join(missing)} of flavor {flavor}"
    return Outlook.NOW, ""


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
