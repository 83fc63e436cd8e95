"""SkyPilot's Python names over `kubectl_sky.Client`: `from kubectl_sky import sky`.

docs/from-skypilot.md says what is different. What has no equal raises NotSupportedError.
"""

from kubectl_sky.sky import clouds as clouds
from kubectl_sky.sky import exceptions as exceptions
from kubectl_sky.sky import jobs as jobs
from kubectl_sky.sky import serve as serve
from kubectl_sky.sky.clouds import CLOUD_REGISTRY as CLOUD_REGISTRY
from kubectl_sky.sky.clusters import autostop as autostop
from kubectl_sky.sky.clusters import cancel as cancel
from kubectl_sky.sky.clusters import down as down
from kubectl_sky.sky.clusters import endpoints as endpoints
from kubectl_sky.sky.clusters import exec as exec  # noqa: A004
from kubectl_sky.sky.clusters import job_status as job_status
from kubectl_sky.sky.clusters import launch as launch
from kubectl_sky.sky.clusters import queue as queue
from kubectl_sky.sky.clusters import status as status
from kubectl_sky.sky.clusters import tail_logs as tail_logs
from kubectl_sky.sky.requests import get as get
from kubectl_sky.sky.requests import optimize as optimize
from kubectl_sky.sky.requests import refuse
from kubectl_sky.sky.requests import stream_and_get as stream_and_get
from kubectl_sky.sky.states import ClusterStatus as ClusterStatus
from kubectl_sky.sky.states import DagExecution as DagExecution
from kubectl_sky.sky.states import JobStatus as JobStatus
from kubectl_sky.sky.states import ManagedJobStatus as ManagedJobStatus
from kubectl_sky.sky.states import OptimizeTarget as OptimizeTarget
from kubectl_sky.sky.states import StatusRefreshMode as StatusRefreshMode
from kubectl_sky.sky.states import StorageMode as StorageMode
from kubectl_sky.sky.states import StoreType as StoreType
from kubectl_sky.sky.tasks import Dag as Dag
from kubectl_sky.sky.tasks import Resources as Resources
from kubectl_sky.sky.tasks import Storage as Storage
from kubectl_sky.sky.tasks import Task as Task


def __getattr__(name: str) -> object:
    try:
        return getattr(clouds, name)
    except AttributeError:
        return refuse(name.replace("_", " "))
