"""The caller, and the queues and events of the namespace."""

from typing import Annotated

from fastapi import APIRouter
from msgspec import Struct

from kubectl_sky.actions import namespaces
from kubectl_sky.actions import queues as queueing
from kubectl_sky.cluster import access, objects
from kubectl_sky.errors import Forbidden
from kubectl_sky.observe.queues import QueueList
from kubectl_sky.tasks import describe, pipeline
from kubectl_sky.words import kinds
from kubectl_sky.words.documents import Note
from kubectl_sky_server.rest.documents import DocumentRoute
from kubectl_sky_server.rest.identity import AnyCaller, Caller
from kubectl_sky_server.rest.tasks import ClusterEvents

router = APIRouter(tags=["cluster"], route_class=DocumentRoute)

_MAX_NAMESPACES = 1000  # that a page offers


class WhoAmI(Struct, frozen=True):
    """The caller, and what the caller may see."""

    user: str
    groups: list[str]
    context: Annotated[str, Note("the context of the server's kubeconfig, or `in-cluster`")]
    namespace: Annotated[str, Note("the server's, or if it is not in `namespaces` their first")]
    all_namespaces: Annotated[bool, Note("whether the caller may list all namespaces")]
    namespaces: Annotated[list[str], Note("known namespaces in which the caller may list tasks")]


@router.get("/whoami")
def whoami(caller: AnyCaller) -> WhoAmI:
    """Show who you are to the cluster, and in which namespaces you may list tasks."""
    everywhere = access.may(caller.session, "list", kinds.JOB, namespace="")
    allowed = (
        _all_namespaces(caller)
        if everywhere
        else namespaces.list_allowed(caller.session, _candidates(caller))
    )

    own = caller.session.namespace
    namespace = own if everywhere or own in allowed else next(iter(allowed), own)
    return WhoAmI(
        user=caller.user.name,
        groups=list(caller.groups),
        context=caller.session.context,
        namespace=namespace,
        all_namespaces=everywhere,
        namespaces=allowed,
    )


def _all_namespaces(caller: Caller) -> list[str]:
    """Return the namespaces of the cluster; those without permission to list them are unknown."""
    session = caller.session
    try:
        items = objects.list_metadata(session, kinds.NAMESPACE)
    except Forbidden:
        return _candidates(caller)
    return sorted(item.metadata.name for item in items)[:_MAX_NAMESPACES]


def _candidates(caller: Caller) -> list[str]:
    return namespaces.candidates(caller.session, caller.user.name, caller.groups)


@router.get("/queues")
def queues(caller: AnyCaller) -> QueueList:
    """List Kueue's queues of the namespace, with counts of admitted and pending tasks."""
    return QueueList(queues=queueing.list_queues(caller.session))


class TasksController(Struct, frozen=True):
    """Whether a live tasks controller leads the tasks of the namespace."""

    leads: bool


@router.get("/controllers/tasks")
def tasks_controller(caller: AnyCaller) -> TasksController:
    """Show whether a controller begins the next stages of pipelines; else clients do."""
    return TasksController(pipeline.controller_leads(caller.session, caller.session.namespace))


@router.get("/cluster-events")
def events(caller: AnyCaller) -> ClusterEvents:
    """Show the 500 newest Kubernetes events of the namespace, newest first."""
    return ClusterEvents(describe.list_namespace_events(caller.session))
