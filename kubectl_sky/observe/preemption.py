"""Tell which workloads Kueue preempts for a new one: the classical preemption of its scheduler.

Candidates go one after the other until the new workload fits; then those stay that need not go.
https://kueue.sigs.k8s.io/docs/concepts/preemption
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Set
from fractions import Fraction
from functools import partial

from msgspec import Struct

from kubectl_sky.observe.quota_tree import ZERO, Key, QuotaNode
from kubectl_sky.plan.resources import amounts
from kubectl_sky.words.objects import Owner, find_true
from kubectl_sky.words.scheduled_objects import KueuePreemption, QueuedWorkload

_Usage = Mapping[Key, Fraction]


class Holder(Struct, frozen=True):
    """A workload that holds quota of a ClusterQueue, and the object that it is of."""

    namespace: str
    owner: Owner
    queue: str
    priority: int
    reserved_at: str
    uid: str
    usage: _Usage
    is_evicted: bool = False


def read_holders(workloads: Iterable[QueuedWorkload]) -> Iterator[Holder]:
    """Yield the workloads that hold quota, with what their pods use of each flavor."""
    for item in workloads:
        conditions = item.status.conditions
        reserved = find_true(conditions, "QuotaReserved")
        admission = item.status.admission
        if not (reserved and admission) or find_true(conditions, "Finished"):
            continue
        usage: dict[Key, Fraction] = defaultdict(Fraction)
        for part in admission.pod_set_assignments or ():
            for name, size in amounts(part.resource_usage).items():
                usage[(part.flavors or {}).get(name, ""), name] += size
        metadata = item.metadata
        owner = Owner(name=metadata.name, uid=metadata.uid, kind="Workload")
        yield Holder(
            metadata.namespace,
            next(iter(metadata.owner_references), owner),
            admission.cluster_queue,
            item.spec.priority or 0,
            reserved.last_transition_time or "",
            metadata.uid,
            dict(usage),
            find_true(conditions, "Evicted") is not None,
        )


class Snapshot:
    """The queues by name in the tree of their quotas, and the workloads that use these."""

    def __init__(self, nodes: Mapping[str, QuotaNode], holders: Iterable[Holder]) -> None:
        self.nodes = nodes
        self.holders = [holder for holder in holders if holder.queue in nodes]
        self._known: dict[tuple[str, Key], Fraction] = defaultdict(Fraction)
        for holder in self.holders:
            for key, amount in holder.usage.items():
                self._known[holder.queue, key] += amount

    def knows_all(self, queue: str) -> bool:
        """Return whether the known workloads are all that use the quotas of a queue's tree."""
        root = self.nodes[queue].root
        return all(self._knows(name) for name, node in self.nodes.items() if node.root is root)

    @property
    def knows_all_queues(self) -> bool:
        return all(map(self._knows, self.nodes))

    def _knows(self, queue: str) -> bool:
        usage = self.nodes[queue].usage
        return all(self._known[queue, key] == amount for key, amount in usage.items())

    def remove(self, holder: Holder) -> None:
        for key, amount in holder.usage.items():
            self.nodes[holder.queue].release(key, amount)

    def add(self, holder: Holder) -> None:
        for key, amount in holder.usage.items():
            self.nodes[holder.queue].use(key, amount)

    def evict(self, victims: Collection[Holder]) -> None:
        """Remove workloads for good."""
        for victim in victims:
            self.remove(victim)
            self.holders.remove(victim)


