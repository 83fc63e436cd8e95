"""Shared base of the backends that run all nodes in one object."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from kubectl_sky.plan.plan import Node
from kubectl_sky.words import names
from kubectl_sky.words.pod_objects import Pod, PodTemplate
from kubectl_sky.words.task_objects import JobSpec, TaskObject
from kubectl_sky.workloads import job_status
from kubectl_sky.workloads.workload import SUSPEND, Manifest, Workload

if TYPE_CHECKING:
    from kubectl_sky.plan.plan import Plan


class AllNodes(Workload):
    """One object for all nodes, which fails as a whole.

    By default, the nodes are the indexes of an Indexed Job.
    """

    rank0_selector: Mapping[str, str] = job_status.FIRST_INDEX
    fail_fast = True
    suspend_path: tuple[str, ...] = SUSPEND
    field = job_status.INDEX_FIELD  # pod field with the node's rank

    def is_gang(self, plan: "Plan") -> bool:
        """Return also whether a queue of Kueue admits the object, now or when it is resumed."""
        queued = plan.queue or names.LATER_QUEUE in plan.annotations
        return bool(queued) or super().is_gang(plan)

    def pods(self, plan: "Plan") -> tuple[Node, ...]:
        return (
            Node(
                index=0,
                job=plan.name,
                labels=plan.labels,
                env=self.env(plan),
                env_from_fields={names.RANK: self.field},
                annotations=self.annotations(plan),
            ),
        )

    def env(self, plan: "Plan") -> Mapping[str, str]:
        """Return the variables of all pods: their host names start with the Job's name."""
        return {"KUBECTL_SKY_HOSTS": f"{self.pod_owner_name(plan.name)}-"} if plan.service else {}

    def annotations(self, plan: "Plan") -> Mapping[str, str]:
        return {}

    def job_spec(self, item: TaskObject) -> JobSpec:
        """Return the spec of the Indexed Job of the nodes, as far as the object describes it."""
        return item.spec

    def recovers(self, item: TaskObject) -> bool:
        return self.job_spec(item).pod_failure_policy is not None

    def job(self, manifest: Manifest) -> Manifest:
        """Return the Indexed Job in a manifest."""
        return manifest

    def ranks(self, item: TaskObject) -> Sequence[int]:
        return range(job_status.index_count(self.job_spec(item)))

    def rank(self, pod: Pod) -> int:
        return job_status.index_of(pod)

    def templates(self, manifest: Manifest) -> Sequence[Manifest]:
        return (self.job(manifest)["spec"]["template"],)

    def pod_templates(self, item: TaskObject) -> Sequence[PodTemplate]:
        return (self.job_spec(item).template,)
