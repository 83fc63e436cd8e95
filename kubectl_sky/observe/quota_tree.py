"""Build the tree of Kueue's quotas: ClusterQueues in cohorts, what they have, lend and use.

A ClusterQueue or cohort keeps for itself what it does not lend; the rest of its quota, and of what
it uses, is its parent's. https://kueue.sigs.k8s.io/docs/concepts/cohort
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction

from msgspec import Struct

from kubectl_sky.plan.resources import amounts
from kubectl_sky.words.scheduled_objects import KueueQueue

Key = tuple[str, str]  # flavor and resource
ZERO = Fraction(0)


class Quota(Struct, frozen=True):
    """The quota of a resource of a flavor; without a limit, any amount is borrowed or lent."""

    nominal: Fraction = ZERO
    borrowing: Fraction | None = None
    lending: Fraction | None = None


class QuotaNode:
    """A ClusterQueue or cohort, with what its subtree has and uses."""

    def __init__(self, item: KueueQueue | None = None) -> None:
        self.parent: QuotaNode | None = None
        self.children: list[QuotaNode] = []
        self.quotas = dict(_read_quotas(item)) if item else {}
        self.subtree = {key: quota.nominal for key, quota in self.quotas.items()}
        self.usage: dict[Key, Fraction] = {}

    def join(self, parent: "QuotaNode") -> None:
        self.parent = parent
        parent.children.append(self)

    @property
    def above(self) -> list["QuotaNode"]:
        """The cohorts that it is in, the root last."""
        return [self.parent, *self.parent.above] if self.parent else []

    @property
    def root(self) -> "QuotaNode":
        return self.parent.root if self.parent else self

    @property
    def height(self) -> int:
        """How far away its farthest ClusterQueue is."""
        return max((child.height + 1 for child in self.children), default=0)

    def local(self, key: Key) -> Fraction:
        """Return what it never lends."""
        lending = self.quotas.get(key, Quota()).lending
        return ZERO if lending is None else max(ZERO, self.subtree.get(key, ZERO) - lending)

    def available(self, key: Key) -> Fraction:
        """Return what it may still use, of its own and by borrowing."""
        subtree = self.subtree.get(key, ZERO)
        usage = self.usage.get(key, ZERO)
        if self.parent is None:
            return subtree - usage
        of_parent = self.parent.available(key)
        local = self.local(key)
        borrowing = self.quotas.get(key, Quota()).borrowing
        if borrowing is not None:
            used_there = max(ZERO, usage - local)
            of_parent = min(subtree - local - used_there + borrowing, of_parent)
        return self.local_free(key) + of_parent

    def capacity(self, key: Key) -> Fraction:
        """Return the most that it may ever use."""
        subtree = self.subtree.get(key, ZERO)
        if self.parent is None:
            return subtree
        most = self.local(key) + self.parent.capacity(key)
        borrowing = self.quotas.get(key, Quota()).borrowing
        return most if borrowing is None else min(subtree + borrowing, most)

    def lend(self) -> None:
        """Count what it does not keep for itself as its parent's."""
        if self.parent:
            for key, total in self.subtree.items():
                shared = self.parent.subtree.get(key, ZERO)
                self.parent.subtree[key] = shared + total - self.local(key)

    def use(self, key: Key, amount: Fraction) -> None:
        """Add to what it uses, and to what its parent uses beyond its own."""
        free = self.local_free(key)
        self.usage[key] = self.usage.get(key, ZERO) + amount
        if self.parent and amount > free:
            self.parent.use(key, amount - free)

    def release(self, key: Key, amount: Fraction) -> None:
        """Undo what `use` has done."""
        beyond = self.usage.get(key, ZERO) - self.local(key)
        self.usage[key] = self.usage.get(key, ZERO) - amount
        if self.parent and beyond > 0:
            self.parent.release(key, min(amount, beyond))

    def local_free(self, key: Key) -> Fraction:
        """Return what it has left of what it never lends."""
        return max(ZERO, self.local(key) - self.usage.get(key, ZERO))

    def borrows(self, key: Key, amount: Fraction = ZERO) -> bool:
        """Return whether it uses more than its own quota, with an amount more."""
        return self.usage.get(key, ZERO) + amount > self.subtree.get(key, ZERO)

    def is_used_up(self, key: Key) -> bool:
        return self.usage.get(key, ZERO) >= self.subtree.get(key, ZERO)

    def exceeds(self, keys: Collection[Key]) -> bool:
        return any(map(self.borrows, keys))

    def find_level(self, key: Key, amount: Fraction) -> tuple[int, bool]:
        """Return the height of the lowest subtree whose quota holds an amount more.

        The second value is whether that is smaller than the whole tree.
        """
        node = self
        while node.borrows(key, amount) and node.parent:
            amount -= node.local_free(key)
            node = node.parent
        return node.height, bool(node.parent)


def build_tree(queues: Iterable[KueueQueue], cohorts: Iterable[KueueQueue]) -> dict[str, QuotaNode]:
    """Return the ClusterQueues by name, in the tree of their cohorts, with what they use."""
    items = list(queues)
    groups = _build_cohorts(list(cohorts))
    nodes = {item.metadata.name: QuotaNode(item) for item in items}
    for item in items:
        if cohort := cohort_of(item):
            nodes[item.metadata.name].join(groups.setdefault(cohort, QuotaNode()))

    for node in (
        *nodes.values(),
        *sorted(groups.values(), key=lambda node: len(node.above), reverse=True),
    ):
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
            groups[name].join(groups.setdefault(parent, QuotaNode()))
    return groups


def cohort_of(queue: KueueQueue) -> str:
    return queue.spec.cohort_name or queue.spec.cohort


def _list_above(name: str, parents: Mapping[str, str]) -> list[str]:
    above: list[str] = []
    while name and name not in above:
        above.append(name)
        name = parents.get(name, "")
    return above


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
