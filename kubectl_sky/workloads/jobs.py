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

    def attempts(self, item: Object) -> int:
        """A Job counts its pods, those that have been deleted too."""
        status = item.get("status", {})
        return sum(status.get(kind) or 0 for kind in ("active", "failed", "succeeded"))

    def follows(self, item: Object, pods: Sequence[Object]) -> bool:
        """Failures are counted by the Job's own rules, which may be slower to do so than we are."""
        over = condition(item, "SuccessCriteriaMet", "FailureTarget")
        statuses = [pod.get("status", {}) for pod in pods]
        if over or not statuses or statuses[-1].get("phase") != "Failed":
            return False
        spec = item.get("spec", {})
        rules = (spec.get("podFailurePolicy") or {}).get("rules") or ()
        failed = [status for status in statuses if status.get("phase") == "Failed"]
        counted = sum(not any(_ignores(rule, status) for rule in rules) for status in failed)
        known = item.get("status", {}).get("failed") or 0
        return bool(max(counted, known) <= spec.get("backoffLimit", 0))


def _ignores(rule: Object, status: Object) -> bool:
    """Say whether a rule of a podFailurePolicy lets a failed pod go uncounted."""
    if rule.get("action") != "Ignore":
        return False
    true = {found["type"] for found in status.get("conditions", ()) if found["status"] == "True"}
    if any(pattern["type"] in true for pattern in rule.get("onPodConditions") or ()):
        return True
    codes = (rule.get("onExitCodes") or {}).get("values") or ()
    states = (found.get("state", {}) for found in status.get("containerStatuses", ()))
    return any(state.get("terminated", {}).get("exitCode") in codes for state in states)
