from kubectl_sky.api.client import Client, Submission
from kubectl_sky.api.logs import LogLine, LogLines
from kubectl_sky.api.table import Table
from kubectl_sky.api.task import Manifests, Task, Validation
from kubectl_sky.api.threads import run_in_thread
from kubectl_sky.errors import Problem
from kubectl_sky.gpus.hours import Usage
from kubectl_sky.gpus.model import AcceleratorNode
from kubectl_sky.observe.endpoints import Port
from kubectl_sky.observe.nodes import NodeStatus, State
from kubectl_sky.observe.pipelines import PipelineStatus
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.observe.verdict import Diagnosis
from kubectl_sky.observe.volumes import VolumeStatus
from kubectl_sky.serve.model import ServiceStatus
from kubectl_sky.spec.dangers import Danger
from kubectl_sky.tasks.doctor import ClusterCheck

__version__: str
__all__ = [
    "AcceleratorNode",
    "Client",
    "ClusterCheck",
    "Danger",
    "Diagnosis",
    "LogLine",
    "LogLines",
    "Manifests",
    "NodeStatus",
    "PipelineStatus",
    "Port",
    "Problem",
    "ServiceStatus",
    "State",
    "Submission",
    "Table",
    "Task",
    "TaskStatus",
    "Usage",
    "Validation",
    "VolumeStatus",
    "__version__",
    "run_in_thread",
]
