"""SkyPilot's detailed job statuses of tasks and nodes."""

from collections.abc import Collection
from enum import StrEnum

from kubectl_sky.observe.nodes import RETRYING, NodeStatus, State
from kubectl_sky.workloads.workload import QUEUED, STOPPED


class JobStatus(StrEnum):
    """The job status of a task or a node.

    SETTING_UP: scheduled on a cluster node, preparing the image, files or volumes. STOPPED: stopped
    because another node failed. UNKNOWN: its cluster node was lost.
    """

    PENDING = "PENDING"
    QUEUED = "QUEUED"
    SETTING_UP = "SETTING_UP"
    RUNNING = "RUNNING"
    RETRYING = "RETRYING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    FAILED_SETUP = "FAILED_SETUP"
    STOPPED = "STOPPED"
    UNKNOWN = "UNKNOWN"


_WAITING = {
    "Suspended": JobStatus.QUEUED,
    QUEUED: JobStatus.QUEUED,
    RETRYING: JobStatus.RETRYING,
    "NodeLost": JobStatus.UNKNOWN,
}
_FAILED = {
    "FAILED_SETUP": JobStatus.FAILED_SETUP,
    STOPPED: JobStatus.STOPPED,
}
_STATES = {
    State.RUNNING: JobStatus.RUNNING,
    State.COMPLETED: JobStatus.SUCCEEDED,
    State.FAILED: JobStatus.FAILED,
    State.PENDING: JobStatus.PENDING,
}
# If all nodes are pending, the task has the first of these that any node has.
_TELLING = (JobStatus.UNKNOWN, JobStatus.QUEUED, JobStatus.SETTING_UP)


def of_node(node: NodeStatus) -> JobStatus:
    """Return the job status of a node."""
    if node.state is State.PENDING:
        default = JobStatus.SETTING_UP if node.host else JobStatus.PENDING
        return _WAITING.get(node.reason, default)
    if node.state is State.FAILED:
        return _FAILED.get(node.reason, JobStatus.FAILED)
    return _STATES[node.state]


def of_task(state: State, nodes: Collection[NodeStatus], failure: NodeStatus | None) -> JobStatus:
    """Return a task's job status from its state, its nodes and its first failure."""
    if state is State.FAILED and failure:
        return of_node(failure)
    statuses = {of_node(node) for node in nodes}
    if JobStatus.RETRYING in statuses:
        return JobStatus.RETRYING
    if state is State.PENDING:
        return next((status for status in _TELLING if status in statuses), JobStatus.PENDING)
    return _STATES[state]
