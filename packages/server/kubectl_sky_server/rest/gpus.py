"""GPUs, GPU-hours and the usage of a task over HTTP."""

from datetime import timedelta
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from msgspec.structs import replace

from kubectl_sky.actions.config import preferences
from kubectl_sky.errors import NotServed, SkyError
from kubectl_sky.gpus import action, prometheus
from kubectl_sky.gpus.hours import GpuHoursList
from kubectl_sky.gpus.model import GpuList, Usage
from kubectl_sky.tasks import find
from kubectl_sky_server.rest.documents import DocumentRoute
from kubectl_sky_server.rest.identity import AnyCaller, AnyScope
from kubectl_sky_server.rest.tasks import TaskId

router = APIRouter(route_class=DocumentRoute)


@router.get("/gpus", tags=["cluster"])
def gpus(caller: AnyCaller) -> GpuList:
    """Show the cluster's accelerators, by cluster node, and who uses them."""
    return GpuList(machines=action.accelerators(caller.session))


@router.get("/usage", tags=["cluster"])
def usage(
    caller: AnyCaller,
    scope: AnyScope,
    by: Annotated[Literal["user", "name", "gpu"], Query(description="Group by.")] = "user",
    days: Annotated[float, Query(gt=0, le=36_500, description="Days until now.")] = 30,
) -> GpuHoursList:
    """Show the GPU-hours of your tasks."""
    return action.usage(caller.session, scope, timedelta(days=days), by)


@router.get("/tasks/{task_id}/usage", tags=["tasks"])
def show_usage(
    request: Request,
    caller: AnyCaller,
    scope: AnyScope,
    task_id: TaskId,
    seconds: Annotated[
        int, Query(ge=0, le=31_622_400, description="Past that Prometheus is asked about.")
    ] = 0,
) -> Usage:
    """Show what the nodes of a task use; without a metrics API, only the reason."""
    task = find.get_task(caller.session, scope, task_id)
    try:
        usage = Usage(task_id=task.id, nodes=action.top(caller.session, task))
    except NotServed as error:
        usage = Usage(task_id=task.id, nodes=[], reason=str(error))
    try:
        url = preferences(request.app.state.config.task_environ).prometheus if seconds else None
        history = url and prometheus.read(url, task, seconds, caller.session.now())
    except SkyError as error:
        return replace(usage, history_reason=f"Prometheus: {error}")
    return replace(usage, history=history or None)
