"""Compute a node's status from its object's verdict and its newest pod."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from kubectl_sky import names
from kubectl_sky.workloads.workload import STOPPED, Phase, Verdict

Object = Mapping[str, Any]

RETRYING = "Retrying"  # reason of a failed node that restarts


class State(StrEnum):
    """The state of a task or a node."""

    PENDING = "pending"
    RUNNING = "running"
    FAILED = "failed"
    COMPLETED = "completed"

    @property
    def ended(self) -> bool:
        """Whether the state is final."""
        return self in (State.FAILED, State.COMPLETED)


@dataclass(frozen=True)
class NodeStatus:
    """One node of a task: rank, object, pod, and why it is pending or how it finished.

    `restarts` is the number of earlier pods of the node; `previous` is the newest of them.
    """

    index: int
    name: str  # display name: node-3
    job: str  # the object that runs it
    state: State = State.PENDING
    pod: str = ""
    host: str = ""  # the cluster node that the pod runs on
    reason: str = ""  # why it is pending or failed: OOMKilled, ImagePullBackOff
    message: str = ""
    exit_code: int | None = None
    started_at: str = ""
    ended_at: str = ""
    restarts: int = 0
    previous: str = ""
    phase: str = ""  # phase in which it failed, if known: start, setup

    @property
    def started(self) -> bool:
        """Whether the container has run, and so has a log."""
        return bool(self.pod) and (self.state is not State.PENDING or self.exit_code is not None)

    def as_json(self) -> dict[str, object]:
        """Return the node as JSON values; fields that are not set are left out."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {name: value for name, value in values.items() if value not in ("", None)}


_FINAL = {Phase.COMPLETED: State.COMPLETED, Phase.FAILED: State.FAILED}
_ENDS = {"Succeeded": State.COMPLETED, "Failed": State.FAILED}


def container(pod: Object) -> Object:
    """Return the status of the task's container; empty before the kubelet reports one."""
    for status in pod.get("status", {}).get("containerStatuses", ()):
        if status.get("name") == names.CONTAINER:
            return dict(status)
    return {}


def node(base: NodeStatus, verdict: Verdict, pods: Sequence[Object]) -> NodeStatus:
    """Compute a node's status from its object and its pods.

    The object decides how the node finished, the pod explains why. The pods are in order of
    creation.
    """
    newest = pods[-1] if pods else None
    if len(pods) > 1:
        base = replace(base, previous=pods[-2]["metadata"]["name"])
    if newest:
        status = of_pod(base, newest)
    elif verdict.phase is Phase.HELD:
        status = replace(base, reason=verdict.reason, message=verdict.message)
    else:
        status = base
    state = _final(verdict, newest)
    if state is State.COMPLETED:
        return replace(status, state=state, reason="", message="")
    if state is State.FAILED:
        return _failed(status, verdict, bool(newest and "deletionTimestamp" in newest["metadata"]))
    return status


def _failed(seen: NodeStatus, verdict: Verdict, told: bool) -> NodeStatus:
    """Return a failed node; `told` means its pod was deleted, not failed by itself."""
    reason, message = seen.reason or verdict.reason, seen.message or verdict.message
    if told and (verdict.phase is Phase.PODS or verdict.reason == STOPPED):
        reason, message = STOPPED, verdict.message
    return replace(
        seen,
        state=State.FAILED,
        reason=reason or "Failed",
        message=message,
        ended_at=seen.ended_at or verdict.at,
    )


def retrying(seen: NodeStatus) -> NodeStatus:
    """Return a node between two pods: the cluster creates the next after a pause."""
    code = "" if seen.exit_code is None else f" (exit code {seen.exit_code})"
    message = f"{seen.reason}{code}; restart {seen.restarts + 1} follows"
    return replace(seen, state=State.PENDING, reason=RETRYING, message=message)


def _final(verdict: Verdict, pod: Object | None) -> State | None:
    """Return a node's final state, if any: by its object, or by its pod for PODS."""
    if verdict.phase is not Phase.PODS:
        return _FINAL.get(verdict.phase)
    if pod is None:  # already deleted if the task is being stopped, otherwise not created yet
        return State.FAILED if verdict.reason == STOPPED else None
    return _ENDS.get(pod.get("status", {}).get("phase", ""))


def of_pod(base: NodeStatus, pod: Object) -> NodeStatus:
    """Return the node as one of its pods shows it."""
    status = pod.get("status", {})
    with_pod = replace(
        base, pod=pod["metadata"]["name"], host=pod.get("spec", {}).get("nodeName", "")
    )
    state = container(pod).get("state", {})
    if "terminated" in state:
        return _ended(with_pod, status, state["terminated"])
    # Evicted, or its cluster node was lost, before a container exited.
    if status.get("phase") == "Failed":
        return _ended(with_pod, status, _failed_before(status))
    if "running" in state:
        began = state["running"].get("startedAt") or ""
        return replace(with_pod, state=State.RUNNING, started_at=began)
    return _waiting(with_pod, status, state.get("waiting", {}))


def _failed_before(status: Object) -> Object:
    """Return the end of the init container that failed; empty if none did."""
    for container_status in status.get("initContainerStatuses", ()):
        end = container_status.get("state", {}).get("terminated", {})
        if end.get("exitCode"):
            return dict(end)
    return {}


def _ended(seen: NodeStatus, status: Object, end: Object) -> NodeStatus:
    """Return a node whose container has exited; the Job's verdict is still pending."""
    succeeded = end.get("exitCode") == 0
    ended = replace(
        seen,
        state=State.RUNNING,
        reason="" if succeeded else status.get("reason") or end.get("reason") or "Failed",
        message="" if succeeded else (status.get("message") or end.get("message") or "").strip(),
        exit_code=end.get("exitCode"),
        started_at=end.get("startedAt") or "",
        ended_at=end.get("finishedAt") or "",
    )
    return _told(ended)


# Prefix of the termination message that entry.sh writes, with its reason and phase.
_TOLD = (
    ("setup failed with exit code ", "FAILED_SETUP", "setup"),
    ("gave up waiting for the other nodes ", "NODES_MISSING", "start"),
)


def _told(seen: NodeStatus) -> NodeStatus:
    for begin, reason, phase in _TOLD:
        if seen.message.startswith(begin):
            return replace(seen, reason=reason, phase=phase)
    return seen


def _waiting(seen: NodeStatus, status: Object, waiting: Object) -> NodeStatus:
    """Return a node that is not scheduled or not started; the scheduler's reason wins."""
    for condition in status.get("conditions", ()):
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return replace(
                seen, reason=condition.get("reason", ""), message=condition.get("message", "")
            )
    return replace(seen, reason=waiting.get("reason", ""), message=waiting.get("message", ""))
