"""Record how failed nodes of a task ended, with the last lines of their logs."""

from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from kubectl_sky.observe.documents import DeletedPod
from kubectl_sky.observe.nodes import (
    NodeStatus,
    State,
    is_lost,
    lost,
    of_pod,
    was_deleted,
    with_runtime_reason,
)
from kubectl_sky.observe.reasons import JOB_NOT_FOUND, POD_DELETED
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.plan.resources import gpus_of
from kubectl_sky.words.documents import Part
from kubectl_sky.words.pod_objects import Pod
from kubectl_sky.workloads.workload import LATE, STOPPED

LINES = 50  # lines of each node's log
BYTES = 64 * 1024  # bytes of those lines
LOGS = 16  # nodes whose log lines are kept: the first to fail


class Evidence(Part, frozen=True):
    """The deaths of one task, and the identity of the task and server."""

    task_id: str
    name: str
    namespace: str
    server: str
    created_at: str
    deaths: tuple[DeletedPod, ...] = ()  # oldest first
    user: str = ""  # the owner; empty in records of earlier versions
    logs: str = ""  # as in TaskStatus

    def of(self, task: TaskStatus) -> bool:
        """Return whether it belongs to this task, and not to an older one with its id."""
        return (self.task_id, self.created_at) == (task.id, task.created_at)

    def merge(self, more: Iterable[DeletedPod], task: TaskStatus) -> "Evidence":
        """Return a copy with more deaths; a pod that is already recorded stays as it is."""
        by_pod = {death.pod: death for death in (*more, *self.deaths)}
        return replace(self, deaths=settle(by_pod.values(), task))

    def gone(self, task: TaskStatus) -> "Evidence":
        """Return a copy without the pods that still exist.

        The cluster has the logs of those pods. If the remaining ones were only stopped because of
        another failure, the copy has no deaths.
        """
        existing = {name for node in task.nodes for name in (node.pod, node.previous)}
        remaining = tuple(death for death in self.deaths if death.pod not in existing)
        if all(death.reason == STOPPED for death in remaining):
            remaining = ()
        return replace(self, deaths=remaining)


def deaths(task: TaskStatus, pods: Iterable[Pod]) -> Iterator[DeletedPod]:
    """Yield the failed and lost pods of a task, including replaced ones, without log lines."""
    for pod in pods:
        was_lost = is_lost(pod)
        if pod.status.phase != "Failed" and not was_lost:
            continue
        rank = task.workload.rank(pod)
        status = of_pod(NodeStatus(rank, task.title(rank), ""), pod)
        if was_lost:
            status = lost(status, pod)
        # Controllers of some backends delete stopped pods before the object has failed.
        stopped = task.workload.fail_fast and was_deleted(pod)
        reason = STOPPED if stopped else status.reason
        gpus = gpus_of(pod.spec)
        gpu_count = gpus.count if gpus else None
        gpu_model = gpus.model if gpus else ""
        yield DeletedPod(
            rank=rank,
            name=status.name,
            pod=status.pod,
            host=status.host,
            reason=reason,
            message=status.message,
            ended_at=status.ended_at,
            exit_code=status.exit_code,
            started_at=pod.status.start_time or "",
            gpus=gpu_count,
            gpu=gpu_model,
        )


def settle(deaths: Iterable[DeletedPod], task: TaskStatus) -> tuple[DeletedPod, ...]:
    """Return the deaths in the order of TaskStatus.first_failure, those of stopped nodes as such.

    Pods and workloads are watched separately: a pod can be deleted before the change of the
    workload arrives that had it deleted. Deaths stopped for another failure, and those without a
    time, come last.
    """
    stopped = {node.index for node in task.nodes if node.reason == STOPPED}
    settled = [
        replace(death, reason=STOPPED)
        if death.reason == POD_DELETED and death.rank in stopped
        else death
        for death in deaths
    ]
    settled.sort(key=lambda it: (it.reason == STOPPED, not it.ended_at, it.ended_at, it.rank))
    return tuple(settled)


def restored(task: TaskStatus, record: Evidence) -> TaskStatus:
    """Return the task with the recorded causes of failed nodes that have no pod any more."""
    causes = {death.rank: death for death in record.gone(task).deaths if death.reason != STOPPED}
    known = [JOB_NOT_FOUND, LATE]
    if not task.workload.fail_fast:
        known.append(STOPPED)

    def restore(node: NodeStatus) -> NodeStatus:
        death = causes.get(node.index)
        if death is None or node.pod or node.state is not State.FAILED or node.reason in known:
            return node
        status = replace(
            node,
            reason=death.reason,
            message=death.message,
            exit_code=death.exit_code,
            host=death.host,
            started_at=death.started_at,
            ended_at=death.ended_at or node.ended_at,
        )
        return with_runtime_reason(status)

    return replace(task, nodes=tuple(map(restore, task.nodes)))


def last_lines(lines: Sequence[bytes]) -> tuple[str, ...]:
    """Return the last lines within the limits; the first may be only its end."""
    end = b"\n".join(lines[-LINES:])[-BYTES:]
    return tuple(end.decode(errors="replace").split("\n")) if lines else ()
