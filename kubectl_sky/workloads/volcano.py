"""One Job per node, which Volcano's scheduler starts all at once: a PodGroup tells it which."""

from dataclasses import replace

from kubectl_sky import kinds
from kubectl_sky.plan import quota
from kubectl_sky.plan.gang import Gang
from kubectl_sky.plan.plan import Plan
from kubectl_sky.workloads.pernode import PerNode

GROUP = "scheduling.k8s.io/group-name"  # the only annotation of pods that Volcano reads for it


class Volcano(PerNode):
    """The Jobs are plain ones; their pods name the group."""

    name = "volcano"
    requires = "Volcano"
    gang = True
    own_queues = True
    beside = kinds.POD_GROUP
    beside_template = "podgroup.yaml.j2"

    def adapted(self, plan: Plan) -> Plan:
        """The queue is Volcano's, and not Kueue's."""
        return replace(
            plan,
            gang=Gang("volcano", plan.queue, len(plan.nodes), quota.together(plan)),
            pod_annotations={**plan.pod_annotations, GROUP: plan.name},
            custom=replace(plan.custom, queue=None, queueing={}),
        )
