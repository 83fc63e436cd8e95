"""Compute a node's status from its object's verdict and its newest pod."""

import re
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Annotated

from msgspec.structs import asdict, replace

from kubectl_sky.observe import reasons
from kubectl_sky.observe.escapes import plain
from kubectl_sky.observe.reasons import (
    JOB_NOT_FOUND,
    NODE_LOST,
    NODE_TAINTED,
    NOT_SCHEDULED,
    POD_DELETED,
    POD_NOT_FOUND,
    RETRYING,
    TERMINATING,
    WAITING_FOR_FILES,
    WAITING_FOR_NODES,
    DetailedStatus,
)
from kubectl_sky.words import age, bounded, names
from kubectl_sky.words.documents import Note, Part, always
from kubectl_sky.words.objects import NO_CONDITION, Condition
from kubectl_sky.words.pod_objects import (
    NO_CONTAINER,
    ContainerStatus,
    Pod,
    PodStatus,
    Terminated,
    Waiting,
)
from kubectl_sky.workloads.workload import (
    LATE,
    MEETS_NOBODY,
    STOPPED,
    Phase,
    PhaseDetails,
    condition,
)

_HELD = re.compile(r"held ([0-9]{1,11}) ([0-9]{1,3}) (setup|run)\s*$")  # written by hold.sh
_LATE = timedelta(seconds=30)  # after the end of a grace period
_POD_FAILED = "BackoffLimitExceeded"  # the Job's reason when its pod failed or was deleted


class State(StrEnum):
    """The state of a task or a node."""

    PENDING = "pending"
    RUNNING = "running"
    FAILED = "failed"
    COMPLETED = "completed"

    @property
    def ended(self) -> bool:
        return self in (State.FAILED, State.COMPLETED)


class NodeStatus(Part, frozen=True):
    """One node of a task: rank, object, pod, and why it is pending or how it finished."""

    index: Annotated[int, Note("rank")]
    name: Annotated[str, Note("`node-1`; in a sweep `LR=0.1 SEED=2`")]
    job: Annotated[str, Note("the object that runs it")]
    state: Annotated[State, Note("`pending`, `running`, `completed` or `failed`")] = always(
        State.PENDING
    )
    pod: str = ""
    host: Annotated[str, Note("the cluster node that its pod runs on")] = ""
    reason: Annotated[str, Note("why it is pending or failed: `OOMKilled`")] = ""
    message: str = ""
    exit_code: int | None = None
    started_at: str = ""
    ended_at: str = ""
    restarts: Annotated[int, Note("how many pods it had before")] = always(0)
    previous: Annotated[str, Note("the pod before the last restart")] = ""
    phase: Annotated[str, Note("where it failed, if known: `start`, `setup`")] = ""
    stopped_for: Annotated[str, Note("the node whose failure stops this one")] = ""
    kept_by: Annotated[str, Note("containers that keep its pod although `main` has ended")] = ""
    held_until: Annotated[str, Note("when its failed container, which is held, ends")] = ""
    lost_since: Annotated[str, Note("since when its cluster node has not responded")] = ""
    setup_since: Annotated[str, Note("since when it is in setup, if its log was read")] = ""
    rejected_by: Annotated[str, Note("the cluster node that has rejected two of its pods")] = ""
    leaving: Annotated[str, Note("the cluster node that its suspended Job is moved away from")] = ""
    image_digest: Annotated[str, Note("the image that its container runtime has pulled")] = ""
    sweep: Annotated[Mapping[str, str], Note("its values of the variables of a sweep")] = {}

    @property
    def end(self) -> str:
        """How it failed: the reason, or the exit code and its meaning."""
        return end_text(self.reason, self.exit_code)

    @property
    def started(self) -> bool:
        """Whether the container has run, and so has a log."""
        has_run = self.state is not State.PENDING or self.exit_code is not None
        return bool(self.pod) and (has_run or self.awaits_files or self.awaits_nodes)

    @property
    def awaits_files(self) -> bool:
        """Whether its container runs and waits until a client has uploaded its local files."""
        return self.state is State.PENDING and self.reason == WAITING_FOR_FILES

    @property
    def awaits_nodes(self) -> bool:
        """Whether its container runs and waits until all nodes have met."""
        return self.state is State.PENDING and self.reason == WAITING_FOR_NODES

    @property
    def document(self) -> "Node":
        fields = asdict(self) | {"message": plain(self.message)}
        return Node(**fields, detailed_status=read_detailed_status(self))


