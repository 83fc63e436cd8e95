"""The cluster and the caller: whoami, GPUs and GPU-hours, queues and services."""

from datetime import timedelta
from typing import Annotated, Literal

from fastapi import APIRouter, Query

from kubectl_sky.actions import namespaces
from kubectl_sky.actions import queues as queueing
from kubectl_sky.cluster import access, objects, shapes
from kubectl_sky.errors import Forbidden
from kubectl_sky.gpus import action as gpu_action
from kubectl_sky.serve import action as services_action
from kubectl_sky.server.identity import AnyCaller, AnyScope, Caller
from kubectl_sky.words import kinds, models
from kubectl_sky.words.names import API_VERSION

router = APIRouter(tags=["cluster"])

_MAX_NAMESPACES = 1000  # that a page offers


@router.get("/whoami")
def whoami(caller: AnyCaller) -> models.WhoAmI:
    """Show who you are to the cluster, and in which namespaces you may list tasks."""
    everywhere = access.may(caller.session, "list", kinds.JOB, namespace="")
    return {
        "user": caller.user.name,
        "groups": list(caller.groups),
        "context": caller.session.context,
        "namespace": caller.session.namespace,
        "all_namespaces": everywhere,
        "namespaces": _all_namespaces(caller)
        if everywhere
        else namespaces.allowed(caller.session, _candidates(caller)),
    }


def _all_namespaces(caller: Caller) -> list[str]:
    """Return the namespaces of the cluster; those without permission to list them are unknown."""
    session = caller.session
    try:
        items = objects.list_all(session, kinds.NAMESPACE, shape=shapes.METADATA_ONLY)
    except Forbidden:
        return _candidates(caller)
    return sorted(item["metadata"]["name"] for item in items)[:_MAX_NAMESPACES]


def _candidates(caller: Caller) -> list[str]:
    return namespaces.candidates(caller.session, caller.user.name, caller.groups)


@router.get("/gpus")
def gpus(caller: AnyCaller) -> models.GpuList:
    """Show the cluster's accelerators, by cluster node, and who uses them."""
    machines = [node.as_json() for node in gpu_action.accelerators(caller.session)]
    return {"apiVersion": API_VERSION, "kind": "GpuList", "machines": machines}


@router.get("/usage")
def usage(
    caller: AnyCaller,
    scope: AnyScope,
    by: Annotated[Literal["user", "name", "gpu"], Query(description="What to add up by.")] = "user",
    days: Annotated[float, Query(gt=0, le=36_500, description="Days until now.")] = 30,
) -> models.GpuHoursList:
    """Show the GPU-hours of your tasks."""
    return gpu_action.usage(caller.session, scope, timedelta(days=days), by).as_json()


@router.get("/services")
def services(caller: AnyCaller, scope: AnyScope) -> models.ServiceList:
    """List your services, newest first, and why their replicas are not ready."""
    statuses = services_action.statuses(caller.session, scope.namespace, scope.user)
    fields = [status.as_json() for status in statuses]
    return {"apiVersion": API_VERSION, "kind": "ServiceList", "services": fields}


@router.get("/queues")
def queues(caller: AnyCaller) -> models.QueueList:
    """List Kueue's queues of the namespace, with counts of admitted and pending tasks."""
    queues = [queue.as_json() for queue in queueing.list_queues(caller.session)]
    return {"apiVersion": API_VERSION, "kind": "QueueList", "queues": queues}
