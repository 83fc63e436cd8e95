"""The default backend: one Job per node."""

from collections.abc import Sequence

from kubectl_sky import kinds
from kubectl_sky.plan.plan import Node, Plan
from kubectl_sky.workloads.workload import (
    Object,
    Phase,
    Verdict,
    Workload,
    condition,
    ended,
    node_index,
)


class Jobs(Workload):
    """Each node is a Job of its own; it needs nothing but Kubernetes."""

    name = "jobs"
    kind = kinds.JOB
    template = "job.yaml.j2"

    def pods(self, plan: Plan) -> tuple[Node, ...]:
        """One Job for each node."""
        return plan.nodes

    def ranks(self, item: Object) -> Sequence[int]:
        """A Job has one node."""
        return (node_index(item),)

    def rank(self, pod: Object) -> int:
        """Pods have their Job's label."""
        return node_index(pod)

    def node(self, item: Object, rank: int) -> Verdict:
        """The Job's verdict is the node's."""
        complete, failed = condition(item, "Complete"), condition(item, "Failed")
        if complete:
            return ended(Phase.COMPLETED, complete)
        if failed:
            return ended(Phase.FAILED, failed)
        if item.get("spec", {}).get("suspend"):
            return Verdict(Phase.HELD, "Suspended", "the Job is suspended")
        return Verdict(Phase.ACTIVE)
