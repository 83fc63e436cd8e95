"""Why a node does not start: what Kueue says, and events of its Job and its pod."""

from dataclasses import replace

from kubectl_sky import kinds, names
from kubectl_sky.cluster import kueue, objects
from kubectl_sky.cluster.core import CoreManager
from kubectl_sky.cluster.session import Json, Session
from kubectl_sky.errors import Forbidden, NotServed
from kubectl_sky.observe import gangs, queues
from kubectl_sky.observe.nodes import NodeStatus, State
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.observe.waiting import USUAL
from kubectl_sky.workloads.workload import QUEUED


def explained(session: Session, task: TaskStatus) -> TaskStatus:
    """Return the task with the reason of each node that does not start.

    One list of warnings, and none where every node has started or said why not; one of Kueue's
    Workloads where some wait in its queue. Without the right to read them, no reasons.
    """
    task = _in_gang(session, _in_queue(session, task))
    if not any(_unexplained(node) for node in task.nodes):
        return task
    try:
        events = CoreManager(session).list_events(task.namespace, field_selector="type=Warning")
    except Forbidden:
        return task
    latest = {event["involvedObject"]["name"]: event for event in events}
    return replace(task, nodes=tuple(_with_event(task, node, latest) for node in task.nodes))


def _in_queue(session: Session, task: TaskStatus) -> TaskStatus:
    """Say in which place the nodes wait, and for what."""
    if not any(node.reason == QUEUED for node in task.nodes):
        return task
    try:
        found = queues.waiting(kueue.listed(session, kinds.QUEUED_WORKLOAD, task.namespace))
    except (Forbidden, NotServed):
        return task
    kind = task.workload.kind.kind

    def placed(node: NodeStatus) -> NodeStatus:
        place = queues.of_object(found, kind, node.job) if node.reason == QUEUED else None
        return replace(node, message=str(place)) if place else node

    return replace(task, nodes=tuple(placed(node) for node in task.nodes))


def _in_gang(session: Session, task: TaskStatus) -> TaskStatus:
    """Say why the scheduler that starts all nodes or none has started none."""
    kind = task.workload.beside
    if kind is None or not any(_unplaced(node) for node in task.nodes):
        return task
    selector = names.selector(task_id=task.id)
    try:
        groups = objects.list_all(session, kind, task.namespace, label_selector=selector)
    except (Forbidden, NotServed):
        return task
    found = next(filter(None, map(gangs.waiting, groups)), None)

    def placed(node: NodeStatus) -> NodeStatus:
        if found is None or not _unplaced(node):
            return node
        return replace(node, reason=found.reason, message=str(found))

    return replace(task, nodes=tuple(placed(node) for node in task.nodes))


def _unplaced(node: NodeStatus) -> bool:
    """Say whether no machine has been found for a node that may begin."""
    waits = node.state is State.PENDING and not node.host
    return waits and node.reason in (*USUAL, "Unschedulable")


def _unexplained(node: NodeStatus) -> bool:
    return node.state is State.PENDING and node.reason in USUAL


def _with_event(task: TaskStatus, node: NodeStatus, latest: dict[str, Json]) -> NodeStatus:
    event = latest.get(node.pod or task.workload.maker(node.job))
    if not event or not _unexplained(node):
        return node
    return replace(node, reason=event.get("reason", ""), message=event.get("message", ""))
