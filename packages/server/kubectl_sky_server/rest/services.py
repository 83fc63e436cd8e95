"""Services over HTTP."""

from collections.abc import Callable
from functools import partial
from threading import Event
from typing import Annotated

from anyio import to_thread
from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.responses import StreamingResponse
from msgspec.structs import replace
from pydantic import BaseModel, ConfigDict, Field

from kubectl_sky.cluster.streams import LogOptions
from kubectl_sky.serve import action, logs, update
from kubectl_sky.serve.model import Service, ServiceList, ServicesDeleted, ServiceStatus
from kubectl_sky.spec.service import Flags
from kubectl_sky.submitting.overrides import Overrides
from kubectl_sky.submitting.submit import Connect, Options
from kubectl_sky.tasks import deletion
from kubectl_sky.tasks.ui import UI
from kubectl_sky.words.task_objects import RayService
from kubectl_sky_server.rest import streams
from kubectl_sky_server.rest.config import Config
from kubectl_sky_server.rest.documents import DocumentRoute, deleting, encode
from kubectl_sky_server.rest.events import EVENT_STREAM
from kubectl_sky_server.rest.files import SERVICE_BODY, TaskText, source_of
from kubectl_sky_server.rest.identity import AnyCaller, AnyScope, Caller
from kubectl_sky_server.rest.tasks import TaskFile

router = APIRouter(tags=["cluster"], route_class=DocumentRoute)

_Action = Callable[[Options, UI, Connect], ServiceStatus | None]
Name = Annotated[
    str, Path(pattern="^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$", description="Name of the service.")
]


class Scale(BaseModel):
    """The number of a service's replicas."""

    model_config = ConfigDict(extra="forbid")

    replicas: int = Field(ge=0, le=10_000)


class ReplicaLogQuery(BaseModel):
    """Which lines of the logs of replicas."""

    follow: bool = Field(True, description="Follow the logs, also of new replicas.")
    replica: int | None = Field(None, ge=0, le=10_000, description="Only this replica.")
    tail: int | None = Field(None, ge=0, le=1_000_000, description="Only the last lines of each.")
    timestamps: bool = Field(False, description="Begin each line with its time.")


@router.get("/services")
def services(caller: AnyCaller, scope: AnyScope) -> ServiceList:
    """List your services, newest first, and why their replicas are not ready."""
    statuses = action.statuses(caller.session, scope.namespace, scope.user)
    return ServiceList(services=[status.document for status in statuses])


@router.get("/services/{name}/logs", response_class=StreamingResponse, responses=streams.LOGS)
def replica_logs(
    request: Request,
    caller: AnyCaller,
    scope: AnyScope,
    name: Name,
    query: Annotated[ReplicaLogQuery, Query()],
    last_event_id: streams.LastEventId = None,
) -> streams.Streamed:
    """Stream the logs of a service's replicas: `replica-0 | line`.

    `Accept: text/event-stream` gives events that resume.
    """
    is_events = EVENT_STREAM in request.headers.get("accept", "")
    cursor = streams.Cursor.parse(last_event_id or "") if is_events else streams.Cursor({})
    live = action.find(caller.session, scope.user, name)
    pods = [pod.metadata.name for pod in action.pods(caller.session, live)]
    options = LogOptions(
        follow=query.follow,
        tail=query.tail,
        timestamps=is_events or query.timestamps,
        positions=cursor.by_stream(pods),
    )

    def produce(put: streams.Put, stop: Event) -> None:
        output = (
            streams.EventOutput(put, options)
            if is_events
            else streams.TextOutput(put, query.timestamps)
        )
        logs.show(caller.session, live, options, query.replica, output, stop)
        if is_events:
            put(streams.END)

    media_type = EVENT_STREAM if is_events else "text/plain"
    may_read = partial(streams.may_read_logs, caller, caller.session.namespace)
    return streams.Streamed(caller, request, produce, media_type, may_read)


@router.post("/services/{name}/scale")
def scale(caller: AnyCaller, name: Name, scale: Scale) -> Service:
    """Set the number of replicas of a service without an autoscaler."""
    action.scale(caller.session, caller.user, name, scale.replicas)
    return action.status(caller.session, action.find(caller.session, caller.user, name)).document


@router.post("/services/create", openapi_extra=SERVICE_BODY)
async def create(request: Request, caller: AnyCaller, text: TaskText) -> Service:
    """Create the service of a task file, as `serve up` does; returns when everything is sent."""
    return await _send(request, caller, text, "", action.up)


@router.get("/services/{name}/file")
def show_file(caller: AnyCaller, scope: AnyScope, name: Name) -> TaskFile:
    """Return the YAML of the version that a service runs, without secret values."""
    live = action.find(caller.session, scope.user, name)
    return TaskFile(action.task_file(caller.session, live))


@router.post("/services/{name}/update", openapi_extra=SERVICE_BODY)
async def replace_version(
    request: Request, caller: AnyCaller, name: Name, text: TaskText
) -> Service:
    """Replace a service by that of a task file, whatever its name there; returns when it is sent.

    The replicas of the old version serve until the new ones are ready: see its status.
    """
    return await _send(request, caller, text, name, update.update)


async def _send(request: Request, caller: Caller, text: bytes, name: str, run: _Action) -> Service:
    work = partial(_run, request.app.state.config, caller, text, name, run)
    return await to_thread.run_sync(work, limiter=request.app.state.submit_threads)


def _run(config: Config, caller: Caller, text: bytes, name: str, run: _Action) -> Service:
    session = caller.session
    user = caller.user
    live = action.find(session, user, name) if name else None
    is_ray = live is not None and isinstance(live, RayService)
    backend = "rayservice" if is_ray else "service"
    flags = Flags(backend=backend, new=not name)
    source = replace(source_of(text, config, Overrides(name=name or None)), serve=flags)
    options = Options(source, caller.connection, user.name, follow=False)
    status = run(options, UI(), lambda connection: session)
    assert status is not None  # of no dry run
    return status.document


@router.delete("/services/{name}", responses=deleting(ServicesDeleted))
def down(caller: AnyCaller, name: Name) -> ServicesDeleted | Response:
    """Delete a service: its replicas, addresses and all other objects."""
    items = action.find_to_delete(caller.session, caller.user, [name])
    services = action.delete(caller.session, items)
    remaining = action.wait_until_gone(caller.session, items, deletion.REQUEST_SECONDS)
    document = action.describe_deleted(services, remaining)
    code = 202 if remaining else 200
    return encode(document, code)
