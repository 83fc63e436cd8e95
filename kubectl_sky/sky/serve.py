"""Services: `sky.serve`."""

import sys
from enum import Enum
from time import time
from typing import Any, TextIO

import yaml

from kubectl_sky.api.client import Client
from kubectl_sky.api.task import Task as File
from kubectl_sky.serve.model import ServiceStatus as Service
from kubectl_sky.sky.clusters import documents_of, seconds
from kubectl_sky.sky.requests import Request, Row, refuse
from kubectl_sky.sky.tasks import Dag, Task

ServiceStatus = Enum(
    "ServiceStatus",
    {
        "REPLICA_INIT": "REPLICA_INIT",
        "READY": "READY",
        "FAILED": "FAILED",
        "NO_REPLICA": "NO_REPLICA",
    },
)
ReplicaStatus = Enum("ReplicaStatus", {"READY": "READY", "NOT_READY": "NOT_READY"})
_STATES = {"starting": "REPLICA_INIT", "failed": "FAILED", "stopped": "NO_REPLICA"}


def up(task: Task | Dag, service_name: str, **ignored: Any) -> Request:
    """Create a service and wait until its replicas are ready; the result is its name, HOST:PORT."""
    status = Client().serve.up(_file(task, service_name))
    return Request((status.name, next(iter(status.endpoints), None)))


def update(task: Task | Dag, service_name: str, **ignored: Any) -> Request:
    """Replace a service, replica by replica, whatever the mode."""
    Client().serve.update(_file(task, service_name))
    return Request(None)


def _file(task: Task | Dag, service_name: str) -> File:
    (config,) = documents_of(task)
    return File.from_yaml(yaml.safe_dump({**config, "name": service_name}, sort_keys=False))


def status(service_names: str | list[str] | None = None) -> Request:
    """Return a row per service, newest first."""
    wanted = [service_names] if isinstance(service_names, str) else service_names
    services = [item for item in Client().serve.list() if wanted is None or item.name in wanted]
    return Request([_row(service) for service in services])


def _row(service: Service) -> Row:
    replicas = [
        Row(
            replica_id=pod.number,
            name=pod.pod,
            status=ReplicaStatus.READY if pod.ready else ReplicaStatus.NOT_READY,
            version=pod.version,
        )
        for pod in service.pods
    ]
    return Row(
        name=service.name,
        status=ServiceStatus[_STATES.get(service.status, "READY")],
        endpoint=next(iter(service.endpoints), None),
        active_versions=sorted({pod.version for pod in service.pods}),
        uptime=int(time() - (seconds(service.created_at) or 0)),
        replica_info=replicas,
    )


def down(
    service_names: str | list[str] | None = None,
    all: bool = False,  # noqa: A002
    **ignored: Any,
) -> Request:
    """Delete services."""
    services = Client().serve
    named = [service_names] if isinstance(service_names, str) else service_names or []
    for name in [item.name for item in services.list()] if all else named:
        services.down(name)
    return Request(None)


def tail_logs(
    service_name: str,
    target: Any = None,
    replica_id: int | None = None,
    follow: bool = True,
    output_stream: TextIO | None = None,
    **ignored: Any,
) -> None:
    """Print the logs of the replicas, or of one."""
    lines = Client().serve.logs(service_name, follow=follow, replica=replica_id)
    (output_stream or sys.stdout).writelines(f"{line}\n" for line in lines)


def __getattr__(name: str) -> Any:
    return refuse(f"serve {name}".replace("_", " "))
