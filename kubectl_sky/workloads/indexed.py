"""Indexed backend: one Indexed Job; the cluster stops all nodes if one fails."""

from collections.abc import Sequence

from kubectl_sky.words import kinds
from kubectl_sky.words.objects import NO_CONDITION
from kubectl_sky.words.pod_objects import Pod
from kubectl_sky.words.task_objects import TaskObject
from kubectl_sky.workloads import job_status
from kubectl_sky.workloads.allnodes import AllNodes
from kubectl_sky.workloads.workload import (
    Phase,
    PhaseDetails,
    condition,
    end,
    judge_unfinished,
)


class Indexed(AllNodes):
    """The nodes are indexes of one Job, which fails as a whole."""

    name = "indexed"
    native_gang = True
    merit = "one Job for all nodes, which the cluster stops together when one fails"
    kind = kinds.JOB
    template = "indexed.yaml.j2"

    def node(self, item: TaskObject, rank: int) -> PhaseDetails:
        """A node completes with its index or with the Job.

        If the Job fails, the node's pod decides whether the node failed.
        """
        complete = condition(item, "Complete")
        if complete or job_status.has_completed(item, rank):
            return end(Phase.COMPLETED, complete or NO_CONDITION)
        return judge_unfinished(item, "Failed", "FailureTarget")

    def will_retry(self, item: TaskObject, pods: Sequence[Pod]) -> bool:
        """Apply the Job's rules, which count the failures of all nodes."""
        return job_status.will_retry_job(item, pods)
