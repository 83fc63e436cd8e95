"""Read the status of Jobs: completed indexes, and whether failed pods are replaced."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING

from kubectl_sky.words import bounded
from kubectl_sky.words.pod_objects import Pod, PodStatus
from kubectl_sky.words.task_objects import FailureRule, JobSpec, TaskObject
from kubectl_sky.workloads.workload import condition, number

if TYPE_CHECKING:
    from kubectl_sky.plan.plan import Plan

INDEX = "batch.kubernetes.io/job-completion-index"
INDEX_FIELD = f"metadata.annotations['{INDEX}']"  # also a label since Kubernetes 1.28
_HIGHEST = 1 << 31
FIRST_INDEX: Mapping[str, str] = MappingProxyType({INDEX: "0"})


def index_count(spec: JobSpec) -> int:
    """Return the number of indexes of a Job; at least 1, even if it was edited."""
    return max(bounded.integer(spec.completions), 1)


def index_of(pod: Pod) -> int:
    """Return the index of a pod; old clusters set only the annotation."""
    text = pod.metadata.annotations.get(INDEX)
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


def has_completed(item: TaskObject, index: int) -> bool:
    return index in list_indexes(item.status.completed_indexes)


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


def will_retry_job(item: TaskObject, pods: Sequence[Pod]) -> bool:
    """Return whether a pod is replaced by a Job that counts all pods' failures."""
    failures = item.status.failed
    return will_retry(item, pods, item.spec.backoff_limit or 0, failures)


def will_retry(item: TaskObject, pods: Sequence[Pod], limit: int, known: int = 0) -> bool:
    """Return whether the newest pod failed and is replaced, up to `limit` failures.

    `known` is the number of failures in the Job's status, which may lag behind the pods.
    """
    final = condition(item, "SuccessCriteriaMet", "FailureTarget")
    statuses = [pod.status for pod in pods]
    if final or not statuses or statuses[-1].phase != "Failed":
        return False
    policy = item.spec.pod_failure_policy
    rules = (policy and policy.rules) or ()
    failed = [status for status in statuses if status.phase == "Failed"]
    actions = [_find_action(rules, status) for status in failed]
    if actions[-1] in ("FailJob", "FailIndex"):
        return False
    counted = sum(action != "Ignore" for action in actions)
    return max(counted, known) <= limit


def _find_action(rules: Sequence[FailureRule], status: PodStatus) -> str:
    """Return what the first rule of a podFailurePolicy that matches does; empty without one."""
    return next((rule.action for rule in rules if _matches(rule, status)), "")


def _matches(rule: FailureRule, status: PodStatus) -> bool:
    """Return whether a podFailurePolicy rule is about the failure of a pod."""
    true_types = {entry.type for entry in status.conditions if entry.status == "True"}
    if any(pattern.type in true_types for pattern in rule.on_pod_conditions or ()):
        return True
    if rule.on_exit_codes is None:
        return False
    name = rule.on_exit_codes.container_name
    codes = rule.on_exit_codes.values
    is_in = rule.on_exit_codes.operator == "In"
    ends = chain(status.container_statuses, status.init_container_statuses)
    return any(
        entry.state.exit_code
        and name in (None, entry.name)
        and (entry.state.exit_code in codes) == is_in
        for entry in ends
    )
