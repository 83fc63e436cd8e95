"""A JobSet of one Job: the nodes fail together, and start again together."""

from collections.abc import Sequence

from kubectl_sky import kinds
from kubectl_sky.facts import Facts
from kubectl_sky.plan import environment
from kubectl_sky.plan.plan import Node, Plan
from kubectl_sky.workloads import completions
from kubectl_sky.workloads.workload import Object, Phase, Verdict, Workload, condition, ended, whole

_GROUP = "node"  # the JobSet's only Job
_LONGEST = 63  # of a pod's name


class JobSet(Workload):
    """Every node is an index of the one Job that the JobSet makes, and makes again."""

    name = "jobset"
    kind = kinds.JOB_SET
    template = "jobset.yaml.j2"
    first = completions.FIRST
    requires = "JobSet"
    together = True
    again_together = True
    hold = ("spec", "suspend")

    def pods(self, plan: Plan) -> tuple[Node, ...]:
        """One JobSet; its Job gives the pods host names that begin with its own."""
        return (
            Node(
                index=0,
                job=plan.name,
                labels=plan.labels,
                told={"KUBECTL_SKY_HOSTS": f"{_job(plan.name)}-"} if plan.service else {},
                fields=dict.fromkeys(environment.RANKS, completions.FIELD),
            ),
        )

    def fits(self, plan: Plan, facts: Facts) -> str:
        """JobSet refuses what would be too long a name of a pod."""
        longest = len(f"{_job(plan.name)}-{len(plan.nodes) - 1}-xxxxx")
        if longest <= _LONGEST:
            return ""
        return f"its pods' names would be {longest - _LONGEST} letters too long; shorten its name"

    def notes(self, plan: Plan) -> Sequence[str]:
        """All nodes start again together."""
        return ()

    def ranks(self, item: Object) -> Sequence[int]:
        """Every index of its Job is a node."""
        return range(completions.count(_template(item)))

    def rank(self, pod: Object) -> int:
        """The Job writes the index on its pods."""
        return completions.index(pod)

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
        return _job(name)

    def templates(self, item: Object) -> Sequence[Object]:
        """The pods of its Job."""
        return (_template(item)["spec"]["template"],)


def _job(name: str) -> str:
    return f"{name}-{_GROUP}-0"


def _template(item: Object) -> Object:
    groups: Sequence[Object] = item.get("spec", {}).get("replicatedJobs") or ({},)
    template: Object = groups[0].get("template") or {}
    return template