class Node(NodeStatus, frozen=True, kw_only=True):
    """A node of a task. Fields that are not set are left out."""

    detailed_status: Annotated[str, Note("as of the task")]


_EXIT_CODES = {
    126: "command not executable",
    127: "command not found",
    134: "SIGABRT: aborted",
    135: "SIGBUS: bus error, often too little shared memory",
    136: "SIGFPE: arithmetic error",
    137: "SIGKILL: killed, often out of memory",
    139: "SIGSEGV: segmentation fault",
    143: "SIGTERM: terminated",
}


def end_text(reason: str, exit_code: int | None) -> str:
    """Return how a container ended: `OOMKilled (exit code 137)`.

    A reason that says no more than the exit code is left out: `exit code 127 (command not found)`.
    """
    known = reasons.find(reason).ended
    text = reason if known is None else known
    if exit_code is None:
        return text or reason or "failed"
    if text:
        return f"{text} (exit code {exit_code})"
    meaning = _EXIT_CODES.get(exit_code, "")
    return f"exit code {exit_code}" + (f" ({meaning})" if meaning else "")


_FINAL = {Phase.COMPLETED: State.COMPLETED, Phase.FAILED: State.FAILED}
_ENDS = {"Succeeded": State.COMPLETED, "Failed": State.FAILED}


def container(pod: Pod) -> ContainerStatus:
    """Return the status of the task's container; empty before the kubelet reports one."""
    for status in pod.status.container_statuses:
        if status.name == names.CONTAINER:
            return status
    return NO_CONTAINER


def init_statuses(pod: Pod) -> list[ContainerStatus]:
    """Return the statuses of the containers that run before the task: no native sidecars."""
    containers = pod.spec.init_containers
    sidecars = {item.name for item in containers if item.restart_policy == "Always"}
    statuses = pod.status.init_container_statuses
    return [status for status in statuses if status.name not in sidecars]


def outlived_by(pod: Pod) -> str:
    """Return the containers that keep a pod running after `main` has ended by itself.

    Native sidecars, which are init containers, end with it. Empty if the pod is being deleted, or
    ended for another reason.
    """
    status = pod.status
    metadata = pod.metadata
    end = container(pod).state.terminated
    policy = pod.spec.restart_policy or "Never"

    if not end or policy == "Always" or (policy == "OnFailure" and end.exit_code):
        return ""

    disrupted = status.reason or condition(pod, "DisruptionTarget")
    if status.phase in _ENDS or metadata.deletion_timestamp:
        return ""
    if disrupted and not is_ended_by_us(pod):
        return ""

    return ", ".join(
        item.name
        for item in status.container_statuses
        if item.name != names.CONTAINER and not item.state.terminated
    )


def is_ended_by_us(pod: Pod) -> bool:
    """Return whether a client or controller ends a pod whose `main` had ended before."""
    return names.MAIN_ENDED in pod.metadata.annotations


def kept_by(pod: Pod) -> str:
    """Return the containers that keep a pod after `main`; empty if the pod is being ended."""
    return "" if is_ended_by_us(pod) else outlived_by(pod)


