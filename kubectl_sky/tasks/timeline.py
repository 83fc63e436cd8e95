"""`status --timeline`: read what tells when the nodes of tasks were queued, scheduled and run."""

from collections.abc import Sequence

from kubectl_sky.cluster import parallel
from kubectl_sky.cluster.core import CoreManager
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import ClusterError
from kubectl_sky.observe import timeline
from kubectl_sky.observe.signals import TaskSnapshot
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.observe.timeline import TaskTimeline, Timeline
from kubectl_sky.tasks import doctor
from kubectl_sky.words import kinds, names

MAX_LOGS = 20  # nodes of a task whose logs are read: the first ones


def read(session: Session, tasks: Sequence[TaskStatus]) -> Timeline:
    timelines = tuple(_of_task(session, task) for task in tasks)
    return Timeline(session.now(), timelines)


def _of_task(session: Session, task: TaskStatus) -> TaskTimeline:
    snapshot, _ = doctor.snapshot(session, task)
    current = snapshot.task or task
    return timeline.task_timeline(snapshot, current, _logs(session, snapshot, current))


def _logs(session: Session, snapshot: TaskSnapshot, task: TaskStatus) -> dict[int, bytes]:
    """Return the first bytes of the logs that tell when setup ended, by rank."""
    pods = {pod["metadata"]["name"]: pod for pod in snapshot.of(kinds.POD.kind)}
    nodes = [
        node
        for node in task.nodes
        if node.started and node.pod in pods and timeline.runs_setup(pods[node.pod])
    ][:MAX_LOGS]
    core = CoreManager(session)

    def head(pod: str) -> bytes | None:
        try:
            return core.first_bytes(task.namespace, pod, names.CONTAINER, timeline.LOG_BYTES)
        except ClusterError:  # deleted, or the user may not read logs
            return None

    heads = parallel.map_parallel(head, [node.pod for node in nodes]) if nodes else []
    return {node.index: log for node, log in zip(nodes, heads, strict=True) if log is not None}
