"""Quotas over HTTP."""

from fastapi import APIRouter
from msgspec import Struct

from kubectl_sky_server.rest.documents import DocumentRoute
from kubectl_sky_server.rest.identity import AnyCaller
from kubectl_sky_server.users import action
from kubectl_sky_server.users.model import Quota

router = APIRouter(tags=["cluster"], route_class=DocumentRoute)


class Quotas(Struct, frozen=True):
    """The quotas of a namespace."""

    quotas: tuple[Quota, ...]


@router.get("/quotas")
def quotas(caller: AnyCaller) -> Quotas:
    """List the quotas of the namespace: what is used, and the limit of each resource."""
    return Quotas(action.get_account(caller.session, None, None).quotas)
