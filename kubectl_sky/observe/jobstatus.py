"""SkyPilot's finer words for what a task and its nodes do, beside the seed's four."""

from collections.abc import Collection
from enum import StrEnum

from kubectl_sky.observe.nodes import RETRYING, NodeStatus, State
from kubectl_sky.workloads.workload import QUEUED, STOPPED


class JobStatus(StrEnum):
    """What a task or a node does.

    SETTING_UP: a machine is found, and image, files or volumes are being made ready there.
    STOPPED: ended because another node failed. UNKNOWN: its machine was lost.
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
# Of a task whose nodes all wait, the first of these that is there says most.
_TELLING = (JobStatus.UNKNOWN, JobStatus.QUEUED, JobStatus.SETTING_UP)


def of_node(node: NodeStatus) -> JobStatus:
    """Return a node's status."""
    if node.state is State.PENDING:
        usual = JobStatus.SETTING_UP if node.host else JobStatus.PENDING
        return _WAITING.get(node.reason, usual)
    if node.state is State.FAILED:
        return _FAILED.get(node.reason, JobStatus.FAILED)
    return _STATES[node.state]


def of_task(state: State, nodes: Collection[NodeStatus], failure: NodeStatus | None) -> JobStatus:
    """Return a task's status by its state, its nodes and the one that failed first."""
    if state is State.FAILED and failure:
        return of_node(failure)
    found = {of_node(node) for node in nodes}
    if JobStatus.RETRYING in found:
        return JobStatus.RETRYING
    if state is State.PENDING:
        return next((status for status in _TELLING if status in found), JobStatus.PENDING)
    return _STATES[state]
