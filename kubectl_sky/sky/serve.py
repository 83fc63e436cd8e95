"""Services: `sky.serve`."""

import sys
from typing import Any

import yaml

from kubectl_sky.api.client import Client
from kubectl_sky.api.task import Task as File
from kubectl_sky.errors import UserError
from kubectl_sky.serve.model import ServiceStatus as Service
from kubectl_sky.sky.clusters import seconds
from kubectl_sky.sky.requests import Request, Row, check, refuse
from kubectl_sky.sky.states import make_enum
from kubectl_sky.sky.tasks import Dag, Task, document_of

ServiceStatus = make_enum("ServiceStatus", "REPLICA_INIT READY FAILED NO_REPLICA")
ReplicaStatus = make_enum("ReplicaStatus", "READY NOT_READY")
_STATES = {"starting": "REPLICA_INIT", "failed": "FAILED", "stopped": "NO_REPLICA"}


def up(task: Task | Dag, service_name: str, **options: Any) -> Request:
    """Create a service and wait until its replicas are ready; the result is name and HOST:PORT."""
    check("serve up", options, "")
    status = Client().serve.up(_file(task, service_name))
    return Request((status.name, next(iter(status.endpoints), None)))


def update(task: Task | Dag, service_name: str, mode: Any = None, **options: Any) -> Request:
    """Replace a service, replica by replica, in every mode."""
    check("serve update", options, "")
    Client().serve.update(_file(task, service_name))
    return Request(None)


def _file(task: Task | Dag, service_name: str) -> File:
    config = {**document_of(task), "name": service_name}
    return File.from_yaml(yaml.safe_dump(config, sort_keys=False))


def status(service_names: Any = None) -> Request:
    """Return a row per service, newest first."""
    services = {service.name: service for service in Client().serve.list()}
    named = [service_names] if isinstance(service_names, str) else service_names or services
    return Request([_row(service) for name, service in services.items() if name in named])


def _row(service: Service) -> Row:
    return Row(
        name=service.name,
        status=ServiceStatus[_STATES.get(service.status, "READY")],
        endpoint=next(iter(service.endpoints), None),
        active_versions=sorted({pod.version for pod in service.pods}),
        launched_at=seconds(service.created_at),
        replica_info=[
            Row(
                replica_id=pod.number,
                name=pod.pod,
                version=pod.version,
                status=ReplicaStatus["READY" if pod.ready else "NOT_READY"],
            )
            for pod in service.pods
        ],
    )


def down(service_names: Any = None, **options: Any) -> Request:
    """Delete services."""
    check("serve down", options, "all purge")
    named = [service_names] if isinstance(service_names, str) else service_names or []
    if not (named or options.get("all")):
        raise UserError("serve down: no service is named", "use service_names or all=True")
    services = Client().serve
    for name in [item.name for item in services.list()] if options.get("all") else named:
        services.down(name)
    return Request(None)


def tail_logs(
    service_name: str, target: Any = None, replica_id: Any = None, **options: Any
) -> None:
    """Print the logs of the replicas, or of one."""
    check("serve logs", options, "follow output_stream tail")
    follow = options.get("follow", True)
    lines = Client().serve.logs(
        service_name, follow=follow, replica=replica_id, tail=options.get("tail")
    )
    (options.get("output_stream") or sys.stdout).writelines(f"{line}\n" for line in lines)


def __getattr__(name: str) -> Any:
    return refuse(f"serve {name}".replace("_", " "))
