"""Warn of tasks whose nodes do not all fit at the same time, and have no gang scheduling."""

from collections.abc import Iterator, Sequence

from kubectl_sky.cluster import access
from kubectl_sky.cluster.core import CoreManager
from kubectl_sky.cluster.session import Json, Session
from kubectl_sky.errors import ClusterError, Forbidden
from kubectl_sky.observe import capacity
from kubectl_sky.plan.plan import Plan
from kubectl_sky.words import kinds, names
from kubectl_sky.workloads import registry
from kubectl_sky.workloads.demand import pods

_UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"
_MAX_CLUSTER_NODES = 500  # of more, listing all their pods takes seconds: free space is assumed


def warnings(session: Session, plans: Sequence[Plan], workloads: Sequence[Json]) -> Iterator[str]:
    """Yield a warning for each task without gang scheduling whose nodes do not all fit now.

    Lists cluster nodes and pods only if there is such a task. If they are unknown, it may not fit.
    """
    ungrouped = [
        plan
        for plan in plans
        if len(plan.nodes) > 1 and not registry.find(plan.backend).is_gang(plan)
    ]
    cluster_nodes, running = _cluster(session) if ungrouped else ((), None)
    if len(cluster_nodes) == 1:
        return
    by_task = {item["metadata"]["labels"][names.TASK_ID]: item for item in workloads}
    for plan in ungrouped:
        total, prefix = len(plan.nodes), f"{plan.title}: " if len(plans) > 1 else ""
        text = f"some of the {total} nodes may start and then wait for the others"
        if running is not None:
            pod = {"spec": next(iter(pods(by_task[plan.id]))).spec}
            fits = capacity.number_that_fits(pod, cluster_nodes, running)
            if fits >= total:
                continue
            text = f"only {fits} of {total} nodes fit now, and would wait for the others"
        yield f"warning: {prefix}no gang scheduler: {text}; {_remedy(session)}"


def _cluster(session: Session) -> tuple[Sequence[Json], Sequence[Json] | None]:
    """Return the cluster nodes and the unfinished pods; None if these are not known."""
    core, cluster_nodes = CoreManager(session), list[Json]()
    try:
        cluster_nodes = core.list_nodes()
        if len(cluster_nodes) > _MAX_CLUSTER_NODES:
            return cluster_nodes, ()
        if len(cluster_nodes) > 1:
            return cluster_nodes, core.list_pods(field_selector=_UNFINISHED)
    except Forbidden:
        pass
    return cluster_nodes, None


def _remedy(session: Session) -> str:
    try:
        groups = access.groups(session)
    except ClusterError:
        return "see --backend and --queue"
    flags = {
        kinds.QUEUED_WORKLOAD.group: "--backend indexed --queue NAME",
        kinds.POD_GROUP.group: "--backend volcano",
    }
    choices = " or ".join(text for group, text in flags.items() if group in groups)
    if not choices:
        return "for --queue or --backend volcano, a cluster admin can install Kueue or Volcano"
    return f"to start all or none, use {choices}, or the settings backend and queue"
