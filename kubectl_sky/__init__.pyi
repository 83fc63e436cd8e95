from kubectl_sky.api.client import Client, Submission
from kubectl_sky.api.logs import LogLine
from kubectl_sky.api.task import Manifests, Task, Validation
from kubectl_sky.errors import Problem
from kubectl_sky.observe.nodes import NodeStatus, State
from kubectl_sky.observe.pipelines import PipelineStatus
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.observe.volumes import VolumeStatus
from kubectl_sky.spec.dangers import Danger

__version__: str
__all__ = [
    "Client",
    "Danger",
    "LogLine",
    "Manifests",
    "NodeStatus",
    "PipelineStatus",
    "Problem",
    "State",
    "Submission",
    "Task",
    "TaskStatus",
    "Validation",
    "VolumeStatus",
    "__version__",
]
