"""Volcano backend: one Job per node, gang-scheduled with a PodGroup."""

from dataclasses import replace

from kubectl_sky import kinds
from kubectl_sky.plan import quota
from kubectl_sky.plan.gang import Gang
from kubectl_sky.plan.plan import Plan
from kubectl_sky.workloads.pernode import PerNode

GROUP = "scheduling.k8s.io/group-name"  # pod annotation that Volcano reads to find the PodGroup


class Volcano(PerNode):
    """The Jobs are plain ones; their pods name the PodGroup."""

    name = "volcano"
    requires = "Volcano"
    gang = True
    own_queues = True
    companion_kind = kinds.POD_GROUP
    companion_template = "podgroup.yaml.j2"

    def adapted(self, plan: Plan) -> Plan:
        """Use the queue for Volcano instead of Kueue."""
        return replace(
            plan,
            gang=Gang("volcano", plan.queue, len(plan.nodes), quota.together(plan)),
            pod_annotations={**plan.pod_annotations, GROUP: plan.name},
            custom=replace(plan.custom, queue=None, queueing={}),
        )
