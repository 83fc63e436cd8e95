"""The status of one node of a task, folded from its object's verdict and its newest pod."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from kubectl_sky import names
from kubectl_sky.workloads.workload import STOPPED, Phase, Verdict

Object = Mapping[str, Any]

RETRYING = "Retrying"  # why a node waits that failed and starts again


class State(StrEnum):
    """What a task or a node is doing."""

    PENDING = "pending"
    RUNNING = "running"
    FAILED = "failed"
    COMPLETED = "completed"

    @property
    def ended(self) -> bool:
        """Whether nothing more will happen."""
        return self in (State.FAILED, State.COMPLETED)


@dataclass(frozen=True)
class NodeStatus:
    """One node of a task: rank, object, pod, and what is known of its end or of its waiting.

    `restarts` is how many pods it had before this one; `previous` is the last of those.
    """

    index: int
    name: str  # what people call it: node-3
    job: str  # the object that runs it
    state: State = State.PENDING
    pod: str = ""
    host: str = ""  # the cluster's node that the pod runs on
    reason: str = ""  # why it waits, or how it failed: OOMKilled, ImagePullBackOff
    message: str = ""
    exit_code: int | None = None
    started_at: str = ""
    ended_at: str = ""
    restarts: int = 0
    previous: str = ""
    phase: str = ""  # how far it was when it failed, where that is known: start, setup

    @property
    def started(self) -> bool:
        """Whether its container has run, so that there is a log."""
        return bool(self.pod) and (self.state is not State.PENDING or self.exit_code is not None)

    def as_json(self) -> dict[str, object]:
        """The node for programs; what is unknown is left out."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {name: value for name, value in values.items() if value not in ("", None)}


_FINAL = {Phase.COMPLETED: State.COMPLETED, Phase.FAILED: State.FAILED}
_ENDS = {"Succeeded": State.COMPLETED, "Failed": State.FAILED}


def container(pod: Object) -> Object:
    """Status of the container that runs the task; empty before the kubelet has reported one."""
    for status in pod.get("status", {}).get("containerStatuses", ()):
        if status.get("name") == names.CONTAINER:
            return dict(status)
    return {}


def node(base: NodeStatus, verdict: Verdict, pods: Sequence[Object]) -> NodeStatus:
    """Fold what a node's object says and its pods; the object says how it ended, the pod why.

    The pods are in the order in which they were made.
    """
    newest = pods[-1] if pods else None
    if len(pods) > 1:
        base = replace(base, previous=pods[-2]["metadata"]["name"])
    if newest:
        seen = of_pod(base, newest)
    elif verdict.phase is Phase.HELD:
        seen = replace(base, reason=verdict.reason, message=verdict.message)
    else:
        seen = base
    state = _final(verdict, newest)
    if state is State.COMPLETED:
        return replace(seen, state=state, reason="", message="")
    if state is State.FAILED:
        return _failed(seen, verdict, bool(newest and "deletionTimestamp" in newest["metadata"]))
    return seen


def _failed(seen: NodeStatus, verdict: Verdict, told: bool) -> NodeStatus:
    """A node that failed; `told` says that its pod was told to end, and did not by itself."""
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
    """Return a node between two pods: the cluster makes the next one after a pause."""
    code = "" if seen.exit_code is None else f" (exit code {seen.exit_code})"
    message = f"{seen.reason}{code}; restart {seen.restarts + 1} follows"
    return replace(seen, state=State.PENDING, reason=RETRYING, message=message)


def _final(verdict: Verdict, pod: Object | None) -> State | None:
    """How a node ended, if it has: by its object, or by its pod where that is left to it."""
    if verdict.phase is not Phase.PODS:
        return _FINAL.get(verdict.phase)
    if pod is None:  # it has gone already where all are being stopped, else it is still to come
        return State.FAILED if verdict.reason == STOPPED else None
    return _ENDS.get(pod.get("status", {}).get("phase", ""))


def of_pod(base: NodeStatus, pod: Object) -> NodeStatus:
    """Return a node as one of its pods shows it."""
    status = pod.get("status", {})
    seen = replace(base, pod=pod["metadata"]["name"], host=pod.get("spec", {}).get("nodeName", ""))
    state = container(pod).get("state", {})
    if "terminated" in state:
        return _ended(seen, status, state["terminated"])
    if (
        status.get("phase") == "Failed"
    ):  # evicted, or its machine was lost, before a container ended
        return _ended(seen, status, _failed_before(status))
    if "running" in state:
        began = state["running"].get("startedAt") or ""
        return replace(seen, state=State.RUNNING, started_at=began)
    return _waiting(seen, status, state.get("waiting", {}))


def _failed_before(status: Object) -> Object:
    """The end of the container that failed before the task's could start; empty without one."""
    for one in status.get("initContainerStatuses", ()):
        end = one.get("state", {}).get("terminated", {})
        if end.get("exitCode"):
            return dict(end)
    return {}


def _ended(seen: NodeStatus, status: Object, end: Object) -> NodeStatus:
    """The container has ended; the Job's verdict is still to come."""
    fine = end.get("exitCode") == 0
    found = replace(
        seen,
        state=State.RUNNING,
        reason="" if fine else status.get("reason") or end.get("reason") or "Failed",
        message="" if fine else (status.get("message") or end.get("message") or "").strip(),
        exit_code=end.get("exitCode"),
        started_at=end.get("startedAt") or "",
        ended_at=end.get("finishedAt") or "",
    )
    return _told(found)


# What entry.sh leaves as the last message of a node: how it begins, the reason, the phase.
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
    """Not scheduled, or its container is not there yet; the scheduler's reason comes first."""
    for condition in status.get("conditions", ()):
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return replace(
                seen, reason=condition.get("reason", ""), message=condition.get("message", "")
            )
    return replace(seen, reason=waiting.get("reason", ""), message=waiting.get("message", ""))