class Preemptor(Struct, frozen=True):
    """A new workload: its queue, whom that lets it preempt, and its priority there."""

    queue: str
    policy: KueuePreemption
    priority: int

    @property
    def may_preempt(self) -> bool:
        policies = (self.policy.within_cluster_queue, self.policy.reclaim_within_cohort)
        return any(policy not in ("", "Never") for policy in policies)

    @property
    def may_borrow(self) -> bool:
        """Whether it may preempt while its queue borrows."""
        borrowing = self.policy.borrow_within_cohort
        return borrowing is not None and borrowing.policy not in ("", "Never")

    def find_victims(self, snapshot: Snapshot, contested: Set[Key], usage: _Usage) -> list[Holder]:
        """Return the workloads that go so that an amount more can be used; none if that fails.

        `contested` are those of its flavors and resources that lack quota. As Kueue does it, the
        workloads of other queues go before those of its own, of lower priority before others, and
        newer ones before older ones.
        """
        own = snapshot.nodes[self.queue]
        candidates = list(self._list_candidates(snapshot, contested, usage))
        candidates.sort(key=lambda it: it.holder.uid)
        candidates.sort(key=lambda it: it.holder.reserved_at, reverse=True)
        candidates.sort(key=lambda it: (not it.holder.is_evicted, it.group, it.holder.priority))

        for may_borrow in self._list_attempts(candidates, own, contested):
            valid = (it.holder for it in candidates if it.is_valid(contested, may_borrow))
            fits = partial(_fits, own, usage, may_borrow)
            if victims := _choose_victims(snapshot, valid, fits):
                return victims
        return []

    def _list_candidates(
        self, snapshot: Snapshot, contested: Set[Key], usage: _Usage
    ) -> Iterator["_Candidate"]:
        own = snapshot.nodes[self.queue]
        has_advantage = _find_advantages(own, usage)
        for holder in snapshot.holders:
            node = snapshot.nodes[holder.queue]
            is_own = node is own
            policy = (
                self.policy.within_cluster_queue if is_own else self.policy.reclaim_within_cohort
            )
            if not (contested & holder.usage.keys() and self._outranks(holder, policy)):
                continue
            if is_own:
                yield _Candidate(holder, _OWN)
                continue
            path = [node, *node.above]
            common = next((at for at, it in enumerate(path) if id(it) in has_advantage), None)
            if common is None or not all(it.exceeds(contested) for it in path[:common]):
                continue
            if has_advantage[id(path[common])]:
                yield _Candidate(holder, _RECLAIM, tuple(path[:common]))
            else:
                yield _Candidate(
                    holder, _BY_PRIORITY, tuple(path[:common]), self._goes_to_borrower(holder)
                )

    def _outranks(self, holder: Holder, policy: str) -> bool:
        """Return whether a workload may be preempted; a new one is never older than another."""
        if policy in ("LowerPriority", "LowerOrNewerEqualPriority"):
            return holder.priority < self.priority
        return policy == "Any"

    def _goes_to_borrower(self, holder: Holder) -> bool:
        """Return whether a workload of another queue is preempted also if this queue borrows."""
        borrowing = self.policy.borrow_within_cohort
        if borrowing is None or not self.may_borrow or holder.priority >= self.priority:
            return False
        limit = borrowing.max_priority_threshold
        return limit is None or holder.priority <= limit

    def _list_attempts(
        self, candidates: Iterable["_Candidate"], own: QuotaNode, contested: Set[Key]
    ) -> tuple[bool, ...]:
        """Return whether borrowing is allowed in the first attempt, and in the second one."""
        groups = {it.group for it in candidates}
        is_under_quota = not any(map(own.is_used_up, contested))
        if groups <= {_OWN} or not (self.may_borrow or is_under_quota):
            return (True,)
        if not self.may_borrow and _RECLAIM not in groups:
            return (False, True)
        return (True, False)


_RECLAIM = 0  # use quota that is closer to the new workload
_BY_PRIORITY = 1
_OWN = 2  # of the same queue


class _Candidate(Struct, frozen=True):
    """A workload that may go while the nodes from its queue up use more than their quota."""

    holder: Holder
    group: int
    path: tuple[QuotaNode, ...] = ()
    goes_to_borrower: bool = True

    def is_valid(self, contested: Set[Key], may_borrow: bool) -> bool:
        if may_borrow and not self.goes_to_borrower:
            return False
        return all(node.exceeds(contested) for node in self.path)


def _find_advantages(own: QuotaNode, usage: _Usage) -> dict[int, bool]:
    """Return for each cohort above a queue whether a smaller subtree has quota for an amount."""
    advantages = {}
    rest = dict(usage)
    has_advantage = False
    node = own
    for parent in own.above:
        fits = not any(node.borrows(key, size) for key, size in rest.items())
        rest = {key: max(ZERO, size - node.local_free(key)) for key, size in rest.items()}
        has_advantage = has_advantage or fits
        advantages[id(parent)] = has_advantage
        node = parent
    return advantages


def _fits(own: QuotaNode, usage: _Usage, may_borrow: bool) -> bool:
    return all(
        (may_borrow or not own.borrows(key, size)) and size <= own.available(key)
        for key, size in usage.items()
    )


def _choose_victims(
    snapshot: Snapshot, candidates: Iterable[Holder], fits: Callable[[], bool]
) -> list[Holder]:
    """Return those that go until something fits, without those that may stay then."""
    victims: list[Holder] = []
    has_room = False
    for holder in candidates:
        snapshot.remove(holder)
        victims.append(holder)
        has_room = fits()
        if has_room:
            break

    for holder in victims[-2::-1] if has_room else ():
        snapshot.add(holder)
        if fits():
            victims.remove(holder)
        else:
            snapshot.remove(holder)
    for holder in victims:
        snapshot.add(holder)
    return victims if has_room else []
