"""The cluster and the caller: whoami, GPUs and queues."""

from fastapi import APIRouter

from kubectl_sky.actions import queues as queueing
from kubectl_sky.cluster import access
from kubectl_sky.gpus import action as gpu_action
from kubectl_sky.server.identity import AnyCaller
from kubectl_sky.words import kinds, models
from kubectl_sky.words.names import API_VERSION

router = APIRouter(tags=["cluster"])


@router.get("/whoami")
def whoami(caller: AnyCaller) -> models.WhoAmI:
    """Show who you are to the cluster, and whether you may list all namespaces."""
    return {
        "user": caller.user.name,
        "groups": list(caller.groups),
        "namespace": caller.session.namespace,
        "all_namespaces": access.may(caller.session, "list", kinds.JOB, namespace=""),
    }


@router.get("/gpus")
def gpus(caller: AnyCaller) -> models.GpuList:
    """Show the cluster's accelerators, by cluster node, and who uses them."""
    machines = [node.as_json() for node in gpu_action.accelerators(caller.session)]
    return {"apiVersion": API_VERSION, "kind": "GpuList", "machines": machines}


@router.get("/queues")
def queues(caller: AnyCaller) -> models.QueueList:
    """List Kueue's queues of the namespace, with counts of admitted and pending tasks."""
    queues = [queue.as_json() for queue in queueing.list_queues(caller.session)]
    return {"apiVersion": API_VERSION, "kind": "QueueList", "queues": queues}
