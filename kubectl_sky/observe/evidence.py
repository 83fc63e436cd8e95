"""Record how failed nodes of a task ended, with the last lines of their logs."""

from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from kubectl_sky.observe.documents import DeletedPod
from kubectl_sky.observe.nodes import (
    JOB_NOT_FOUND,
    POD_DELETED,
    NodeStatus,
    Object,
    State,
    of_pod,
    was_deleted,
    with_runtime_reason,
)
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.plan.resources import gpus_of
from kubectl_sky.words.documents import Part
from kubectl_sky.workloads.workload import STOPPED

LINES = 50  # lines of each node's log
BYTES = 64 * 1024  # bytes of those lines
LOGS = 16  # nodes whose log lines are kept: the first to fail


class Evidence(Part, frozen=True):
    """The deaths of one task, oldest first, and the identity of the task and server.

    `user` is the owner, empty in records of earlier versions.
    """

    task_id: str
    name: str
    namespace: str
    server: str
    created_at: str
    deaths: tuple[DeletedPod, ...] = ()
    user: str = ""

    def of(self, task: TaskStatus) -> bool:
        """Return whether it belongs to this task, and not to an older one with its id."""
        return (self.task_id, self.created_at) == (task.id, task.created_at)

    def having(self, more: Iterable[DeletedPod]) -> "Evidence":
        """Return a copy with more deaths; a pod that is already recorded stays as it is."""
        by_pod = {death.pod: death for death in (*more, *self.deaths)}
        return replace(self, deaths=tuple(sorted(by_pod.values(), key=_order)))

    def settled(self, task: TaskStatus) -> "Evidence":
        """Return a copy in which the pods of stopped nodes did not fail by themselves."""
        deaths = (settle(death, task) for death in self.deaths)
        return replace(self, deaths=tuple(sorted(deaths, key=_order)))

    def gone(self, task: TaskStatus) -> "Evidence":
        """Return a copy without the pods that still exist.

        The cluster has the logs of those pods. If the remaining ones were only stopped because of
        another failure, the copy has no deaths.
        """
        existing = {name for node in task.nodes for name in (node.pod, node.previous)}
        remaining = tuple(death for death in self.deaths if death.pod not in existing)
        has_cause = any(death.reason != STOPPED for death in remaining)
        return replace(self, deaths=remaining if has_cause else ())


def deaths(task: TaskStatus, pods: Iterable[Object]) -> Iterator[DeletedPod]:
    """Yield the failed pods of a task, including replaced ones, without log lines."""
    for pod in pods:
        if pod.get("status", {}).get("phase") == "Failed":
            yield _death(task, pod)


def settle(death: DeletedPod, task: TaskStatus) -> DeletedPod:
    """Return the death as stopped if that is how its node ended.

    Pods and workloads are watched separately: a pod can be deleted before the change of the
    workload arrives that had it deleted.
    """
    stopped = (node.index for node in task.nodes if node.reason == STOPPED)
    is_stopped = death.reason == POD_DELETED and death.rank in stopped
    return replace(death, reason=STOPPED) if is_stopped else death


def restored(task: TaskStatus, record: Evidence) -> TaskStatus:
    """Return the task with the recorded causes of failed nodes that have no pod any more."""
    causes = {death.rank: death for death in record.gone(task).deaths if death.reason != STOPPED}

    known = (JOB_NOT_FOUND,) if task.workload.fail_fast else (JOB_NOT_FOUND, STOPPED)

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
    """Return the last lines within the limits.

    If the last line alone is too long, its end is returned.
    """
    texts: list[str] = []
    remaining = BYTES
    for line in reversed(lines[-LINES:]):
        if len(line) > remaining:
            break
        remaining -= len(line)
        texts.append(line.decode(errors="replace"))
    if lines and not texts:
        texts.append(lines[-1][-BYTES:].decode(errors="replace"))
    return tuple(reversed(texts))


def _death(task: TaskStatus, pod: Object) -> DeletedPod:
    rank = task.workload.rank(pod)
    status = of_pod(NodeStatus(rank, task.workload.title(rank), ""), pod)
    node = next((node for node in task.nodes if node.index == rank), None)
    # Stopped pods did not fail by themselves. The controllers of some backends delete them before
    # the object has failed.
    stopped = was_deleted(pod) and (
        task.workload.fail_fast or (node is not None and node.reason == STOPPED)
    )
    gpus = gpus_of(pod)
    return DeletedPod(
        rank=rank,
        name=status.name,
        pod=status.pod,
        host=status.host,
        reason=STOPPED if stopped else status.reason,
        message=status.message,
        ended_at=status.ended_at,
        exit_code=status.exit_code,
        started_at=pod.get("status", {}).get("startTime") or "",
        gpus=gpus.count if gpus else None,
        gpu=gpus.model if gpus else "",
    )


def _order(death: DeletedPod) -> tuple[bool, bool, str, int]:
    """Return the sort key, in the order of TaskStatus.first_failure.

    Deaths stopped for another failure, and those without a time, come last.
    """
    return (death.reason == STOPPED, not death.ended_at, death.ended_at, death.rank)
