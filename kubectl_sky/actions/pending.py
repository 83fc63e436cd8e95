"""Explain why nodes are pending, from Kueue, gang schedulers and events."""

from dataclasses import replace

from kubectl_sky import kinds, names
from kubectl_sky.cluster import access, objects
from kubectl_sky.cluster.core import CoreManager
from kubectl_sky.cluster.session import Json, Session
from kubectl_sky.errors import Forbidden, NotServed
from kubectl_sky.observe import queues
from kubectl_sky.observe.nodes import NodeStatus, State
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.observe.waiting import NORMAL_REASONS
from kubectl_sky.workloads.workload import QUEUED


def explain_pending(session: Session, task: TaskStatus) -> TaskStatus:
    """Return the task with the reason for each pending node.

    Lists warning events only if a pending node has no reason yet, and Kueue Workloads only if a
    node is queued. Without permission to read them, no reasons are added.
    """
    task = _explain_gang(session, _explain_queue(session, task))
    if not any(_has_no_reason(node) for node in task.nodes):
        return task
    try:
        events = CoreManager(session).list_events(task.namespace, field_selector="type=Warning")
    except Forbidden:
        return task
    latest_events = {event["involvedObject"]["name"]: event for event in events}
    return replace(task, nodes=tuple(_with_event(task, node, latest_events) for node in task.nodes))


def _explain_queue(session: Session, task: TaskStatus) -> TaskStatus:
    """Add the queue position of the queued nodes and what they wait for."""
    if not any(node.reason == QUEUED for node in task.nodes):
        return task
    try:
        positions = queues.waiting(
            access.list_kueue(session, kinds.QUEUED_WORKLOAD, task.namespace)
        )
    except (Forbidden, NotServed):
        return task
    kind = task.workload.kind.kind

    def explain(node: NodeStatus) -> NodeStatus:
        position = queues.of_object(positions, kind, node.job) if node.reason == QUEUED else None
        return replace(node, message=str(position)) if position else node

    return replace(task, nodes=tuple(explain(node) for node in task.nodes))


def _explain_gang(session: Session, task: TaskStatus) -> TaskStatus:
    """Add the reason why the gang scheduler has not started the nodes."""
    kind = task.workload.companion_kind
    if kind is None or not any(_has_no_cluster_node(node) for node in task.nodes):
        return task
    selector = names.selector(task_id=task.id)
    try:
        groups = objects.list_all(session, kind, task.namespace, label_selector=selector)
    except (Forbidden, NotServed):
        return task
    blocker = next(filter(None, map(queues.waiting_group, groups)), None)

    def explain(node: NodeStatus) -> NodeStatus:
        if blocker is None or not _has_no_cluster_node(node):
            return node
        return replace(node, reason=blocker.reason, message=str(blocker))

    return replace(task, nodes=tuple(explain(node) for node in task.nodes))


def _has_no_cluster_node(node: NodeStatus) -> bool:
    """Return whether a node that may start has no cluster node yet."""
    waiting = node.state is State.PENDING and not node.host
    return waiting and node.reason in (*NORMAL_REASONS, "Unschedulable")


def _has_no_reason(node: NodeStatus) -> bool:
    return node.state is State.PENDING and node.reason in NORMAL_REASONS


def _with_event(task: TaskStatus, node: NodeStatus, latest_events: dict[str, Json]) -> NodeStatus:
    event = latest_events.get(node.pod or task.workload.pod_owner_name(node.job))
    if not event or not _has_no_reason(node):
        return node
    return replace(node, reason=event.get("reason", ""), message=event.get("message", ""))
