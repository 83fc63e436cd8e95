"""Array backend: many one-node tasks as the independent indexes of one Job."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from kubectl_sky.plan.plan import Extras, Node
from kubectl_sky.words import kinds, names
from kubectl_sky.words.expansion import literal
from kubectl_sky.words.facts import Facts
from kubectl_sky.words.objects import NO_CONDITION, Object
from kubectl_sky.words.pod_objects import Pod
from kubectl_sky.words.task_objects import TaskObject
from kubectl_sky.workloads import job_status
from kubectl_sky.workloads.workload import (
    Phase,
    PhaseDetails,
    Workload,
    condition,
    end,
    waiting,
)

if TYPE_CHECKING:
    from kubectl_sky.plan.plan import Plan
    from kubectl_sky.spec.pipeline import Array
    from kubectl_sky.spec.sweep import Sweep
    from kubectl_sky.spec.task import Task


class Indexes(Extras, frozen=True, kw_only=True):
    """The numbers of the tasks."""

    array: "Array"


class ArrayJob(Workload):
    """Each index is a task of its own, with its own number."""

    name = "array"
    kind = kinds.JOB
    template = "array.yaml.j2"
    rank0_selector = job_status.FIRST_INDEX
    selectable = False
    independent_nodes = True

    def adapted(self, plan: "Plan", task: "Task", facts: Facts) -> "Plan":
        """Add the numbers, and the scripts that find a pod's own. Each has the time for itself."""
        assert task.array
        scripts = ("array.sh", "sweep.sh") if task.array.sweep else ("array.sh",)
        plan = replace(plan, extras=Indexes(scripts=scripts, array=task.array))
        if not plan.max_seconds:
            return plan
        config = plan.pod_options.pod_config
        spec = {"activeDeadlineSeconds": plan.max_seconds} | dict(config.get("spec", {}))
        options = replace(plan.pod_options, pod_config={**config, "spec": spec})
        return replace(plan, max_seconds=None, pod_options=options)

    def pods(self, plan: "Plan") -> tuple[Node, ...]:
        """Return one Job; its pods look up their number in the list by their index."""
        assert isinstance(plan.extras, Indexes)
        (node,) = plan.nodes
        array = plan.extras.array
        sweep = _sweep_variables(array.sweep) if array.sweep else {}
        return (
            Node(
                index=0,
                job=plan.name,
                labels=node.labels,
                rank=node.rank,
                env={"KUBECTL_SKY_ARRAY": array.numbers, **sweep},
            ),
        )

    def ranks(self, item: TaskObject) -> Sequence[int]:
        return tuple(job_status.list_indexes(_numbers(item))) or range(
            job_status.index_count(item.spec)
        )

    def pod_counts(self, item: TaskObject) -> Sequence[int]:
        """Return one: the Job controller creates the pods of the others as the quota allows."""
        return (1,)

    def rank(self, pod: Pod) -> int:
        """Return the number at the pod's index."""
        numbers = tuple(job_status.list_indexes(_numbers(pod)))
        index = job_status.index_of(pod)
        return numbers[index] if index < len(numbers) else index

    def title(self, rank: int) -> str:
        return f"index-{rank}"

    def node(self, item: TaskObject, rank: int) -> PhaseDetails:
        """Each index completes and fails independently."""
        index = job_status.list_indexes(_numbers(item)).get(rank, rank)
        complete = condition(item, "Complete")
        failed = condition(item, "Failed")
        if complete or job_status.has_completed(item, index):
            return end(Phase.COMPLETED, complete or NO_CONDITION)
        if failed or index in job_status.list_indexes(item.status.failed_indexes):
            return end(Phase.FAILED, failed or NO_CONDITION)
        return waiting(item)

    def will_retry(self, item: TaskObject, pods: Sequence[Pod]) -> bool:
        """Apply the Job's rules, which count failures per index."""
        limit = item.spec.backoff_limit_per_index or 0
        return job_status.will_retry(item, pods, limit)


def _sweep_variables(sweep: "Sweep") -> dict[str, str]:
    """Return the variables of sweep.sh: how many values each has, and each of them."""
    sizes = [f"{name}={len(values)}" for name, values in sweep.variables.items()]
    each = {
        f"KUBECTL_SKY_SWEEP_{name}_{position}": literal(value)
        for name, values in sweep.variables.items()
        for position, value in enumerate(values)
    }
    return {"KUBECTL_SKY_SWEEP": " ".join(reversed(sizes)), **each}


def _numbers(item: Object) -> str:
    return item.metadata.annotations.get(names.ARRAY, "")
