"""Restart rules: whether a failed pod is replaced, and which failures count."""

from collections.abc import Sequence

from kubectl_sky.plan.plan import Plan
from kubectl_sky.workloads.workload import Object, condition


def uncounted(plan: Plan) -> str:
    """Return why a backend that counts every failure cannot run a plan.

    Empty if it can.
    """
    if plan.recovers and not plan.restarts:
        return (
            "it counts evictions as failures;"
            " set the number of restarts: job_recovery: {max_restarts_on_errors: 3}"
        )
    return ""


def shared(item: Object, pods: Sequence[Object]) -> bool:
    """Return whether a pod is replaced by a Job that counts all pods' failures."""
    failures = item.get("status", {}).get("failed") or 0
    return will_retry(item, pods, item.get("spec", {}).get("backoffLimit", 0), failures)


def will_retry(item: Object, pods: Sequence[Object], limit: int, known: int = 0) -> bool:
    """Return whether the newest pod failed and is replaced, up to `limit` failures.

    `known` is the number of failures in the Job's status, which may lag behind the pods.
    """
    final = condition(item, "SuccessCriteriaMet", "FailureTarget")
    statuses = [pod.get("status", {}) for pod in pods]
    if final or not statuses or statuses[-1].get("phase") != "Failed":
        return False
    rules = (item.get("spec", {}).get("podFailurePolicy") or {}).get("rules") or ()
    failed = [status for status in statuses if status.get("phase") == "Failed"]
    counted = sum(not any(_ignores(rule, status) for rule in rules) for status in failed)
    return max(counted, known) <= limit


def _ignores(rule: Object, status: Object) -> bool:
    """Return whether a podFailurePolicy rule ignores the failure of a pod."""
    if rule.get("action") != "Ignore":
        return False
    true_types = {
        entry["type"] for entry in status.get("conditions", ()) if entry["status"] == "True"
    }
    if any(pattern["type"] in true_types for pattern in rule.get("onPodConditions") or ()):
        return True
    codes = (rule.get("onExitCodes") or {}).get("values") or ()
    states = (entry.get("state", {}) for entry in status.get("containerStatuses", ()))
    return any(state.get("terminated", {}).get("exitCode") in codes for state in states)
