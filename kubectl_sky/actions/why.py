"""Why a node does not start: what the cluster's events say of its Job and its pod."""

from dataclasses import replace

from kubectl_sky.cluster.core import CoreManager
from kubectl_sky.cluster.session import Json, Session
from kubectl_sky.errors import Forbidden
from kubectl_sky.observe.nodes import NodeStatus, State
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.observe.waiting import USUAL


def explained(session: Session, task: TaskStatus) -> TaskStatus:
    """Return the task with the reason of each node that does not start.

    One list of warnings, and none where every node has started or said why not; without the right
    to read events, no reasons.
    """
    if not any(_unexplained(node) for node in task.nodes):
        return task
    try:
        events = CoreManager(session).list_events(task.namespace, field_selector="type=Warning")
    except Forbidden:
        return task
    latest = {event["involvedObject"]["name"]: event for event in events}
    return replace(task, nodes=tuple(_with_event(task, node, latest) for node in task.nodes))


def _unexplained(node: NodeStatus) -> bool:
    return node.state is State.PENDING and node.reason in USUAL


def _with_event(task: TaskStatus, node: NodeStatus, latest: dict[str, Json]) -> NodeStatus:
    event = latest.get(node.pod or task.workload.maker(node.job))
    if not event or not _unexplained(node):
        return node
    return replace(node, reason=event.get("reason", ""), message=event.get("message", ""))
