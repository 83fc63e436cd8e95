"""The total requests of a task's nodes, checked against ResourceQuotas."""

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

from kubectl_sky.errors import ClusterError
from kubectl_sky.plan.plan import Plan
from kubectl_sky.spec.quantity import multiple, quantity

_STEP = Fraction(1, 1000)


def total_requests(plan: Plan) -> dict[str, str]:
    """Return the nodes' total requests; empty if the pod config may change them."""
    if "containers" in (plan.pod_options.pod_config.get("spec") or {}):
        return {}
    return _multiply(
        plan, {**plan.limits, **plan.requests}
    )  # Kubernetes copies a limit without a request


def check(plan: Plan, quotas: Iterable[Mapping[str, Any]]) -> None:
    """Reject a task if a quota never allows all its nodes at the same time.

    Its nodes would wait for each other forever. `quotas` are the namespace's ResourceQuotas. Raises
    ClusterError.
    """
    if len(plan.nodes) == 1 or plan.queue:  # the API server checks one node; Kueue checks queues
        return
    needed = _needed(plan)
    for quota in quotas:
        spec = quota.get("spec", {})
        if spec.get("scopes") or spec.get("scopeSelector"):
            continue  # applies to some pods only
        for name, limit in (spec.get("hard") or {}).items():
            if name in needed and quantity(needed[name]) > quantity(limit):
                raise ClusterError(
                    f"{len(plan.nodes)} nodes need {name} {needed[name]} together,"
                    f" and quota {quota['metadata']['name']} never allows more than {limit}",
                    "request fewer or smaller nodes, or ask a cluster admin for a larger quota",
                )


def _needed(plan: Plan) -> dict[str, str]:
    """Return the total amounts, by the names that quotas use for them."""
    amounts = {"pods": str(len(plan.nodes)), "count/pods": str(len(plan.nodes))}
    requests = total_requests(plan)
    limits = _multiply(plan, plan.limits) if requests else {}
    for name, size in requests.items():
        amounts |= {name: size, f"requests.{name}": size}
    return amounts | {f"limits.{name}": size for name, size in limits.items()}


def _multiply(plan: Plan, sizes: Mapping[str, str]) -> dict[str, str]:
    count = Fraction(len(plan.nodes))
    return {
        name: multiple(size, count, _STEP if name == "cpu" else Fraction(1))
        for name, size in sizes.items()
    }
