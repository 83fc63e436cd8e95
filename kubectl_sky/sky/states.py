"""SkyPilot's enumerations, and its word for the state of a task."""

from enum import Enum
from typing import Any

from kubectl_sky.observe.reasons import DetailedStatus
from kubectl_sky.observe.status import TaskStatus

__all__ = ["ClusterStatus", "DagExecution", "JobStatus", "ManagedJobStatus", "OptimizeTarget"]
__all__ += ["StatusRefreshMode", "StorageMode", "StoreType"]


class Status(Enum):
    """A state, whose value is its name."""

    def is_terminal(self) -> bool:
        return self.value in ("SUCCEEDED", "FAILED", "FAILED_SETUP", "CANCELLED")


def make_enum(name: str, members: str, kind: Any = Enum) -> Any:
    return kind(name, {member: member for member in members.split()})


_ENDED = "SUCCEEDED FAILED FAILED_SETUP CANCELLED"
JobStatus = make_enum("JobStatus", f"INIT PENDING SETTING_UP RUNNING {_ENDED}", Status)
_STARTED = "PENDING STARTING RUNNING RECOVERING"
ManagedJobStatus = make_enum("ManagedJobStatus", f"{_STARTED} {_ENDED}", Status)
ClusterStatus = make_enum("ClusterStatus", "INIT UP STOPPED")
OptimizeTarget = make_enum("OptimizeTarget", "COST TIME")
StatusRefreshMode = make_enum("StatusRefreshMode", "NONE AUTO FORCE")
StorageMode = make_enum("StorageMode", "MOUNT COPY MOUNT_CACHED")
StoreType = make_enum("StoreType", "S3 GCS AZURE R2 IBM OCI NEBIUS COREWEAVE")
DagExecution = Enum("DagExecution", {"SERIAL": "serial", "PARALLEL": "parallel"})

_MANAGED = {DetailedStatus.SETTING_UP: "STARTING", DetailedStatus.RETRYING: "RECOVERING"}


def job_status(task: TaskStatus) -> Any:
    is_setup = task.detailed_status in (DetailedStatus.SETTING_UP, DetailedStatus.FAILED_SETUP)
    name = task.detailed_status.name if is_setup else task.state.name
    return JobStatus[name.replace("COMPLETED", "SUCCEEDED")]


def managed_status(task: TaskStatus) -> Any:
    return ManagedJobStatus[_MANAGED.get(task.detailed_status, job_status(task).name)]
