"""The backends that run each node as its own Job; the default one needs only Kubernetes."""

from collections.abc import Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from kubectl_sky.words import kinds, names
from kubectl_sky.words.pod_objects import Pod
from kubectl_sky.words.task_objects import TaskObject
from kubectl_sky.workloads import job_status
from kubectl_sky.workloads.workload import (
    LATE,
    MEETS_NOBODY,
    STOPPED,
    SUSPEND,
    Phase,
    PhaseDetails,
    Workload,
    condition,
    end,
    node_index,
    waiting,
)

if TYPE_CHECKING:
    from kubectl_sky.plan.plan import Node, Plan

_MANY = 100  # nodes from which one Job is clearly faster than a Job for each


class PerNode(Workload):
    """Each node is a Job of its own."""

    kind = kinds.JOB
    template = "job.yaml.j2"
    rank0_selector = MappingProxyType({names.NODE_IDX: "0"})
    stable_hostnames = True
    suspend_path = SUSPEND

    def pods(self, plan: "Plan") -> "tuple[Node, ...]":
        return plan.nodes

    def ranks(self, item: TaskObject) -> Sequence[int]:
        return (node_index(item),)

    def rank(self, pod: Pod) -> int:
        return node_index(pod)

    def node(self, item: TaskObject, rank: int) -> PhaseDetails:
        complete = condition(item, "Complete")
        failed = condition(item, "Failed")
        if complete:
            return end(Phase.COMPLETED, complete)
        cause = item.metadata.annotations.get(names.STOPPED_FOR)
        reason = STOPPED
        message = f"{cause} failed"
        if cause == self.title(rank):  # only a node that waits in vain is stopped for itself
            reason = MEETS_NOBODY
            message = "waited for a node that had completed"

        if failed and cause and failed.reason == LATE:
            finished = failed.last_transition_time or ""
            return PhaseDetails(Phase.FAILED, reason, message, finished)
        if failed:
            return end(Phase.FAILED, failed)
        return PhaseDetails(Phase.PODS, reason, message) if cause else waiting(item)

    def stopping(self, failed: str) -> dict[str, Any]:
        """Set a one-second deadline: the Job fails for good and frees its quota."""
        metadata = {"annotations": {names.STOPPED_FOR: failed}}
        return {"metadata": metadata, "spec": {"activeDeadlineSeconds": 1}}

    def attempts(self, item: TaskObject) -> int:
        """The Job's status counts its pods, including deleted ones."""
        status = item.status
        return status.active + status.failed + status.succeeded

    def will_retry(self, item: TaskObject, pods: Sequence[Pod]) -> bool:
        """Apply the rules of the node's Job."""
        return job_status.will_retry_job(item, pods)


class Jobs(PerNode):
    """It needs only Kubernetes."""

    name = "jobs"
    native_gang = True
    merit = "one Job per node"

    def notes(self, plan: "Plan") -> Sequence[str]:
        """Return a note on many nodes; docs/scale.md has the measurement."""
        if len(plan.nodes) < _MANY:
            return ()
        return (
            f"{len(plan.nodes):,} nodes are as many Jobs; with --backend indexed they are one:"
            " of 1,000 nodes, submit was 6 and stop 9 times as fast",
        )
