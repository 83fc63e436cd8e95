"""`stop`: delete tasks, and the leftovers of interrupted submits."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from itertools import chain
from typing import Annotated

from msgspec import Struct, field

from kubectl_sky.cluster import access, objects, parallel
from kubectl_sky.cluster.session import Json, Session
from kubectl_sky.errors import Forbidden, NotFound, NotServed
from kubectl_sky.observe.nodes import NodeStatus, State
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.tasks import find
from kubectl_sky.tasks.deletion import Remainder
from kubectl_sky.tasks.find import Scope
from kubectl_sky.words import age, kinds, names
from kubectl_sky.words.decoding import convert
from kubectl_sky.words.documents import Document, Note, always
from kubectl_sky.words.kinds import Kind
from kubectl_sky.words.objects import Metadata, Object
from kubectl_sky.words.owners import User
from kubectl_sky.workloads import registry
from kubectl_sky.workloads.workload import Workload

AUXILIARY = (kinds.CONFIG_MAP, kinds.SECRET, kinds.SERVICE, kinds.PVC)
ROLE_HINT = "`kubectl sky doctor --role --with clean` prints a Role that grants it"


class Auxiliary(Struct, frozen=True):
    """An object of a task that is no workload: its kind, its metadata, and all of it if asked."""

    kind: Kind
    metadata: Metadata
    manifest: Json = {}


def read_auxiliary(manifest: Json) -> Auxiliary:
    """Return an object that was applied."""
    return Auxiliary(objects.kind_of_known(manifest), convert(manifest, Object).metadata)


class Stopped(Document, frozen=True, kw_only=True):
    """Tasks that were stopped: `stop`, `POST /tasks/stop`."""

    count: int
    status: Annotated[str, Note("`stopped`, or `deleting` while pods or Jobs exist")] = always(
        "stopped"
    )
    message: str
    task_ids: list[str]
    remaining: Annotated[list[str], Note("what still exists, and what keeps it")] = field(
        default_factory=list
    )
    warnings: Annotated[list[str], Note("of REST: objects that may remain")] = field(
        default_factory=list
    )


def describe_stopped(
    tasks: Sequence[TaskStatus],
    remaining: Sequence[Remainder] | None,
    warnings: Sequence[str] = (),
) -> Stopped:
    """Return the document of stopped tasks; `remaining` is None if nobody has waited."""
    count = f"{len(tasks)} task{'' if len(tasks) == 1 else 's'}"
    are = "is" if len(tasks) == 1 else "are"
    is_gone = remaining is not None and not remaining

    message = f"Stopped {count}"
    if remaining:
        message = f"{len(remaining)} of {count} still being deleted"
    elif not is_gone:
        message = f"{count} {are} being deleted; `kubectl sky list` shows what still exists"

    state = "stopped" if is_gone else "deleting"
    return Stopped(
        count=len(tasks),
        status=state,
        message=message,
        task_ids=[task.id for task in tasks],
        remaining=list(map(str, remaining or ())),
        warnings=list(warnings),
    )


def stop(session: Session, tasks: Sequence[TaskStatus]) -> list[str]:
    """Delete the workloads of the tasks; their dependents are garbage-collected.

    Returns when that has begun: `deletion.wait_until_gone` waits for the end.

    Also delete what a killed submit left without an owner, and Jobs that lost their labels.
    Return warnings of Secrets that may remain.
    """
    lacking = {_key(task) for task in tasks if _list_lost_jobs(task)}
    auxiliary, unread = auxiliary_of_tasks(
        session, tasks, lambda item: not _is_owned(item) or _task(item) in lacking
    )
    workloads = [
        (task.workload, metadata)
        for task in tasks
        for metadata in (
            *map(task.identity, task.uids),
            *_list_relabelled(task, auxiliary[_key(task)]),
        )
    ]

    def delete(workload: tuple[Workload, Mapping[str, str]]) -> None:
        """By its uid: deleting a collection also deletes what only has the labels."""
        backend, metadata = workload
        objects.delete_with_dependents(session, backend.kind, metadata, grace=backend.grace_period)

    parallel.map_parallel(delete, workloads)
    unowned = {
        key: [item for item in items if not _is_owned(item)] for key, items in auxiliary.items()
    }
    parallel.map_parallel(
        lambda item: objects.delete_by_uid(session, item.kind, item.metadata.identity),
        filter(_has_own_name, chain(*unowned.values())),
    )
    return [
        f"a Secret of the interrupted submit of task {task.id} may remain: you may not list"
        f" Secrets; {ROLE_HINT}"
        for task in tasks
        if task.namespace in unread and (task.incomplete or unowned.get(_key(task)))
    ]


def _is_owned(item: Auxiliary) -> bool:
    return bool(item.metadata.owner_references)


def _has_own_name(item: Auxiliary) -> bool:
    """Return whether an object is named as by submit: after its task or group, or by content."""
    metadata = item.metadata
    labels = metadata.labels
    owner_id = labels.get(names.TASK_ID) or labels.get(names.PIPELINE)
    if not owner_id:
        return names.FILES in labels or names.RUNTIME in labels
    return f"-{owner_id}-" in metadata.name + "-"


def _key(task: TaskStatus) -> tuple[str, str]:
    return task.namespace, task.id


def auxiliary_of_tasks(
    session: Session,
    tasks: Sequence[TaskStatus],
    needed: Callable[[Auxiliary], bool] = lambda item: True,
    *,
    in_full: bool = False,
) -> tuple[Mapping[tuple[str, str], Sequence[Auxiliary]], set[str]]:
    """Return the needed objects of each task that are no workloads and that the user may list.

    `in_full` adds their manifests. Also return the namespaces whose Secrets are unknown.
    """
    auxiliary: dict[tuple[str, str], list[Auxiliary]] = defaultdict(list)
    unread = set()
    owners = {_key(task): User(task.user) for task in tasks}

    def is_needed(item: Auxiliary) -> bool:
        owner = owners.get(_task(item))
        metadata = item.metadata
        is_own = owner is not None and owner.owns(metadata.labels, metadata.annotations)
        return is_own and needed(item)

    for namespace in {task.namespace for task in tasks}:
        labels = find.with_ids(task.id for task in tasks if task.namespace == namespace)
        try:
            items, forbidden_kinds = _auxiliary(
                session, namespace, labels, is_needed, in_full=in_full
            )
        except Forbidden:
            items = []
            forbidden_kinds = AUXILIARY
        if kinds.SECRET in forbidden_kinds:
            unread.add(namespace)
        for item in items:
            auxiliary[_task(item)].append(item)
    return auxiliary, unread


def _list_relabelled(task: TaskStatus, auxiliary: Sequence[Auxiliary]) -> Iterator[dict[str, str]]:
    """Yield the name, namespace and uid of each Job of a task that is not found by its labels.

    Its name is the one that submit gave, and it owns the same objects as the other Jobs.
    """
    owners = {
        owner.name: owner.uid
        for item in auxiliary
        for owner in item.metadata.owner_references
        if owner.kind == task.workload.kind.kind
    }
    for name in _list_lost_jobs(task) & set(owners):
        yield {"name": name, "namespace": task.namespace, "uid": owners[name]}


def _list_lost_jobs(task: TaskStatus) -> set[str]:
    return {node.job for node in task.nodes} - set(task.uids)


def stop_surviving_nodes(
    session: Session, task: TaskStatus, leads: Callable[[], bool] = lambda: True
) -> bool:
    """Stop the remaining nodes after a failure; return whether they are stopping.

    Sends nothing if the backend does this in the cluster, if a controller `leads` instead, or if
    the user is not allowed to change the task.
    """
    failed = task.first_failure
    backend = task.workload
    jobs = task.surviving_jobs
    if failed is None or not jobs or not leads():
        return task.stopping
    body = backend.stopping(failed.name)

    def stop_node(name: str) -> None:
        with suppress(NotFound):
            objects.patch_by_uid(session, backend.kind, task.identity(name), body)

    try:
        parallel.map_parallel(stop_node, jobs)
    except Forbidden:
        return False
    return True


KEPT_SECONDS = 5.0  # for other containers to end by themselves after `main`


def stop_kept_pods(
    session: Session, task: TaskStatus, leads: Callable[[], bool] = lambda: True
) -> bool:
    """Stop the pods that other containers keep after `main`; return whether to do so again soon.

    The kubelet ends them at a deadline, so that pods and logs remain. Nodes that failed then fail
    or restart as usual. Kubernetes also counts the pods of completed nodes as failed: their Job
    gets an annotation that says otherwise, and no retries. Sends nothing if a controller `leads`.
    Raises Forbidden.
    """
    nodes = list_kept_pods(task)
    if not nodes or not leads():
        return False
    now = session.now()
    delay = timedelta(seconds=KEPT_SECONDS)
    ended = [(node, age.parse(node.ended_at)) for node in nodes]
    due = [node for node, end in ended if not end or abs(now - end) >= delay]
    completed = {node.job: node.ended_at for node in due if not node.exit_code}

    def mark(job: str) -> None:
        annotations = {names.MAIN_ENDED: completed[job]}
        body = {"metadata": {"annotations": annotations}, "spec": {"backoffLimit": 0}}
        objects.patch_by_uid(session, task.workload.kind, task.identity(job), body)

    def end(node: NodeStatus) -> None:
        annotations = {names.MAIN_ENDED: node.ended_at}
        body = {"metadata": {"annotations": annotations}, "spec": {"activeDeadlineSeconds": 1}}
        objects.patch(session, kinds.POD, node.pod, task.namespace, body)

    with suppress(NotFound):  # deleted meanwhile
        parallel.map_parallel(mark, completed)
        parallel.map_parallel(end, due)
    return len(due) < len(nodes)


class KeptPodsStopper:
    """Stop kept pods as `stop_kept_pods` does while a client leads; note a missing right once."""

    def __init__(
        self, session: Session, leads: Callable[[], bool], note: Callable[[str], None]
    ) -> None:
        self._session = session
        self._leads = leads
        self._note = note
        self._is_forbidden = False

    def __call__(self, task: TaskStatus) -> bool:
        """Stop those that are due; return whether to do so again soon."""
        try:
            return not self._is_forbidden and stop_kept_pods(self._session, task, self._leads)
        except Forbidden as error:
            self._is_forbidden = True
            self._note(f"{task.name}: {error.what}; {task.kept_note}")
            return False


def list_kept_pods(task: TaskStatus) -> list[NodeStatus]:
    """Return the nodes whose pods are kept and can be stopped: nothing runs again after it.

    Of completed nodes, only those of Jobs that have no other node; other kinds may restart all.
    """
    nodes = task.kept
    unfinished = {node.job for node in task.nodes if node.state is not State.COMPLETED}
    is_job = task.workload.kind is kinds.JOB
    return [node for node in nodes if node.exit_code or (is_job and node.job not in unfinished)]


def alive(session: Session, scope: Scope) -> set[tuple[str, str]]:
    items = find.list_workloads(session, scope.namespace, scope.selector)
    return {_task(item) for item in items}


def list_orphans(
    session: Session, scope: Scope, copies_of: Collection[tuple[str, str]] | None = None
) -> tuple[list[Auxiliary], tuple[Kind, ...]]:
    """Return the objects of tasks without a workload, and the unreadable kinds.

    Interrupted submits leave such objects, and a submit in progress has some as well. Copies for
    Jobs of MultiKueue are left out; with `copies_of`, only those of other tasks are returned.
    """
    workloads = alive(session, scope) if copies_of is None else copies_of
    namespaces = {namespace for namespace, _ in workloads}

    def is_orphan(item: Auxiliary) -> bool:
        return (
            not _is_owned(item)
            and _has_own_name(item)
            and _task(item) not in workloads
            and is_copy(item) is (copies_of is not None)
            and not (  # scripts that the tasks of the namespace may need
                names.RUNTIME in item.metadata.labels and item.metadata.namespace in namespaces
            )
            and scope.owns(item.metadata)
        )

    return _auxiliary(session, scope.namespace, scope.selector, is_orphan)


def delete_orphans(items: Sequence[tuple[Session, Auxiliary]]) -> None:
    """Delete orphans of clusters, unless a task has started to use them meanwhile."""

    def delete(entry: tuple[Session, Auxiliary]) -> None:
        session, item = entry
        objects.delete_unchanged(session, item.kind, item.metadata.identity)

    parallel.map_parallel(delete, items)


def is_copy(item: Auxiliary) -> bool:
    """Return whether an object was copied for a Job that MultiKueue sends to this cluster."""
    return names.MULTIKUEUE_COPY in item.metadata.annotations


def _task(item: Auxiliary | Object) -> tuple[str, str]:
    metadata = item.metadata
    return metadata.namespace, metadata.labels.get(names.TASK_ID, "")


def _auxiliary(
    session: Session,
    namespace: str | None,
    labels: str,
    needed: Callable[[Auxiliary], bool],
    *,
    in_full: bool = False,
) -> tuple[list[Auxiliary], tuple[Kind, ...]]:
    """List the needed objects of tasks other than workloads; of the others, a page is in memory.

    Also return the kinds that the user is not allowed to list.
    """
    query = objects.selectors(labels)

    def listed(kind: Kind) -> list[Auxiliary] | None:
        def trimmed(item: Object) -> Auxiliary | None:
            auxiliary = Auxiliary(kind, item.metadata)
            return auxiliary if needed(auxiliary) else None

        def whole(item: Json) -> Auxiliary | None:
            auxiliary = Auxiliary(kind, convert(item, Object).metadata, item)
            return auxiliary if needed(auxiliary) else None

        try:
            if in_full:
                return objects.extract_manifests(session, kind, namespace, query, whole)
            return objects.extract_metadata(session, kind, namespace, query, trimmed)
        except (NotServed, Forbidden) as error:
            if kind not in AUXILIARY:  # a kind that is not served may be reported as forbidden
                return []
            if kind is kinds.SECRET and isinstance(error, Forbidden):
                return None
            raise

    gang = access.find_gang(session)
    gang_kinds = [gang] if gang else []
    all_kinds = (*AUXILIARY, *registry.COMPANION_KINDS, *gang_kinds)
    lists = dict(zip(all_kinds, parallel.map_parallel(listed, all_kinds), strict=True))
    unread = tuple(kind for kind, items in lists.items() if items is None)
    return [item for items in lists.values() for item in items or ()], unread