def node(base: NodeStatus, verdict: PhaseDetails, pods: Sequence[Pod]) -> NodeStatus:
    """Compute a node's status from its object and its pods.

    The object decides how the node finished, the pod explains why. The pods are in order of
    creation.
    """
    newest = pods[-1] if pods else None
    if len(pods) > 1:
        base = replace(base, previous=pods[-2].metadata.name)

    if newest:
        status = of_pod(base, newest)
    elif verdict.phase is Phase.SUSPENDED:
        status = replace(base, reason=verdict.reason, message=verdict.message)
    elif verdict.reason == _POD_FAILED:
        message = "its pod is gone; the cause is not known"  # it failed, or was deleted before
        status = replace(base, reason=POD_NOT_FOUND, message=message)
    else:
        status = base

    state = _final(verdict, newest)
    if state is State.COMPLETED:
        ended_at = status.ended_at or verdict.at  # its pod may be gone
        return replace(status, state=state, reason="", message="", ended_at=ended_at)
    if state is State.FAILED:
        return _failed(
            _with_disruption(status, newest), verdict, bool(newest and was_deleted(newest))
        )
    return status


def _with_disruption(status: NodeStatus, pod: Pod | None) -> NodeStatus:
    """Return a failed node with why the cluster took its pod, which may not be gone yet.

    Only that tells it from the nodes that were stopped for it.
    """
    disruption = condition(pod, "DisruptionTarget") if pod else None
    if not disruption or status.reason not in (TERMINATING, NODE_LOST):
        return status
    return replace(
        status,
        reason=disruption.reason or status.reason,
        message=status.message or disruption.message or "",
        ended_at=disruption.last_transition_time or "",
    )


def read_disruption(pod: Pod) -> Condition:
    """Return why the cluster took a pod.

    It takes those of a lost cluster node by a taint, too. Without the kubelet, no container of them
    ends in time.
    """
    disruption = condition(pod, "DisruptionTarget") or NO_CONDITION
    end = container(pod).state.terminated
    if not end or disruption.reason != "DeletionByTaintManager":
        return disruption
    grace = timedelta(seconds=bounded.integer(pod.metadata.deletion_grace_period_seconds))
    finished = age.parse(end.finished_at)
    deleted = age.parse(pod.metadata.deletion_timestamp)
    is_late = finished and deleted and finished - deleted > grace
    return disruption if is_late else replace(disruption, reason=NODE_TAINTED)


def with_silence(pod: Pod, now: datetime) -> Pod:
    """Return a pod that a lost cluster node keeps as the node controller marks one that was ready.

    It marks no other. But a kubelet that responds ends every pod soon after its grace period.
    """
    deleted = age.parse(pod.metadata.deletion_timestamp)
    if not deleted or now - deleted <= _LATE or is_silent(pod):
        return pod
    disruption = condition(pod, "DisruptionTarget") or NO_CONDITION
    has_ended = pod.status.has_ended or container(pod).state.terminated
    if disruption.reason != "DeletionByTaintManager" or has_ended:
        return pod

    since = disruption.last_transition_time
    marks = (
        Condition(type="ContainersReady", status="True"),
        Condition(type="Ready", status="False", last_transition_time=since),
    )
    conditions = (*pod.status.conditions, *marks)  # of each type, the last one counts
    return replace(pod, status=replace(pod.status, conditions=conditions))


def is_stuck(pod: Pod) -> bool:
    """Return whether a pod is being deleted, and only its silent cluster node keeps it."""
    return bool(pod.metadata.deletion_timestamp) and is_silent(pod)


def is_lost(pod: Pod) -> bool:
    """Return whether the cluster has taken a pod that only its silent cluster node keeps."""
    return is_stuck(pod) and condition(pod, "DisruptionTarget") is not None


def lost(status: NodeStatus, pod: Pod) -> NodeStatus:
    """Return a node that has failed with its cluster node, in a pod that only this one keeps."""
    return replace(_with_disruption(status, pod), state=State.FAILED)


