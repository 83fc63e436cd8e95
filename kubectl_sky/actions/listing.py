"""List the objects that run tasks, and their pods: one request a kind, side by side."""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from kubectl_sky import kinds, names
from kubectl_sky.cluster import absent, access, objects
from kubectl_sky.cluster.session import Json, Session
from kubectl_sky.errors import Forbidden, NotServed
from kubectl_sky.kinds import Kind
from kubectl_sky.observe import needed, ownership
from kubectl_sky.workloads import registry

NAMED = 100  # tasks that a selector names


def parts(
    session: Session, namespace: str | None, selector: str, pod_fields: str = ""
) -> tuple[list[Json], list[Json]]:
    """List workloads and pods side by side.

    Kinds that were absent a short while ago are listed only where there are pods that nothing else
    made; where not all pods are listed, where the cluster says that it has them now.
    """
    skipped = [kind for kind in registry.KINDS if absent.noted(session.server, kind)]
    wanted = [kind for kind in registry.KINDS if kind not in skipped]
    where = (namespace, selector, needed.shape)
    with ThreadPoolExecutor(1) as pool:
        installed = pool.submit(_installed, session, skipped) if skipped and pod_fields else None
        *found, pods = _lists(session, (*wanted, kinds.POD), *where, pod_fields)
    again: list[Kind] = []
    if installed:
        again = installed.result()
    elif skipped and _ids(pods) - {each for items in found for each in _ids(items)}:
        again = skipped
    if again:
        found += _lists(session, again, *where)
    return [item for items in found for item in items], pods


def _installed(session: Session, missed: list[Kind]) -> list[Kind]:
    """Return those of some kinds that the cluster may have; all where it does not say."""
    try:
        groups = access.groups(session)
    except Forbidden:
        return missed
    return [kind for kind in missed if kind.version in groups.get(kind.group, ())]


def pods(session: Session, namespace: str | None, selector: str, fields: str) -> list[Json]:
    """List the pods of tasks by labels and fields."""
    (found,) = _lists(session, [kinds.POD], namespace, selector, needed.shape, fields)
    return found


def workloads(session: Session, namespace: str | None, selector: str) -> list[Json]:
    """List the objects that run tasks, whatever backend made them, one request a kind."""
    lists = _lists(session, registry.KINDS, namespace, selector)
    return [item for items in lists for item in items if registry.top(item)]


def served(session: Session) -> list[Kind]:
    """Return the kinds of which a task may be on this cluster."""
    return [
        kind
        for kind, requires in registry.KINDS.items()
        if not requires or access.serves(session, kind)
    ]


def _lists(
    session: Session,
    wanted: Iterable[Kind],
    namespace: str | None,
    selector: str,
    shapes: Callable[[Kind], type | None] = lambda kind: None,
    pod_fields: str = "",
) -> list[list[Json]]:
    """List several kinds side by side, of pods those that a field selector is for.

    Where a kind has to be installed first and is not, or is not for this user, there are none.
    """

    def listed(kind: Kind) -> list[Json]:
        brought = bool(registry.KINDS.get(kind))
        try:
            found = objects.list_all(
                session,
                kind,
                namespace,
                label_selector=selector,
                field_selector=pod_fields if kind is kinds.POD else "",
                shape=shapes(kind),
            )
        except (NotServed, Forbidden) as error:
            if not brought:
                raise
            if isinstance(error, NotServed):
                absent.note(session.server, kind)
            return []
        if brought:
            absent.forget(session.server, kind)
        return found

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


def _ids(items: Iterable[Json]) -> set[str]:
    return {item["metadata"]["labels"].get(names.TASK_ID, "") for item in items}
