"""List the workloads of tasks and their pods, with parallel requests per kind."""

from collections.abc import Iterable, Sequence

from kubectl_sky.cluster import access, objects, parallel, shapes
from kubectl_sky.cluster.session import Json, Session
from kubectl_sky.errors import Forbidden, NotServed
from kubectl_sky.observe import ownership
from kubectl_sky.observe.nodes import Object
from kubectl_sky.observe.ownership import Missing, Ownership, TaskObjects
from kubectl_sky.words import kinds, names
from kubectl_sky.words.kinds import Kind
from kubectl_sky.workloads import registry

MAX_LABEL_VALUES = 100  # maximum number of values in a label selector


def list_workloads_and_pods(
    session: Session, namespace: str | None, selector: str, *, trimmed: bool = True
) -> tuple[list[Json], list[Json]]:
    """List workloads and pods in parallel; `trimmed` to the fields of a status."""
    *workload_lists, pods = _list_kinds(
        session, (*registry.KINDS, kinds.POD), namespace, selector, trimmed=trimmed
    )
    return [item for items in workload_lists for item in items], pods


def list_workloads(session: Session, namespace: str | None, selector: str) -> list[Json]:
    """List the workloads of all backends, with one request per kind."""
    lists = _list_kinds(session, registry.KINDS, namespace, selector)
    return [item for items in lists for item in items if registry.is_root_object(item)]


def served_kinds(session: Session) -> list[Kind]:
    """Return the workload kinds that this cluster serves."""
    return [
        kind
        for kind, requires in registry.KINDS.items()
        if not requires or (access.may_serve(session, kind) and access.serves(session, kind))
    ]


def _list_kinds(
    session: Session,
    kinds_to_list: Iterable[Kind],
    namespace: str | None,
    selector: str,
    *,
    trimmed: bool = False,
) -> list[list[Json]]:
    """List several kinds in parallel, and check at the same time which are installed.

    Optional kinds that are not installed, or forbidden to this user, give an empty list.
    """

    def listed(kind: Kind) -> list[Json]:
        optional = bool(registry.KINDS.get(kind))
        if optional and not access.may_serve(session, kind):
            return []
        try:
            shape = shapes.of(kind) if trimmed else None
            return objects.list_all(session, kind, namespace, label_selector=selector, shape=shape)
        except (NotServed, Forbidden):
            if not optional:
                raise
            return []

    return parallel.map_parallel(listed, kinds_to_list)


def explain_missing(session: Session, namespace: str | None, owned: Ownership) -> Ownership:
    """Find out why nodes of tasks have no object; reads nothing if no task lacks one.

    Without permission to list Services, it stays unknown.
    """
    lacking = [task for task in owned.tasks if task.lacks]
    if not lacking:
        return owned
    pipeline = any(names.PIPELINE in _labels(task.items[0]) for task in lacking)
    selector = f"{names.TASK}=true" if pipeline else _task_id_selector(lacking)
    try:
        services = objects.list_all(
            session, kinds.SERVICE, namespace, label_selector=selector, shape=shapes.METADATA_ONLY
        )
    except Forbidden:
        return owned
    decided = ownership.explained(owned, services, session.now())
    deleted = [task for task in decided.tasks if task.missing is Missing.DELETED]
    if not deleted:
        return decided
    # The submit may have finished between the two requests: read the objects again.
    current = list_workloads(session, namespace, _task_id_selector(deleted))
    return ownership.confirmed(decided, current)


def _labels(item: Object) -> Object:
    labels: Object = item["metadata"].get("labels") or {}
    return labels


def _task_id_selector(tasks: Sequence[TaskObjects]) -> str:
    return with_ids(task.key[1] for task in tasks)


def with_ids(task_ids: Iterable[str]) -> str:
    """Return a selector of these tasks, or of all tasks if there are too many."""
    ids = sorted(set(task_ids))
    return (
        f"{names.TASK_ID} in ({','.join(ids)})"
        if len(ids) <= MAX_LABEL_VALUES
        else f"{names.TASK}=true"
    )


def list_intermediate_jobs(
    session: Session, namespace: str | None, items: Sequence[Json], pods: Sequence[Json]
) -> list[Json]:
    """List the Jobs between pods and workloads; empty if no backend creates any."""
    jobs: list[Json] = []
    for label, named in ownership.between(items, pods).items():
        values = f" in ({','.join(sorted(set(named)))})" if len(named) <= MAX_LABEL_VALUES else ""
        jobs += objects.list_all(
            session,
            kinds.JOB,
            namespace,
            label_selector=f"{label}{values}",
            shape=shapes.METADATA_ONLY,
        )
    return jobs
