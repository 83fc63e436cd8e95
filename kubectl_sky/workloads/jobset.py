"""A JobSet of one Job: the nodes fail together, and start again together."""

from collections.abc import Sequence

from kubectl_sky import kinds
from kubectl_sky.facts import Facts
from kubectl_sky.plan.plan import Plan
from kubectl_sky.workloads.allnodes import AllNodes
from kubectl_sky.workloads.workload import Object, Phase, Verdict, condition, ended, whole

_GROUP = "node"  # the JobSet's only Job
_LONGEST = 63  # of a pod's name


class JobSet(AllNodes):
    """Every node is an index of the one Job that the JobSet makes, and makes again."""

    name = "jobset"
    kind = kinds.JOB_SET
    template = "jobset.yaml.j2"
    requires = "JobSet"
    again_together = True
    between = "jobset.sigs.k8s.io/jobset-name"

    def fits(self, plan: Plan, facts: Facts) -> str:
        """JobSet refuses what would be too long a name of a pod."""
        longest = len(f"{self.maker(plan.name)}-{len(plan.nodes) - 1}-xxxxx")
        if longest <= _LONGEST:
            return ""
        return f"its pods' names would be {longest - _LONGEST} letters too long; shorten its name"

    def notes(self, plan: Plan) -> Sequence[str]:
        """All nodes start again together."""
        return ()

    def job(self, item: Object) -> Object:
        """The template of its only Job."""
        groups: Sequence[Object] = item.get("spec", {}).get("replicatedJobs") or ({},)
        template: Object = groups[0].get("template") or {}
        return template

    def node(self, item: Object, rank: int) -> Verdict:
        """Done or stopped with the JobSet; before, its pod says, unless all would start again."""
        complete = condition(item, "Completed")
        if complete:
            return ended(Phase.COMPLETED, complete)
        verdict = whole(item, "Failed")
        again = item.get("spec", {}).get("failurePolicy", {})
        left = (again.get("maxRestarts") or 0) - (item.get("status", {}).get("restarts") or 0)
        if verdict.phase is Phase.ACTIVE and left <= 0 and not again.get("rules"):
            return Verdict(Phase.PODS)
        return verdict

    def attempts(self, item: Object) -> int:
        """All nodes have started again as often as the JobSet."""
        return (item.get("status", {}).get("restarts") or 0) + 1

    def maker(self, name: str) -> str:
        """Its Job."""
        return f"{name}-{_GROUP}-0"
