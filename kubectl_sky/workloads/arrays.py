"""Many one-node tasks of one file: an Indexed Job, none of whose indexes stops another."""

from collections.abc import Sequence

from kubectl_sky import kinds, names
from kubectl_sky.plan.plan import Node, Plan
from kubectl_sky.workloads import completions, recovery
from kubectl_sky.workloads.workload import (
    Object,
    Phase,
    Verdict,
    Workload,
    condition,
    ended,
    waiting,
)


class Array(Workload):
    """Every index is a task of its own, which knows its number."""

    name = "array"
    kind = kinds.JOB
    template = "array.yaml.j2"
    first = completions.FIRST
    named = False
    apart = True

    def pods(self, plan: Plan) -> tuple[Node, ...]:
        """One Job; its pods find their number by their place in the list."""
        numbers = plan.array.numbers if plan.array else ""
        (node,) = plan.nodes
        return (
            Node(
                index=0,
                job=plan.name,
                labels=node.labels,
                rank=node.rank,
                told={"KUBECTL_SKY_ARRAY": numbers},
            ),
        )

    def ranks(self, item: Object) -> Sequence[int]:
        """The numbers that were asked for."""
        return tuple(completions.listed(_numbers(item))) or range(completions.count(item))

    def rank(self, pod: Object) -> int:
        """The number at the place of the pod's index."""
        numbers, place = tuple(completions.listed(_numbers(pod))), completions.index(pod)
        return numbers[place] if place < len(numbers) else place

    def title(self, rank: int) -> str:
        """By its number."""
        return f"index-{rank}"

    def node(self, item: Object, rank: int) -> Verdict:
        """Each index completes and fails by itself."""
        place = completions.listed(_numbers(item)).get(rank, rank)
        complete, failed = condition(item, "Complete"), condition(item, "Failed")
        if complete or completions.within(item, "completedIndexes", place):
            return ended(Phase.COMPLETED, complete or {})
        if failed or completions.within(item, "failedIndexes", place):
            return ended(Phase.FAILED, failed or {})
        return waiting(item)

    def follows(self, item: Object, pods: Sequence[Object]) -> bool:
        """By the Job's rules, which count the failures of each index."""
        limit = item.get("spec", {}).get("backoffLimitPerIndex") or 0
        return recovery.follows(item, pods, limit)


def _numbers(item: Object) -> str:
    text: str = item["metadata"].get("annotations", {}).get(names.ARRAY, "")
    return text
