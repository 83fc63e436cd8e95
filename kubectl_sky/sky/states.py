"""SkyPilot's enumerations, and its word for the state of a task."""

from enum import Enum

from kubectl_sky.observe.reasons import DetailedStatus
from kubectl_sky.observe.status import TaskStatus


class JobStatus(Enum):
    """The state of a task; a cancelled one is deleted."""

    PENDING = "PENDING"
    SETTING_UP = "SETTING_UP"
    RUNNING = "RUNNING"
    RECOVERING = "RECOVERING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    FAILED_SETUP = "FAILED_SETUP"
    CANCELLED = "CANCELLED"
    INIT = "INIT"
    STARTING = "STARTING"

    def is_terminal(self) -> bool:
        return self.value in ("SUCCEEDED", "FAILED", "FAILED_SETUP", "CANCELLED")


ManagedJobStatus = JobStatus
ClusterStatus = Enum("ClusterStatus", {"INIT": "INIT", "UP": "UP", "STOPPED": "STOPPED"})
DagExecution = Enum("DagExecution", {"SERIAL": "serial", "PARALLEL": "parallel"})
OptimizeTarget = Enum("OptimizeTarget", {"COST": 0, "TIME": 1})
StatusRefreshMode = Enum("StatusRefreshMode", {"NONE": "NONE", "AUTO": "AUTO", "FORCE": "FORCE"})
StorageMode = Enum(
    "StorageMode", {"MOUNT": "MOUNT", "COPY": "COPY", "MOUNT_CACHED": "MOUNT_CACHED"}
)
StoreType = Enum("StoreType", {"S3": "s3", "GCS": "gcs", "AZURE": "azure", "R2": "r2"})

_DETAILED = {
    DetailedStatus.SETTING_UP: JobStatus.SETTING_UP,
    DetailedStatus.RETRYING: JobStatus.RECOVERING,
    DetailedStatus.FAILED_SETUP: JobStatus.FAILED_SETUP,
}


def read_state(task: TaskStatus) -> JobStatus:
    name = task.state.name.replace("COMPLETED", "SUCCEEDED")
    return _DETAILED.get(task.detailed_status, JobStatus[name])
