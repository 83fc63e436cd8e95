"""The cluster and the caller: whoami, GPUs and queues."""

from fastapi import APIRouter

from kubectl_sky import kinds
from kubectl_sky.actions import queues as queueing
from kubectl_sky.actions import usage
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


@router.get("/gpus", response_model=models.Gpus)
def gpus(caller: AnyCaller) -> dict[str, object]:
    """Show the cluster's accelerators, by cluster node, and who uses them."""
    return {"machines": [node.as_json() for node in usage.accelerators(caller.session)]}


@router.get("/queues", response_model=models.Queues)
def queues(caller: AnyCaller) -> dict[str, object]:
    """List Kueue's queues of the namespace, with counts of admitted and pending tasks."""
    return {"queues": [queue.as_json() for queue in queueing.list_queues(caller.session)]}
