"""Volcano backend: one Job per node, gang-scheduled with a PodGroup."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace

from kubectl_sky.plan import resources
from kubectl_sky.plan.plan import Extras
from kubectl_sky.words import kinds
from kubectl_sky.words.facts import Facts
from kubectl_sky.workloads.jobs import PerNode

if TYPE_CHECKING:
    from kubectl_sky.plan.plan import Plan
    from kubectl_sky.spec.task import Task

GROUP = "scheduling.k8s.io/group-name"  # pod annotation that Volcano reads to find the PodGroup


class Volcano(PerNode):
    """The Jobs are plain ones; their pods name the PodGroup."""

    name = "volcano"
    requires = "Volcano"
    queue_kind = kinds.VOLCANO_QUEUE
    companion_kind = kinds.POD_GROUP
    companion_template = "podgroup.yaml.j2"

    def adapted(self, plan: "Plan", task: "Task", facts: Facts) -> "Plan":
        """Use the queue for Volcano instead of Kueue."""
        return replace(
            plan,
            extras=Extras(scheduler="volcano"),
            pod_annotations={**plan.pod_annotations, GROUP: plan.name},
            pod_options=replace(plan.pod_options, queueing={}),
        )

    def is_gang(self, plan: "Plan") -> bool:
        """Return that Volcano starts all nodes of the PodGroup together."""
        return True

    def template_values(self, plan: "Plan") -> Mapping[str, object]:
        """Return the queue of the PodGroup, and what all nodes need together."""
        return {
            "queue": plan.pod_options.queue,
            "members": len(plan.nodes),
            "resources": resources.total_requests(plan),
        }
