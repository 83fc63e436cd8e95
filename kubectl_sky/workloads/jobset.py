"""JobSet backend: one Job whose nodes fail and restart together."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from kubectl_sky.plan.tpu import NODE_POOL, spans_nodes
from kubectl_sky.words import kinds
from kubectl_sky.words.facts import Facts
from kubectl_sky.words.task_objects import JobSpec, TaskObject
from kubectl_sky.workloads.allnodes import AllNodes
from kubectl_sky.workloads.workload import (
    Manifest,
    Phase,
    PhaseDetails,
    condition,
    end,
    judge_unfinished,
)

if TYPE_CHECKING:
    from kubectl_sky.plan.plan import Plan
    from kubectl_sky.spec.task import Task

_GROUP = "node"  # the JobSet's only Job
_EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"
_MAX_NAME = 63  # maximum length of a pod name


class JobSet(AllNodes):
    """The nodes are indexes of the one Job that the JobSet creates and recreates."""

    name = "jobset"
    merit = "a JobSet, whose nodes fail together and restart together"
    kind = kinds.JOB_SET
    template = "jobset.yaml.j2"
    requires = "JobSet"
    restarts_all_nodes = True
    owner_label = "jobset.sigs.k8s.io/jobset-name"

    def adapted(self, plan: "Plan", task: "Task", facts: Facts) -> "Plan":
        """Keep the nodes of a TPU slice on one node pool of GKE, which is one slice."""
        if not spans_nodes(task):
            return plan
        return replace(plan, annotations={**plan.annotations, _EXCLUSIVE: NODE_POOL})

    def fits(self, plan: "Plan") -> str:
        """JobSet rejects names that would make pod names too long."""
        longest = len(f"{self.pod_owner_name(plan.name)}-{len(plan.nodes) - 1}-xxxxx")
        if longest <= _MAX_NAME:
            return ""
        return f"the pod names would be {longest - _MAX_NAME} characters too long; shorten its name"

    def notes(self, plan: "Plan") -> Sequence[str]:
        """All nodes restart together, so there is no note."""
        return ()

    def job_spec(self, item: TaskObject) -> JobSpec:
        groups = item.spec.replicated_jobs
        return groups[0].template.spec if groups else JobSpec()

    def job(self, manifest: Manifest) -> Manifest:
        template: Manifest = manifest["spec"]["replicatedJobs"][0]["template"]
        return template

    def node(self, item: TaskObject, rank: int) -> PhaseDetails:
        """Return the JobSet's verdict if it is finished.

        Before that, the node's pod decides, unless a failure would restart all nodes.
        """
        complete = condition(item, "Completed")
        if complete:
            return end(Phase.COMPLETED, complete)
        verdict = judge_unfinished(item, "Failed")
        policy = item.spec.failure_policy
        remaining = policy.max_restarts - item.status.restarts
        rules = policy.rules or ()
        restarts = any("Restart" in rule.action for rule in rules)
        if verdict.phase is Phase.ACTIVE and remaining <= 0 and not restarts:
            # Whether a pod was stopped because the time is over, only the JobSet says.
            phase = Phase.ACTIVE if rules else Phase.PODS
            return PhaseDetails(phase, pod_completes=True)
        return verdict

    def started_at(self, item: TaskObject) -> str:
        """Its status has no start, but the time of the last change of `suspend`."""
        for entry in item.status.conditions:
            if entry.type == "Suspended":
                resumed = entry.status == "False" or self.ended_at(item)
                return entry.last_transition_time or "" if resumed else ""
        return "" if item.spec.suspend else item.metadata.creation_timestamp

    def attempts(self, item: TaskObject) -> int:
        """Every restart of the JobSet restarts all nodes."""
        return item.status.restarts + 1

    def pod_owner_name(self, name: str) -> str:
        return f"{name}-{_GROUP}-0"
