"""What the backends have in common whose one object runs all nodes."""

from collections.abc import Mapping, Sequence

from kubectl_sky.plan import environment
from kubectl_sky.plan.plan import Node, Plan
from kubectl_sky.workloads import completions
from kubectl_sky.workloads.workload import SUSPEND, Object, Workload


class AllNodes(Workload):
    """One object, which fails as a whole; unless a backend says otherwise its nodes are indexes."""

    first: Mapping[str, str] = completions.FIRST
    together = True
    hold: tuple[str, ...] = SUSPEND
    field = completions.FIELD  # where a pod reads its rank

    def pods(self, plan: Plan) -> tuple[Node, ...]:
        """One object for all nodes."""
        return (
            Node(
                index=0,
                job=plan.name,
                labels=plan.labels,
                told=self.told(plan),
                fields=dict.fromkeys(environment.RANKS, self.field),
                annotations=self.annotations(plan),
            ),
        )

    def told(self, plan: Plan) -> Mapping[str, str]:
        """Return what all pods are told; their host names begin with their Job's name."""
        return {"KUBECTL_SKY_HOSTS": f"{self.maker(plan.name)}-"} if plan.service else {}

    def annotations(self, plan: Plan) -> Mapping[str, str]:
        """Return the object's own annotations, beside those of the task."""
        return {}

    def job(self, item: Object) -> Object:
        """Return the Job whose indexes the nodes are, as far as an object says it."""
        return item

    def ranks(self, item: Object) -> Sequence[int]:
        """Every index of the Job is a node."""
        return range(completions.count(self.job(item)))

    def rank(self, pod: Object) -> int:
        """The Job writes the index on its pods."""
        return completions.index(pod)

    def templates(self, item: Object) -> Sequence[Object]:
        """The pods of the Job."""
        return (self.job(item)["spec"]["template"],)
