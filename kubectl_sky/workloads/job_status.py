"""Read the status of Jobs: completed indexes, and whether failed pods are replaced."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING

from kubectl_sky.words import bounded
from kubectl_sky.workloads.workload import Object, condition, field, number

if TYPE_CHECKING:
    from kubectl_sky.plan.plan import Plan

INDEX = "batch.kubernetes.io/job-completion-index"
INDEX_FIELD = f"metadata.annotations['{INDEX}']"  # also a label since Kubernetes 1.28
_HIGHEST = 1 << 31
FIRST_INDEX: Mapping[str, str] = MappingProxyType({INDEX: "0"})


def index_count(item: Object) -> int:
    """Return the number of indexes of a Job; at least 1, even if it was edited."""
    return max(bounded.integer(field(item, ("spec", "completions"))), 1)


def index_of(pod: Object) -> int:
    """Return the index of a pod; old clusters set only the annotation."""
    text = pod["metadata"].get("annotations", {}).get(INDEX)
    return number(pod, INDEX) if text is None else bounded.integer(text)


@lru_cache(maxsize=8)  # the lists of one object; each has up to one entry per node
def list_indexes(text: str) -> dict[int, int]:
    """Return the numbers of a list such as `1,3-5`, each with its position.

    A list longer than the maximum number of nodes is truncated.
    """
    numbers: list[int] = []
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        low = bounded.integer(first, _HIGHEST)
        high = bounded.integer(last or first, _HIGHEST)
        numbers += range(low, min(high + 1, low + bounded.NODES + 1 - len(numbers)))
    return {number: position for position, number in enumerate(numbers)}


def has_index(item: Object, field: str, requested: int) -> bool:
    return requested in list_indexes(item.get("status", {}).get(field, ""))


def needs_restart_limit(plan: "Plan") -> str:
    """Return why a backend that counts every failure cannot run a plan.

    Empty if it can.
    """
    if plan.recovers and not plan.restarts:
        return (
            "it counts evictions as failures;"
            " set the number of restarts: job_recovery: {max_restarts_on_errors: 3}"
        )
    return ""


def will_retry_job(item: Object, pods: Sequence[Object]) -> bool:
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
