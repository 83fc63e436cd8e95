"""One Indexed Job for all nodes: the cluster stops them all when one fails."""

from collections.abc import Sequence

from kubectl_sky import kinds
from kubectl_sky.plan import environment
from kubectl_sky.plan.plan import Node, Plan
from kubectl_sky.workloads import completions, recovery
from kubectl_sky.workloads.workload import Object, Phase, Verdict, Workload, condition, ended, whole


class Indexed(Workload):
    """Every node is an index of one Job, which fails as a whole."""

    name = "indexed"
    kind = kinds.JOB
    template = "indexed.yaml.j2"
    first = completions.FIRST
    hold = ("spec", "suspend")
    together = True

    def pods(self, plan: Plan) -> tuple[Node, ...]:
        """One Job, which gives its pods host names that begin with its own."""
        return (
            Node(
                index=0,
                job=plan.name,
                labels=plan.labels,
                told={"KUBECTL_SKY_HOSTS": f"{plan.name}-"} if plan.service else {},
                fields=dict.fromkeys(environment.RANKS, completions.FIELD),
            ),
        )

    def ranks(self, item: Object) -> Sequence[int]:
        """Every index is a node."""
        return range(completions.count(item))

    def rank(self, pod: Object) -> int:
        """The Job writes the index on its pods."""
        return completions.index(pod)

    def node(self, item: Object, rank: int) -> Verdict:
        """Done with its index or with the Job; when the Job fails, its pod says whether it did."""
        complete = condition(item, "Complete")
        if complete or completions.within(item, "completedIndexes", rank):
            return ended(Phase.COMPLETED, complete or {})
        return whole(item, "Failed", "FailureTarget")

    def follows(self, item: Object, pods: Sequence[Object]) -> bool:
        """By the Job's rules, which count the failures of all nodes."""
        return recovery.shared(item, pods)
