"""Services over HTTP."""

from fastapi import APIRouter

from kubectl_sky.serve import action
from kubectl_sky.serve.model import ServiceList
from kubectl_sky.server.documents import DocumentRoute
from kubectl_sky.server.identity import AnyCaller, AnyScope

router = APIRouter(tags=["cluster"], route_class=DocumentRoute)


@router.get("/services")
def services(caller: AnyCaller, scope: AnyScope) -> ServiceList:
    """List your services, newest first, and why their replicas are not ready."""
    statuses = action.statuses(caller.session, scope.namespace, scope.user)
    return ServiceList(services=[status.document for status in statuses])