def _failed(status: NodeStatus, verdict: PhaseDetails, deleted: bool) -> NodeStatus:
    """Return a failed node; `deleted` means that its pod was or is being deleted.

    If the Job did that, its reason counts, not the end of the pod.
    """
    reason = status.reason or verdict.reason
    message = status.message
    if status.exit_code is None or verdict.reason not in (_POD_FAILED, STOPPED):
        message = message or verdict.message

    by_us = verdict.phase is Phase.PODS or verdict.reason in (LATE, STOPPED)
    if verdict.reason == MEETS_NOBODY or (deleted and by_us):
        reason = verdict.reason or STOPPED
        message = verdict.message
    elif reasons.find(reason).yields and verdict.reason not in ("", _POD_FAILED):
        reason = verdict.reason
        message = verdict.message
    elif reason == TERMINATING:
        reason = POD_DELETED

    return replace(
        status,
        state=State.FAILED,
        reason=reason or "Failed",
        message=message,
        ended_at=status.ended_at or verdict.at,
    )


def find_rejecting(pods: Sequence[Pod]) -> str:
    """Return the cluster node that rejected the two newest pods of a node, if one did."""
    hosts = {pod.spec.node_name if _was_rejected(pod) else "" for pod in pods[-2:]}
    return hosts.pop() if len(pods) > 1 and len(hosts) == 1 else ""


def _was_rejected(pod: Pod) -> bool:
    """Return whether the kubelet rejected a pod, of which no container has started.

    One that shuts down rejects pods, too, and the scheduler knows it soon.
    """
    status = pod.status
    has_containers = status.container_statuses or status.init_container_statuses
    disrupted = condition(pod, "DisruptionTarget")
    is_rejection = status.reason not in ("", "NodeShutdown") and not disrupted
    return status.phase == "Failed" and is_rejection and not has_containers


def not_found(base: NodeStatus) -> NodeStatus:
    """Return a node that was submitted and has no Job any more: it has failed."""
    message = f'Job "{base.job}" not found: it was deleted or lost its labels'
    return replace(base, state=State.FAILED, reason=JOB_NOT_FOUND, message=message)


def ready(status: NodeStatus) -> NodeStatus:
    """Return a node that runs, by its Job, in a pod that lost its labels."""
    message = "the Job has a ready pod without the task's labels"
    return replace(status, state=State.RUNNING, reason=POD_NOT_FOUND, message=message)


def retrying(status: NodeStatus) -> NodeStatus:
    """Return a node between two pods: the cluster creates the next after a pause."""
    message = f"{status.end}; restart {status.restarts + 1} follows"
    return replace(status, state=State.PENDING, reason=RETRYING, message=message)


def was_deleted(pod: Pod) -> bool:
    """Return whether a user or a controller deleted a pod: it was not evicted or preempted."""
    return bool(pod.metadata.deletion_timestamp) and not condition(pod, "DisruptionTarget")


def _final(verdict: PhaseDetails, pod: Pod | None) -> State | None:
    """Return a node's final state, if any: by its object, or by its pod for PODS.

    A node that had completed before another one failed was not stopped; but a program may end well
    when it is stopped.
    """
    end = _ENDS.get(pod.status.phase) if pod else None
    succeeded = pod and end is State.COMPLETED and not pod.metadata.deletion_timestamp
    if succeeded and (verdict.pod_completes or verdict.reason == STOPPED):
        return end
    if verdict.reason == MEETS_NOBODY:
        return State.FAILED
    if verdict.phase is not Phase.PODS:
        return _FINAL.get(verdict.phase)
    if pod is None:  # already deleted if the task is being stopped, otherwise not created yet
        return State.FAILED if verdict.reason == STOPPED else None
    return end


