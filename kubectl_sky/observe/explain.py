"""Explain why nodes wait or have failed, from whatever was read of their tasks.

`explain` is the one answer: `list`, `status`, `wait`, `logs`, `doctor`, REST and the pages differ
in what they read, not in what they conclude. More facts may say more, but nothing else.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from kubectl_sky.observe import queues, reasons
from kubectl_sky.observe.failure import last_error
from kubectl_sky.observe.nodes import NodeStatus, State, container
from kubectl_sky.observe.queues import PendingWorkload
from kubectl_sky.observe.reasons import RETRYING, UNSCHEDULABLE, WAITING_FOR_NODES
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.observe.waiting import is_blocked
from kubectl_sky.words.core_objects import Event, Node
from kubectl_sky.words.objects import Object
from kubectl_sky.words.pod_objects import Pod
from kubectl_sky.words.scheduled_objects import Gang, PodGroup
from kubectl_sky.workloads.workload import QUEUED

_AWAITED = re.compile(r"Startup probe failed: waiting for (.+)")  # the line of started.sh

ObjectKey = tuple[str, str]  # namespace and name


class Surroundings(Struct, frozen=True):
    """What was read around tasks; what was not read, or may not be, is empty."""

    pods: Mapping[ObjectKey, Pod] = {}  # of the tasks
    queued: Sequence[PendingWorkload] = ()  # the Workloads of Kueue
    groups: Sequence[PodGroup] = ()  # the PodGroups of Volcano, of one task
    topologies: Mapping[ObjectKey, str] = {}  # of the PodGroups of Kubernetes; empty for none
    cluster_nodes: Sequence[Node] = ()  # on which a gang has to fit
    running: Mapping[ObjectKey, Pod] = {}  # all pods beside which it has to
    lost: Mapping[ObjectKey, str] = {}  # why the tasks that others wait for cannot succeed, by id
    succeeded: frozenset[ObjectKey] = frozenset()  # tasks that others wait for, by id
    warnings: Mapping[ObjectKey, Event] = {}  # the latest event about each object


def explain(task: TaskStatus, seen: Surroundings) -> TaskStatus:
    """Return the task with why its nodes do not start, or why the first one failed."""
    if lost := seen.lost.get((task.namespace, task.predecessor_id)):
        task = replace(task, lost=f"{task.predecessor} {lost}")
    if (task.namespace, task.predecessor_id) in seen.succeeded:
        task = replace(task, is_due=True)
    task = _explain_pods(task, seen.pods)
    task = _explain_queue(task, seen.queued)
    task = _explain_groups(task, seen.groups)
    task = _explain_gang(task, seen)
    return _explain_warnings(task, seen.warnings)


def pods_by_key(pods: Iterable[Pod]) -> dict[ObjectKey, Pod]:
    return {_key(pod): pod for pod in pods}


def read_topologies(groups: Iterable[Gang]) -> dict[ObjectKey, str]:
    """Return the topology of each gang of these PodGroups of Kubernetes; empty for none."""
    gangs = (group for group in groups if any(queues.gang_of(group)))
    return {_key(group): queues.gang_of(group)[1] for group in gangs}


def find_latest(warnings: Iterable[Event]) -> dict[ObjectKey, Event]:
    """Return the latest of these events about each object."""
    return {(event.metadata.namespace, event.involved_object.name): event for event in warnings}


def _key(item: Object) -> ObjectKey:
    metadata = item.metadata
    return metadata.namespace, metadata.name


def may_be_told_by_events(task: TaskStatus, node: NodeStatus) -> bool:
    """Return whether a warning may say why a node waits, because its objects do not.

    They do not tell whether a node waits for its files or, after them, for the other nodes.
    """
    has_no_reason = node.state is State.PENDING and reasons.find(node.reason).is_normal
    return has_no_reason or (node.awaits_files and task.num_nodes > 1)


def may_wait_for_gang(task: TaskStatus) -> bool:
    blocked = any(node.reason == UNSCHEDULABLE and not node.host for node in task.nodes)
    return blocked and task.num_nodes > 1


def lacks_cluster_node(node: NodeStatus) -> bool:
    """Return whether a node may wait for a cluster node, by what its own objects say."""
    waits = node.state is State.PENDING and not node.host
    return waits and (reasons.find(node.reason).is_normal or node.reason == UNSCHEDULABLE)


def _explain_pods(task: TaskStatus, pods: Mapping[ObjectKey, Pod]) -> TaskStatus:
    """Add what the pods of blocked nodes and of the first failed one say, in the words of rules.

    Reads one pod of each reason, and the end of the log from its termination message.
    """
    nodes = {
        node.reason: node
        for node in reversed(task.nodes)
        if is_blocked(node) or node.reason == RETRYING
    }
    failure = task.first_failure
    has_log = failure is not None and failure.reason == "Error"
    if failure:
        nodes[failure.reason] = failure
    found = {
        reason: (node, pods[task.namespace, node.pod])
        for reason, node in nodes.items()
        if (task.namespace, node.pod) in pods
    }
    if not found:
        return task

    from kubectl_sky.observe import rules  # noqa: PLC0415 -- most tasks do not need them

    causes = dict(task.causes)
    notices = dict(task.notices)
    for reason, (node, pod) in found.items():
        is_logged = has_log and node is failure
        cause = rules.explain_end(task, node, pod) if is_logged else rules.explain_start(task, pod)
        if cause:
            causes[reason] = cause.headline
            notices[reason] = cause.notice
        elif error := _last_error(node, pod) if is_logged else "":
            causes[reason] = error
    return replace(task, causes=causes, notices=notices)


def _last_error(node: NodeStatus, pod: Pod) -> str:
    """Return the last error of a failed node. If `main` has not run, fetch.sh wrote the message."""
    message = "" if container(pod).state.terminated else node.message
    return message or last_error(node.message.splitlines())


def _explain_queue(task: TaskStatus, queued: Sequence[PendingWorkload]) -> TaskStatus:
    """Add the positions of nodes in Kueue's queue."""
    kind = task.workload.kind.kind

    def add_position(node: NodeStatus) -> NodeStatus:
        position = queues.of_object(queued, kind, node.job) if node.reason == QUEUED else None
        return replace(node, message=str(position)) if position else node

    return replace(task, nodes=tuple(map(add_position, task.nodes))) if queued else task


