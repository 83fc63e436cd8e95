"""Quotas over HTTP."""

from fastapi import APIRouter
from msgspec import Struct

from kubectl_sky.cluster import objects
from kubectl_sky.words import kinds
from kubectl_sky_server.rest.documents import DocumentRoute
from kubectl_sky_server.rest.identity import AnyCaller, Namespaces
from kubectl_sky_server.users import model
from kubectl_sky_server.users.model import Quota

router = APIRouter(tags=["cluster"], route_class=DocumentRoute)


class Quotas(Struct, frozen=True):
    """The quotas of a namespace."""

    quotas: tuple[Quota, ...]


@router.get("/quotas")
def quotas(caller: AnyCaller, namespaces: Namespaces) -> Quotas:
    """List the quotas of the namespace: what is used, and the limit of each resource."""
    items = [
        item
        for namespace in namespaces
        for item in objects.list_all(caller.session, kinds.RESOURCE_QUOTA, namespace)
    ]
    return Quotas(tuple(model.uses_of(items)))