def of_pod(base: NodeStatus, pod: Pod) -> NodeStatus:
    status = pod.status
    main = container(pod)
    with_pod = replace(
        base, pod=pod.metadata.name, host=pod.spec.node_name, image_digest=main.image_id
    )
    state = main.state
    if state.terminated:
        ended = _ended(with_pod, pod, state.terminated)
        # After it was held, the failure is known before its Job reports it.
        return (
            replace(ended, state=State.FAILED) if ended.exit_code and _held(ended, pod) else ended
        )
    # Evicted, or its cluster node was lost, before a container exited.
    if status.phase == "Failed":
        return _ended(with_pod, pod, _failed_before(pod))
    deleting = bool(pod.metadata.deletion_timestamp)
    if state.running:
        began = state.running.started_at or ""
        if not deleting and (waiting := _at_start(with_pod, pod)):
            return replace(waiting, started_at=began)
        running = replace(with_pod, state=State.RUNNING, started_at=began)
        if not deleting and (status_of_hold := _held(running, pod)):
            return status_of_hold
        if not deleting and is_silent(pod):
            return _lost(running, pod, NODE_LOST)
        return _terminating(running, pod) if deleting else running
    if deleting:
        return _terminating(with_pod, pod)
    return _waiting(with_pod, pod, state.waiting)


def _at_start(status: NodeStatus, pod: Pod) -> NodeStatus | None:
    """Return a node whose startup probe has not seen it go on; None if it has, or has no such."""
    if container(pod).started is not False:
        return None

    metadata = pod.metadata
    if names.AWAITS_UPLOAD in metadata.annotations:
        submit_id = metadata.labels.get(names.PIPELINE) or metadata.labels.get(names.TASK_ID, "")
        message = f"submit again with --id {submit_id} if no upload is running"
        return replace(status, reason=WAITING_FOR_FILES, message=message)
    if names.AWAITS_NODES in metadata.annotations:
        return replace(status, reason=WAITING_FOR_NODES)
    return None


def _terminating(status: NodeStatus, pod: Pod) -> NodeStatus:
    return (
        _lost(status, pod, TERMINATING) if is_silent(pod) else replace(status, reason=TERMINATING)
    )


def _lost(status: NodeStatus, pod: Pod, reason: str) -> NodeStatus:
    """Return a node whose cluster node does not respond."""
    message = f"cluster node {status.host} does not respond"
    since = _conditions(pod)["Ready"].last_transition_time or ""
    return replace(status, reason=reason, message=message, lost_since=since)


def _held(running: NodeStatus, pod: Pod) -> NodeStatus | None:
    """Return a node whose container has failed and is held, as held.sh reports it; or None."""
    for sidecar in pod.status.init_container_statuses:
        ends = (sidecar.state.terminated, sidecar.last_state.terminated)
        for end in ends if sidecar.name == names.HOLD else ():
            if end and (match := _HELD.match(end.message)):
                code = int(match[2])
                in_setup = match[3] == "setup"
                message = f"setup failed with exit code {code}" if in_setup else ""
                failed = replace(
                    running,
                    state=State.FAILED,
                    reason="Error",
                    message=message,
                    exit_code=code,
                    ended_at=end.finished_at or "",
                    held_until=age.timestamp(datetime.fromtimestamp(int(match[1]), UTC)),
                )

                return with_runtime_reason(failed)
    return None


def is_ready(pod: Pod) -> bool:
    """Return whether a pod is ready and stays."""
    return not pod.metadata.deletion_timestamp and condition(pod, "Ready") is not None


def is_silent(pod: Pod) -> bool:
    """Return whether the kubelet no longer reports the pod, by the node controller.

    That sets Ready to False and nothing else; a kubelet and readiness gates give a reason.
    """
    conditions = _conditions(pod)
    ready = conditions.get("Ready", NO_CONDITION)
    containers = conditions.get("ContainersReady", NO_CONDITION)
    return ready.status == "False" and not ready.reason and containers.status == "True"


def _conditions(pod: Pod) -> Mapping[str, Condition]:
    return {item.type: item for item in pod.status.conditions}


