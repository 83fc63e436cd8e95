"""List the objects that run tasks, and their pods: one request a kind, side by side."""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from kubectl_sky import kinds
from kubectl_sky.cluster import access, objects
from kubectl_sky.cluster.session import Json, Session
from kubectl_sky.errors import Forbidden, NotServed
from kubectl_sky.kinds import Kind
from kubectl_sky.observe import needed, ownership
from kubectl_sky.workloads import registry

NAMED = 100  # tasks that a selector names


def parts(session: Session, namespace: str | None, selector: str) -> tuple[list[Json], list[Json]]:
    """List workloads and pods side by side."""
    *found, pods = _lists(session, (*registry.KINDS, kinds.POD), namespace, selector, needed.shape)
    return [item for items in found for item in items], pods


def workloads(session: Session, namespace: str | None, selector: str) -> list[Json]:
    """List the objects that run tasks, whatever backend made them, one request a kind."""
    lists = _lists(session, registry.KINDS, namespace, selector)
    return [item for items in lists for item in items if registry.top(item)]


def served(session: Session) -> list[Kind]:
    """Return the kinds of workloads that this cluster serves."""
    return [
        kind
        for kind, requires in registry.KINDS.items()
        if not requires or (access.may_serve(session, kind) and access.serves(session, kind))
    ]


def _lists(
    session: Session,
    wanted: Iterable[Kind],
    namespace: str | None,
    selector: str,
    shapes: Callable[[Kind], type | None] = lambda kind: None,
) -> list[list[Json]]:
    """List several kinds side by side, and ask at the same time which of them are installed.

    Of a kind that is not installed, or not for this user, there are no objects.
    """

    def listed(kind: Kind) -> list[Json]:
        optional = bool(registry.KINDS.get(kind))
        if optional and not access.may_serve(session, kind):
            return []
        try:
            return objects.list_all(
                session, kind, namespace, label_selector=selector, shape=shapes(kind)
            )
        except (NotServed, Forbidden):
            if not optional:
                raise
            return []

    each = list(wanted)
    with ThreadPoolExecutor(len(each)) as pool:
        return list(pool.map(listed, each))


def makers(
    session: Session, namespace: str | None, items: Sequence[Json], pods: Sequence[Json]
) -> list[Json]:
    """List the Jobs through which pods belong to objects; nothing where no backend has any."""
    found: list[Json] = []
    for label, named in ownership.between(items, pods).items():
        few = f" in ({','.join(sorted(set(named)))})" if len(named) <= NAMED else ""
        found += objects.list_all(
            session, kinds.JOB, namespace, label_selector=f"{label}{few}", shape=needed.Maker
        )
    return found
