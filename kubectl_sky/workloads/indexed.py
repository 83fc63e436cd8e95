"""One Indexed Job for all nodes: the cluster stops them all when one fails."""

from collections.abc import Sequence

from kubectl_sky import kinds
from kubectl_sky.workloads import completions, recovery
from kubectl_sky.workloads.allnodes import AllNodes
from kubectl_sky.workloads.workload import Object, Phase, Verdict, condition, ended, whole


class Indexed(AllNodes):
    """Every node is an index of one Job, which fails as a whole."""

    name = "indexed"
    kind = kinds.JOB
    template = "indexed.yaml.j2"

    def node(self, item: Object, rank: int) -> Verdict:
        """Done with its index or with the Job; when the Job fails, its pod says whether it did."""
        complete = condition(item, "Complete")
        if complete or completions.within(item, "completedIndexes", rank):
            return ended(Phase.COMPLETED, complete or {})
        return whole(item, "Failed", "FailureTarget")

    def follows(self, item: Object, pods: Sequence[Object]) -> bool:
        """By the Job's rules, which count the failures of all nodes."""
        return recovery.shared(item, pods)
