"""Keep evidence of failed nodes in the user's cache, for when pods are deleted."""

import hashlib
from collections.abc import Iterable, Sequence
from contextlib import suppress

import msgspec
from msgspec.structs import replace

from kubectl_sky.cluster.core import CoreManager
from kubectl_sky.cluster.encoding import decode
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import ClusterError, KubeletUnreachable, Unreachable
from kubectl_sky.observe import evidence, status
from kubectl_sky.observe.documents import DeletedPod
from kubectl_sky.observe.evidence import LINES, LOGS, Evidence
from kubectl_sky.observe.explain import Surroundings, explain, pods_by_key
from kubectl_sky.observe.nodes import State, is_lost, with_silence
from kubectl_sky.observe.ownership import TaskObjects
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.words import names, settings
from kubectl_sky.words.owners import User
from kubectl_sky.words.pod_objects import Pod
from kubectl_sky.words.private import Folder

_MAX_FILES = 100  # maximum number of tasks with evidence
_RETENTION_SECONDS = 14 * 86_400  # retention time
_MAX_FILE_BYTES = 8_000_000  # maximum bytes read from a file


class EvidenceRecorder:
    """Save evidence of the failed pods of one task as soon as they are seen."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._failures: dict[str, DeletedPod] = {}
        self._written: tuple[DeletedPod, ...] = ()
        self._unresponsive_nodes = set[str]()  # cluster nodes that did not answer a log request

    def record_failures(self, task: TaskStatus, pods: Iterable[Pod]) -> None:
        """Record newly failed and lost pods; read the logs of the first failed ones only."""
        if self._session.is_for_caller:  # others could read it
            return
        pods = list(pods)
        self._unresponsive_nodes |= {pod.spec.node_name for pod in pods if is_lost(pod)}
        for death in evidence.deaths(task, pods):
            if death.pod not in self._failures:
                early = len(self._failures) < LOGS
                self._failures[death.pod] = self._with_lines(task, death) if early else death
        settled = evidence.settle(self._failures.values(), task)
        if settled != self._written and (len(settled) <= LOGS or task.over):
            self._written = settled
            write(self._session, task, settled)

    def _with_lines(self, task: TaskStatus, death: DeletedPod) -> DeletedPod:
        if death.host in self._unresponsive_nodes:
            return death
        core = CoreManager(self._session)
        try:
            lines = core.last_lines(task.namespace, death.pod, names.CONTAINER, LINES)
        except (Unreachable, KubeletUnreachable):
            self._unresponsive_nodes.add(death.host)
            return death
        except ClusterError:  # the pod is deleted or never started
            return death
        return replace(death, lines=evidence.last_lines(lines))


def write(session: Session, task: TaskStatus, deaths: Iterable[DeletedPod] = ()) -> None:
    """Merge the evidence into the file of the task; ignore write errors."""
    server = session.server
    folder = _folder()
    before = of_task(session, task) or Evidence(
        task.id, task.name, task.namespace, server, task.created_at, user=task.user
    )
    updated = replace(before.merge(deaths, task), logs=task.logs)
    with suppress(OSError):
        name = _file(server, task.namespace, task.id)
        folder.write(name, msgspec.json.encode(updated))
        folder.prune(_MAX_FILES, seconds=_RETENTION_SECONDS)


def of_task(session: Session, task: TaskStatus) -> Evidence | None:
    """Return the evidence of the failed pods of a task; None without any."""
    if session.is_for_caller:
        return None
    stored = _read(_folder(), _file(session.server, task.namespace, task.id))
    return stored if stored and stored.of(task) else None


def fold(session: Session, owned: Sequence[TaskObjects]) -> list[TaskStatus]:
    """Compute the status of tasks, with why their pods do not start or have failed.

    Failed nodes without a pod get their recorded causes.
    """
    now = session.now()
    owned = [task.edit_pods(lambda pod: with_silence(pod, now)) for task in owned]
    by_key = {task.key: task for task in owned}

    def add_causes(task: TaskStatus) -> TaskStatus:
        pods = by_key[task.namespace, task.id].all_pods
        task = explain(task, Surroundings(pods_by_key(pods)))
        has_lost_pod = any(node.state is State.FAILED and not node.pod for node in task.nodes)
        record = of_task(session, task) if has_lost_pod else None
        return evidence.restored(task, record) if record else task

    return list(map(add_causes, status.fold(owned)))


def of_deleted_pods(session: Session, task: TaskStatus) -> Evidence | None:
    """Return the evidence of deleted pods of a task; None without any."""
    stored = of_task(session, task)
    lost = stored.gone(task) if stored else None
    return lost if lost and lost.deaths else None


def of_deleted_task(
    session: Session, namespace: str | None, user: User | None, reference: str
) -> Evidence | None:
    """Return the evidence of a deleted task by its id, name or prefix of the id.

    Of several, the newest task counts; `user` limits it to the tasks of one owner.
    """
    if session.is_for_caller:
        return None

    text = reference.removeprefix("task/")
    folder = _folder()
    records = [
        record
        for record in (_read(folder, name) for name in folder.names())
        if record
        and record.server == session.server
        and namespace in (None, record.namespace)
        and (user is None or record.user == user.name)
    ]

    matches = [record for record in records if text in (record.task_id, record.name)] or [
        record for record in records if text and record.task_id.startswith(text)
    ]
    return max(matches, key=lambda record: record.created_at, default=None)


def _folder() -> Folder:
    return Folder(settings.cache_folder(), "evidence")


def _file(server: str, namespace: str, task_id: str) -> str:
    digest = hashlib.sha256(f"{server} {namespace}".encode()).hexdigest()
    return f"{task_id}-{digest[:12]}.json"


def _read(folder: Folder, name: str) -> Evidence | None:
    """Read an evidence file; None if it is invalid or unreadable."""
    try:
        return decode(folder.read(name, _MAX_FILE_BYTES), Evidence)
    except (OSError, ValueError):
        return None
