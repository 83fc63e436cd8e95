"""List the reasons of nodes that mean something to this program, and what each one means.

A reason that is not listed is the cluster's own word, and told as it is.
"""

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

from kubectl_sky.workloads.workload import MEETS_NOBODY, QUEUED, STOPPED

DELETING = "Deleting"  # signal of a task whose objects are being deleted
HELD = "Held"  # signal of a node whose failed container is held
JOB_NOT_FOUND = "JobNotFound"  # reason of a node whose Job was deleted or lost its labels
NODE_LOST = "NodeLost"  # reason of a running node whose cluster node does not respond
NODE_TAINTED = "NodeTainted"  # reason of a failed node whose cluster node has a NoExecute taint
NOT_SCHEDULED = "NotScheduled"  # reason of a pending node whose pod no scheduler has handled
POD_DELETED = "PodDeleted"  # reason of a node whose pod was deleted, not stopped by its Job
POD_KEPT = "PodKept"  # signal of a node whose pod other containers keep after `main` has ended
POD_NOT_FOUND = "PodNotFound"  # reason of a node whose pod no longer exists or lost its labels
RETRYING = "Retrying"  # reason of a failed node that restarts
TERMINATING = "Terminating"  # reason of a running node whose pod is being deleted
UNSCHEDULABLE = "Unschedulable"  # the scheduler's reason: no cluster node fits the pod
WAITING_FOR_FILES = "WaitingForFiles"  # reason of a node whose local files have not arrived
WAITING_FOR_NODES = "WaitingForNodes"  # reason of a node that has not met the others yet


class DetailedStatus(StrEnum):
    """The status of a task or a node: that of State, or a more specific word.

    The words are SkyPilot's in lower case. SETTING_UP: scheduled on a cluster node, preparing the
    image, files or volumes. STOPPED: stopped because another node failed. UNKNOWN: its cluster node
    does not respond.
    """

    PENDING = "pending"
    QUEUED = "queued"
    SETTING_UP = "setting_up"
    RUNNING = "running"
    RETRYING = "retrying"
    COMPLETED = "completed"
    FAILED = "failed"
    FAILED_SETUP = "failed_setup"
    STOPPED = "stopped"
    UNKNOWN = "unknown"


class Reason(Struct, frozen=True):
    """A reason of a node, and what it means."""

    name: str
    statuses: Mapping[str, DetailedStatus] = {}  # its more specific words, by State
    is_normal: bool = False  # whether nodes have it for a moment during a normal start
    is_told: bool = False  # whether it is told of a running node, too
    yields: bool = False  # whether a reason of the Job explains more
    waits: str = ""  # what a node with it waits for
    ended: str | None = None  # how a node with it ended, if its name does not say so
    message: str = ""  # the beginning of the termination message by which entry.sh tells it
    phase: str = ""  # where the node failed


_LOST = "its cluster node was lost"
_REASONS = (
    Reason("", is_normal=True),
    Reason(NOT_SCHEDULED, is_normal=True),
    Reason("ContainerCreating", is_normal=True),
    Reason("PodInitializing", is_normal=True),
    Reason(QUEUED, {"pending": DetailedStatus.QUEUED}, waits="queued"),
    Reason("Suspended", {"pending": DetailedStatus.QUEUED}, waits="suspended"),
    Reason(RETRYING, {"pending": DetailedStatus.RETRYING}),
    Reason(
        TERMINATING,
        is_told=True,
        yields=True,
        waits="waiting for the earlier pod to be deleted",
    ),
    Reason(NODE_LOST, {"running": DetailedStatus.UNKNOWN}, is_told=True, yields=True),
    Reason(NODE_TAINTED, ended="its cluster node was tainted"),
    Reason(WAITING_FOR_NODES, is_normal=True, waits="waiting to meet the other nodes"),
    Reason(MEETS_NOBODY, is_told=True, ended="it started after another node had completed"),
    Reason(POD_DELETED, yields=True),
    Reason(STOPPED, {"failed": DetailedStatus.STOPPED}),
    Reason("DeletionByTaintManager", ended=_LOST),
    Reason("DeletionByPodGC", ended=_LOST),
    Reason("NodeShutdown", ended=_LOST),
    Reason("EvictionByEvictionAPI", ended="evicted from its cluster node"),
    Reason("PreemptionByScheduler", ended="the scheduler preempted its pod"),
    Reason("Error", ended=""),
    Reason("Failed", ended=""),
    Reason(
        "FAILED_SETUP",
        {"failed": DetailedStatus.FAILED_SETUP},
        ended="setup failed",
        message="setup failed with exit code ",
        phase="setup",
    ),
    Reason("HUNG", ended="it hung", message="hung: ", phase="run"),
    Reason(
        "NODES_MISSING",
        ended="other nodes are missing",
        message="gave up waiting for the other nodes ",
        phase="start",
    ),
    Reason(
        "UPLOAD_TIMEOUT",
        ended="upload timed out: no client connected",
        message="upload of the files for ",
        phase="start",
    ),
)
_BY_NAME = {reason.name: reason for reason in _REASONS}


def find(name: str) -> Reason:
    """Return what is known of a reason."""
    return _BY_NAME.get(name) or Reason(name)


def find_by_message(message: str) -> Reason | None:
    """Return the reason that a termination message tells; None if the message is another's."""
    told = (reason for reason in _REASONS if reason.message)
    return next((reason for reason in told if message.startswith(reason.message)), None)
