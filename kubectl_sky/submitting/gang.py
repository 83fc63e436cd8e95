"""Warn of tasks whose nodes do not all fit at the same time, and have no gang scheduling."""

from collections.abc import Iterator, Sequence

from kubectl_sky.cluster import access
from kubectl_sky.cluster.session import Json, Session
from kubectl_sky.errors import ClusterError
from kubectl_sky.observe.room import number_that_fits, read_running
from kubectl_sky.plan.plan import Plan
from kubectl_sky.submitting.taskfile import TaskFile
from kubectl_sky.tasks import room
from kubectl_sky.words import kinds, names
from kubectl_sky.workloads import gangs, registry
from kubectl_sky.workloads.demand import pods


def warnings(
    session: Session, task_file: TaskFile, plans: Sequence[Plan], workloads: Sequence[Json]
) -> Iterator[str]:
    """Yield a warning for each task without gang scheduling whose nodes do not all fit now.

    Lists cluster nodes and pods only if there is such a task. If they are unknown, it may not fit.
    """
    ungrouped = [
        plan
        for entry, plan in zip(task_file.entries, plans, strict=True)
        if len(plan.nodes) > 1
        and not registry.find(plan.backend).is_gang(plan)
        and gangs.mode(entry.task, task_file.settings) not in gangs.OFF
    ]

    cluster_nodes = room.list_cluster_nodes(session) if ungrouped else ()
    if len(cluster_nodes) == 1:
        return
    running = room.list_running(session, cluster_nodes)
    if len(cluster_nodes) > room.MAX_CLUSTER_NODES:
        running = ()  # free space is assumed

    by_task = {item["metadata"]["labels"][names.TASK_ID]: item for item in workloads}
    for plan in ungrouped:
        total = len(plan.nodes)
        prefix = f"{plan.title}: " if len(plans) > 1 else ""
        text = f"some of the {total} nodes may start and then wait for the others"

        if running is not None:
            spec = next(iter(pods(by_task[plan.id]))).spec
            fits = number_that_fits(spec, cluster_nodes, read_running(running))
            if fits >= total:
                continue
            text = f"only {fits} of {total} nodes fit now, and would wait for the others"
        yield f"warning: {prefix}no gang scheduler: {text}; {_remedy(session, plan)}"


def _remedy(session: Session, plan: Plan) -> str:
    """Return what starts all nodes or none here: Kubernetes itself first."""
    try:
        groups = access.groups_of_session(session)
    except ClusterError:
        return "see --backend and --queue"

    native = ""
    if kind := access.find_gang(session):
        is_native = registry.find(plan.backend).native_gang
        right = f"ask for the right to create {kind.resource}"
        native = right if is_native else "use --backend indexed"

    flags = {
        kinds.QUEUED_WORKLOAD.group: "--backend indexed --queue NAME",
        kinds.POD_GROUP.group: "--backend volcano",
    }
    others = " or ".join(text for group, text in flags.items() if group in groups)
    others = others and f"use {others}, or the settings backend and queue"

    if choices := ", or ".join(filter(None, (native, others))):
        return f"to start all or none, {choices}"
    return (
        "a cluster admin can enable Kubernetes' own gang scheduling (from 1.36), or install Kueue"
        " for --queue or Volcano for --backend volcano"
    )
