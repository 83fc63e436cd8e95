"""Services over HTTP."""

from threading import Event
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict, Field

from kubectl_sky.cluster.streams import LogOptions
from kubectl_sky.serve import action, logs
from kubectl_sky.serve.model import Service, ServiceList, ServicesDeleted
from kubectl_sky.server import streams
from kubectl_sky.server.documents import DocumentRoute
from kubectl_sky.server.events import EVENT_STREAM
from kubectl_sky.server.identity import AnyCaller, AnyScope

router = APIRouter(tags=["cluster"], route_class=DocumentRoute)

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
    pods = [pod["metadata"]["name"] for pod in action.pods(caller.session, live)]
    options = LogOptions(
        follow=query.follow,
        tail=query.tail,
        timestamps=is_events or query.timestamps,
        positions=cursor.by_pod(pods),
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

    return streams.Streamed(caller, request, produce, EVENT_STREAM if is_events else "text/plain")


@router.post("/services/{name}/scale")
def scale(caller: AnyCaller, name: Name, scale: Scale) -> Service:
    """Set the number of replicas of a service without an autoscaler."""
    action.scale(caller.session, caller.user, name, scale.replicas)
    return action.status(caller.session, action.find(caller.session, caller.user, name)).document


@router.delete("/services/{name}")
def down(caller: AnyCaller, name: Name) -> ServicesDeleted:
    """Delete a service: its replicas, addresses and all other objects."""
    return ServicesDeleted(services=action.down(caller.session, caller.user, [name]))
