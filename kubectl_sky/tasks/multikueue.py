"""Tasks in queues of Kueue's MultiKueue, which sends Jobs, and nothing else, to worker clusters.

The ConfigMaps, Secrets and Services of such a task are copied to all workers before its Job exists:
only Kueue knows which of them has room first. Nothing owns the copies; `stop` deletes them,
with `--leftovers` too.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from time import sleep
from typing import TYPE_CHECKING

from msgspec.structs import replace

from kubectl_sky.cluster import access, objects, parallel
from kubectl_sky.cluster.apply import apply_all
from kubectl_sky.cluster.session import Json, Session
from kubectl_sky.errors import (
    ClusterError,
    Forbidden,
    Interrupted,
    NotServed,
    SkyError,
    UserError,
)
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.tasks import deletion, find, stop
from kubectl_sky.tasks.deletion import Remainder
from kubectl_sky.tasks.find import Reference, Scope, Target
from kubectl_sky.tasks.stop import Auxiliary
from kubectl_sky.words import kinds, names
from kubectl_sky.words.decoding import convert
from kubectl_sky.words.task_objects import Job

if TYPE_CHECKING:
    from kubectl_sky.render.manifests import Manifests
    from kubectl_sky.tasks.ui import UI

_JOB_UID = "kueue.x-k8s.io/job-uid"
_SECONDS = 2.0  # between two looks at a queue
_SET_HINT = "name the contexts of the workers: kubectl sky config set multikueue '[NAME, …]'"


def sends_away(session: Session, queue: str) -> bool:
    """Return whether Kueue sends the Jobs of a queue to other clusters.

    Users may not read its AdmissionChecks, so Kueue's webhook is asked what becomes of a Job.
    """
    container = {"name": "main", "image": "pause"}
    job = {
        "apiVersion": kinds.JOB.api_version,
        "kind": kinds.JOB.kind,
        "metadata": {
            "generateName": "kubectl-sky-",
            "namespace": session.namespace,
            "labels": {names.QUEUE: queue},
        },
        "spec": {
            "suspend": True,
            "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
        },
    }

    with suppress(SkyError):  # a policy may refuse it; the task's own Job reports that better
        live = objects.create(session, job, dry_run=True)
        return convert(live, Job).spec.managed_by == names.MULTIKUEUE
    return False


@contextmanager
def copy_to_workers(
    session: Session, manifests: "Manifests", refuse: objects.Accept
) -> Iterator[None]:
    """Copy what a Job needs to the workers, and delete the copies again if the body fails.

    `refuse` raises if an existing object is not the user's. Raises ClusterError, and UserError
    without workers.
    """
    if not session.workers:
        raise UserError("no context of a worker cluster of MultiKueue is set", _SET_HINT)

    def accept(copy: Json, live: Json) -> None:  # scripts may be there already, without the mark
        marked = copy["metadata"]["annotations"]
        annotations = {key: marked[key] for key in marked if key != names.MULTIKUEUE_COPY}
        refuse({**copy, "metadata": {**copy["metadata"], "annotations": annotations}}, live)

    copies = [_copy(manifest.object) for manifest in (*manifests.shared, *manifests.auxiliary)]
    with ExitStack() as stack:
        for worker in workers(session):
            applied = apply_all(worker, [copies], accept)
            created = [
                (worker, stop.read_auxiliary(result.object)) for result in applied if result.created
            ]
            stack.callback(stop.delete_orphans, created)
        yield
        stack.pop_all()


def _copy(item: Json) -> Json:
    """Mark a copy, which `stop --leftovers` would take for an orphan of its cluster."""
    metadata = item["metadata"]
    annotations = {**metadata.get("annotations", {}), names.MULTIKUEUE_COPY: "true"}
    return {**item, "metadata": {**metadata, "annotations": annotations}}


def workers(session: Session) -> list[Session]:
    """Return sessions with all worker clusters. Raises ClusterError."""
    return [session.worker(context) for context in session.workers]


def locate(session: Session, scope: Scope, reference: Reference) -> tuple[Session, Target]:
    """Find a task, pipeline or group, and return it with the session of the cluster it runs in.

    Raises UserError as `find.get`, and if no context is set for the worker.
    """
    return _locate(session, find.get(session, scope, reference))


def locate_task(session: Session, scope: Scope, reference: Reference) -> tuple[Session, TaskStatus]:
    """Find a task as `locate` does. Raises UserError if it is a pipeline or group."""
    session, target = locate(session, scope, reference)
    return session, find.single_task(target)


def _locate(session: Session, target: Target) -> tuple[Session, Target]:
    """Return where a task runs, and its status there; a pipeline as it is.

    That is a worker from when Kueue has sent the Job there until it has finished: then Kueue
    deletes it there, with its pods.
    """
    if not session.workers or not isinstance(target, TaskStatus) or target.state.ended:
        return session, target
    cluster = _cluster(session, target)
    if not cluster:
        return session, target
    if cluster not in session.workers:
        message = f'task {target.id} is in the worker cluster "{cluster}", which has no context'
        raise UserError(message, _SET_HINT)
    worker = session.worker(cluster)
    try:
        return worker, find.get_by_label(worker, target.namespace, names.TASK_ID, target.id)
    except find.TaskNotFound:
        return session, target


def wait_until_sent(session: Session, target: Target, ui: "UI") -> tuple[Session, TaskStatus]:
    """Wait until Kueue has sent a new task to a worker, or it has finished; see `locate`.

    Ctrl-C does not change the task. Raises Interrupted, ClusterError, and UserError as `locate`.
    """
    task = find.single_task(target)
    ui.note("waiting for Kueue to choose a cluster")
    try:
        while True:
            worker, current = _locate(session, task)
            if worker is not session:
                ui.note(f'the task runs in the cluster "{worker.context}"')
                return worker, find.single_task(current)

            sleep(_SECONDS)
            latest = find.refetch(session, task)
            if not latest or latest.state.ended:
                return session, latest or task
    except KeyboardInterrupt:
        raise Interrupted(
            f"interrupted; task {task.id} stays in its queue",
            f"`kubectl sky wait {task.id}` waits for it, `kubectl sky logs {task.id} -f` follows it"
            f" once it runs, `kubectl sky stop {task.id}` stops it",
        ) from None


def _cluster(session: Session, task: TaskStatus) -> str:
    """Return the name of the MultiKueueCluster that a task was sent to; empty for none."""
    selector = f"{_JOB_UID} in ({', '.join(task.uids.values())})"
    try:
        kind = access.find_kueue(session, kinds.QUEUED_WORKLOAD)
        items = objects.list_all(session, kind, task.namespace, label_selector=selector)
    except (Forbidden, NotServed):
        return ""
    clusters = (item.status.cluster_name for item in items)
    return next(filter(None, clusters), "")


def delete_copies(session: Session, tasks: Sequence[TaskStatus]) -> list[str]:
    """Delete the copies of the objects of stopped tasks.

    Return a warning for each worker that cannot be reached: the tasks may never have used it.
    """

    def delete(context: str) -> str:
        try:
            worker = session.worker(context)
            copies, _ = stop.auxiliary_of_tasks(worker, tasks, stop.is_copy)
            stop.delete_orphans([(worker, item) for items in copies.values() for item in items])
        except SkyError as error:
            return f'copies in the worker cluster "{context}" may remain: {error.what}'
        return ""

    workers = session.workers if tasks else ()
    return list(filter(None, parallel.map_parallel(delete, workers)))


def wait_until_gone(
    session: Session, tasks: Sequence[TaskStatus], seconds: float | None = None
) -> list[Remainder]:
    """Wait until stopped tasks are gone, also their pods in worker clusters; return what remains.

    `delete_copies` has warned of workers that cannot be reached.
    """
    if not tasks:
        return []
    deleted = deletion.of_tasks(tasks)
    remaining = deletion.wait_until_gone(session, deleted, seconds)
    copies = [replace(item, uids={}) for item in deleted]
    for context in session.workers if not remaining else ():
        with suppress(ClusterError):
            remaining += deletion.wait_until_gone(session.worker(context), copies, seconds)
    return remaining


def list_orphans(session: Session, scope: Scope) -> list[tuple[Session, Auxiliary]]:
    """Return the copies, with the session of their worker, whose tasks do not exist any more."""
    alive = stop.alive(session, scope) if session.workers else ()

    def listed(worker: Session) -> list[tuple[Session, Auxiliary]]:
        copies, _ = stop.list_orphans(worker, scope, copies_of=alive)
        return [(worker, item) for item in copies]

    return [copy for copies in parallel.map_parallel(listed, workers(session)) for copy in copies]