def _explain_groups(task: TaskStatus, groups: Sequence[PodGroup]) -> TaskStatus:
    """Add why Volcano does not start the nodes."""
    blocker = next(filter(None, map(queues.waiting_group, groups)), None)
    return _with_reason(task, blocker.reason, str(blocker)) if blocker else task


def _explain_gang(task: TaskStatus, seen: Surroundings) -> TaskStatus:
    """Add in numbers why the scheduler starts no node of a gang, as doctor does."""
    if not seen.topologies or not may_wait_for_gang(task):
        return task
    nodes = list(filter(lacks_cluster_node, task.nodes))
    own = (seen.running.get((task.namespace, node.pod)) for node in nodes)
    pod = next(filter(None, own), None)
    if pod is None:
        return task
    topology = seen.topologies.get((task.namespace, queues.group_name(pod)))
    if topology is None:
        return task

    from kubectl_sky.observe import capacity  # noqa: PLC0415 -- most tasks do not need it

    running = seen.running.values()
    parts = capacity.explain_gang(pod.spec, len(nodes), seen.cluster_nodes, running, topology)
    text = "".join(parts)
    explained = _with_reason(task, UNSCHEDULABLE, text)
    return replace(explained, causes={**task.causes, UNSCHEDULABLE: text})


def _with_reason(task: TaskStatus, reason: str, text: str) -> TaskStatus:
    """Return the task with this reason for the nodes that may wait for a cluster node."""
    nodes = (
        replace(node, reason=reason, message=text) if lacks_cluster_node(node) else node
        for node in task.nodes
    )
    return replace(task, nodes=tuple(nodes))


def _explain_warnings(task: TaskStatus, warnings: Mapping[ObjectKey, Event]) -> TaskStatus:
    """Add the warnings about the pods of nodes without a reason, or about the owners of those."""
    if not warnings:
        return task
    from kubectl_sky.observe import rules  # noqa: PLC0415 -- most tasks do not need them

    nodes = []
    causes = dict(task.causes)
    for node in task.nodes:
        name = node.pod or task.workload.pod_owner_name(node.job)
        is_told = may_be_told_by_events(task, node)
        event = warnings.get((task.namespace, name)) if is_told else None
        uid = event.involved_object.uid if event else ""
        is_earlier = uid and uid != task.uids.get(name, uid)  # of a deleted object of this name

        if event and not is_earlier and (node.awaits_files or node.awaits_nodes):
            nodes.append(_at_start(node, event))
        elif event and not is_earlier:
            reason = event.reason
            message = event.message
            if cause := rules.explain_event(task, node, event):
                causes.setdefault(reason, cause.headline)
            nodes.append(replace(node, reason=reason, message=message))
        else:
            nodes.append(node)
    return replace(task, nodes=tuple(nodes), causes=causes)


def _at_start(node: NodeStatus, warning: Event) -> NodeStatus:
    """Return a node that waits at its start, with what its startup probe says of it."""
    told = _AWAITED.search(warning.message)
    awaited = told[1].strip() if told else "files"
    return node if awaited == "files" else replace(node, reason=WAITING_FOR_NODES, message=awaited)
