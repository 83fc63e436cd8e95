"""What starts again: whether another pod follows one that failed, and what is not counted."""

from collections.abc import Sequence

from kubectl_sky.plan.plan import Plan
from kubectl_sky.workloads.workload import Object, condition


def uncounted(plan: Plan) -> str:
    """Return why a backend that counts every failure cannot run a plan; empty where it can."""
    if plan.recovers and not plan.restarts:
        return (
            "it counts what the cluster takes away as failures;"
            " say how many there may be: job_recovery: {max_restarts_on_errors: 3}"
        )
    return ""


def shared(item: Object, pods: Sequence[Object]) -> bool:
    """Say whether another pod follows where a Job counts the failures of all its pods."""
    known = item.get("status", {}).get("failed") or 0
    return follows(item, pods, item.get("spec", {}).get("backoffLimit", 0), known)


def follows(item: Object, pods: Sequence[Object], limit: int, known: int = 0) -> bool:
    """Say whether the newest pod has failed and is replaced, as is done up to `limit` failures.

    `known` is how many the Job has counted; it may be slower to do so than we are.
    """
    over = condition(item, "SuccessCriteriaMet", "FailureTarget")
    statuses = [pod.get("status", {}) for pod in pods]
    if over or not statuses or statuses[-1].get("phase") != "Failed":
        return False
    rules = (item.get("spec", {}).get("podFailurePolicy") or {}).get("rules") or ()
    failed = [status for status in statuses if status.get("phase") == "Failed"]
    counted = sum(not any(_ignores(rule, status) for rule in rules) for status in failed)
    return max(counted, known) <= limit


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
