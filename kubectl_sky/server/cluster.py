"""The cluster and the caller: whoami, GPUs and queues."""

from fastapi import APIRouter

from kubectl_sky import kinds
from kubectl_sky.cluster import access
from kubectl_sky.server import models
from kubectl_sky.server.identity import AnyCaller

router = APIRouter(tags=["cluster"])


@router.get("/whoami", response_model=models.WhoAmI)
def whoami(caller: AnyCaller) -> dict[str, object]:
    """Show who you are to the cluster, and whether you may list all namespaces."""
    return {
        "user": caller.user.name,
        "groups": list(caller.groups),
        "namespace": caller.session.namespace,
        "all_namespaces": access.may(caller.session, "list", kinds.JOB, namespace=""),
    }