def _failed_before(pod: Pod) -> Terminated:
    """Return the end of the init container that failed; empty if none did."""
    for container_status in init_statuses(pod):
        end = container_status.state.terminated
        if end and end.exit_code:
            return end
    return Terminated()


def _ended(base: NodeStatus, pod: Pod, end: Terminated) -> NodeStatus:
    """Return a node whose container has exited; the Job's verdict is still pending.

    The deletion timestamp of a pod is the end of its grace period.
    """
    succeeded = end.exit_code == 0
    status = pod.status
    metadata = pod.metadata
    disruption = read_disruption(pod)
    if is_ended_by_us(pod):
        status = PodStatus()
        disruption = NO_CONDITION

    grace = timedelta(seconds=bounded.integer(metadata.deletion_grace_period_seconds))
    finished, deleted = map(age.parse, (end.finished_at, metadata.deletion_timestamp))
    by_itself = finished and deleted and deleted - finished > grace
    was_killed = bool(metadata.deletion_timestamp) and not by_itself

    reason = status.reason or disruption.reason or (POD_DELETED if was_killed else "")
    reason = "" if succeeded else reason or end.reason or "Failed"
    message = status.message or disruption.message or end.message
    message = "" if succeeded else message.strip()

    ended = replace(
        base,
        state=State.RUNNING,
        reason=reason,
        message=message,
        exit_code=end.exit_code,
        started_at=end.started_at or "",
        ended_at=end.finished_at or "",
    )
    return with_runtime_reason(ended)


def with_runtime_reason(status: NodeStatus) -> NodeStatus:
    """Return a node with the reason and phase that its termination message names, if any."""
    told = reasons.find_by_message(status.message)
    return replace(status, reason=told.name, phase=told.phase) if told else status


def _waiting(base: NodeStatus, pod: Pod, state: Waiting | None) -> NodeStatus:
    """Return a node that is not scheduled or not started; the scheduler's reason wins."""
    conditions = pod.status.conditions
    if not conditions and not state and not base.host:
        scheduler = pod.spec.scheduler_name or "default-scheduler"
        message = f'scheduler "{scheduler}" has not handled the pod'
        return replace(base, reason=NOT_SCHEDULED, message=message)
    for entry in conditions:
        if entry.type == "PodScheduled" and entry.status == "False":
            return replace(base, reason=entry.reason, message=entry.message)
    waiting = state or Waiting()
    message = waiting.message or (_start_step(pod) if base.host else "")
    return replace(base, reason=waiting.reason, message=message)


def _start_step(pod: Pod) -> str:
    """Return what the kubelet does for a scheduled pod whose container has not started."""
    image = container(pod).image
    for init in init_statuses(pod):
        state = init.state
        if state.running and init.name != names.HOLD:
            return f"running init container {init.name}"
        if not state.terminated and not state.running:
            image = init.image or image
            break
    return f"preparing {image}" if image else "starting"


_TELLING = (DetailedStatus.RETRYING, DetailedStatus.UNKNOWN)  # of a task, by any of its nodes
_TELLING_IF_PENDING = (*_TELLING, DetailedStatus.QUEUED, DetailedStatus.SETTING_UP)


def read_detailed_status(node: NodeStatus) -> DetailedStatus:
    is_scheduled = node.state is State.PENDING and node.host
    default = DetailedStatus.SETTING_UP if is_scheduled else DetailedStatus(node.state)
    return reasons.find(node.reason).statuses.get(node.state, default)


def read_detailed_status_of_task(
    state: State, nodes: Collection[NodeStatus], failure: NodeStatus | None
) -> DetailedStatus:
    if state is State.FAILED and failure:
        return read_detailed_status(failure)
    statuses = {read_detailed_status(node) for node in nodes}
    telling = _TELLING_IF_PENDING if state is State.PENDING else _TELLING
    return next((status for status in telling if status in statuses), DetailedStatus(state))
