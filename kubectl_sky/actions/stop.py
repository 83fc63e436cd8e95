"""`stop` and `clean`: delete what runs tasks, and what interrupted submits left behind."""

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from kubectl_sky import kinds, names
from kubectl_sky.actions import find, listing
from kubectl_sky.actions.find import Scope
from kubectl_sky.cluster import objects
from kubectl_sky.cluster.session import Json, Session
from kubectl_sky.errors import Forbidden, NotFound, NotServed
from kubectl_sky.kinds import Kind
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.users import User
from kubectl_sky.workloads import registry

AUXILIARY = (kinds.CONFIG_MAP, kinds.SECRET, kinds.SERVICE, kinds.PVC)
_WORKERS = 16


def stop(session: Session, tasks: Sequence[TaskStatus]) -> None:
    """Delete the objects that run the tasks: pods and all that they own follow."""
    decided = find.decided(list(tasks))
    with ThreadPoolExecutor(_WORKERS) as pool:
        list(pool.map(lambda task: _stop(session, task), decided))


def _stop(session: Session, task: TaskStatus) -> None:
    """One request for each object, by its uid: a collection would take what only has the labels."""
    backend = task.workload

    def delete(name: str) -> None:
        metadata = task.identity(name)
        objects.delete_same(
            session,
            backend.kind,
            metadata,
            propagation=backend.propagation,
            grace=backend.grace,
        )

    with ThreadPoolExecutor(_WORKERS) as pool:
        list(pool.map(delete, task.uids))
    if len(task.nodes) < task.num_nodes:  # cut short before its objects owned the rest
        left, _ = _auxiliary(session, task.namespace, names.selector(task_id=task.id))
        owner = User(task.user)
        _delete(session, [item for item in left if owner.owns(item["metadata"])])


def others(session: Session, task: TaskStatus) -> bool:
    """End the nodes that go on after one has failed for good; say whether they are ending.

    Where the cluster does so by itself nothing is sent; users who may not change the task leave
    them alone.
    """
    failed, backend = task.first_failure, task.workload
    if failed is None or backend.together or task.over:
        return failed is not None and backend.together
    body = backend.stopping(failed.name)
    going = dict.fromkeys(node.job for node in task.nodes if not node.state.ended)

    def end(name: str) -> None:
        with suppress(NotFound):
            objects.patch_same(session, backend.kind, task.identity(name), body)

    try:
        with ThreadPoolExecutor(_WORKERS) as pool:
            list(pool.map(end, going if body else ()))
    except Forbidden:
        return False
    return bool(body)


def orphans(session: Session, scope: Scope, before: str) -> tuple[list[Json], tuple[Kind, ...]]:
    """Return what interrupted submits left, objects of tasks that nothing runs, and unread kinds.

    `before` is an RFC 3339 time in UTC: younger objects may belong to a submit that is under way.
    """
    labels = ",".join(f"{k}={v}" for k, v in ({names.TASK: "true"} | scope.labels).items())
    alive = {_task(item) for item in listing.workloads(session, scope.namespace, labels)}
    auxiliary, unread = _auxiliary(session, scope.namespace, labels)
    return [
        item
        for item in scope.own(auxiliary)
        if _task(item) not in alive
        and item["metadata"]["creationTimestamp"] < before
        and not item["metadata"].get("ownerReferences")
    ], unread


def remove(session: Session, items: Sequence[Json]) -> None:
    """Delete orphans, unless a task has begun to use them meanwhile."""
    with ThreadPoolExecutor(_WORKERS) as pool:
        list(pool.map(lambda item: objects.delete_unchanged(session, item), items))


def _task(item: Json) -> tuple[str, str]:
    metadata = item["metadata"]
    return metadata["namespace"], metadata["labels"].get(names.TASK_ID, "")


def _auxiliary(
    session: Session, namespace: str | None, labels: str
) -> tuple[list[Json], tuple[Kind, ...]]:
    """List what tasks have beside what runs them, and return the kinds that may not be listed."""

    def listed(kind: Kind) -> list[Json] | None:
        try:
            return objects.list_all(session, kind, namespace, label_selector=labels)
        except (NotServed, Forbidden) as error:
            if kind in registry.BESIDE:  # a kind that is not served may look forbidden
                return []
            if kind is kinds.SECRET and isinstance(error, Forbidden):
                return None
            raise

    every = (*AUXILIARY, *registry.BESIDE)
    with ThreadPoolExecutor(len(every)) as pool:
        lists = dict(zip(every, pool.map(listed, every), strict=True))
    unread = tuple(kind for kind, items in lists.items() if items is None)
    return [item for items in lists.values() for item in items or ()], unread


def _delete(session: Session, items: Iterable[Json]) -> None:
    def delete(item: Json) -> None:
        objects.delete_same(session, objects.known_kind(item), item["metadata"])

    with ThreadPoolExecutor(_WORKERS) as pool:
        list(pool.map(delete, items))
