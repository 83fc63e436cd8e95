"""RayService backend: KubeRay runs a Ray Serve application on replicas as Ray workers."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from kubectl_sky.plan import ray_serve
from kubectl_sky.plan.plan import Node, Plan
from kubectl_sky.words import bounded, kinds
from kubectl_sky.workloads.service import Service
from kubectl_sky.workloads.workload import Object


class RayService(Service):
    """The head only coordinates; each replica is a worker."""

    name = "rayservice"
    kind = kinds.RAY_SERVICE
    template = "rayservice.yaml.j2"
    requires = "KubeRay"

    def adapted(self, plan: Plan) -> Plan:
        """Start Ray in place of `run`, and leave probes and the Service to KubeRay."""
        plan = super().adapted(plan)
        assert plan.serving
        return replace(
            plan,
            serving=replace(plan.serving, checks=(), scaling=None),
            scripts={**plan.scripts, "run.sh": ray_serve.START},
            ports=None,
            backend_scripts=("entry.sh",),
        )

    def pods(self, plan: Plan) -> tuple[Node, ...]:
        """Return one RayService; its annotation lets the pods run their own command."""
        (node,) = super().pods(plan)
        return (replace(node, annotations={"ray.io/overwrite-container-cmd": "true"}),)

    def template_values(self, plan: Plan) -> Mapping[str, object]:
        """Return the plan of the head, which has a size of its own and no devices."""
        requests, limits = ray_serve.HEAD_REQUESTS, ray_serve.HEAD_LIMITS
        return {"head": replace(plan, requests=requests, limits=limits, terms=(), tolerations=())}

    def notes(self, plan: Plan) -> Sequence[str]:
        """Return notes on what Ray decides."""
        return (
            "rayservice: the application decides how many copies run on the replicas",
            "rayservice: KubeRay checks the replicas; readiness_probe is not used",
        )

    def ranks(self, item: Object) -> Sequence[int]:
        """Return the numbers of the head and the workers."""
        groups = item["spec"]["rayClusterConfig"].get("workerGroupSpecs") or ()
        return range(1 + sum(bounded.integer(group.get("replicas")) for group in groups))

    def templates(self, item: Object) -> Sequence[Object]:
        """Return the pod templates of the head and the workers."""
        cluster = item["spec"]["rayClusterConfig"]
        groups = cluster.get("workerGroupSpecs") or ()
        return (cluster["headGroupSpec"]["template"], *(group["template"] for group in groups))

    def pod_counts(self, item: Object) -> Sequence[int]:
        """Return the number of heads, which is one, and of workers."""
        return (1, len(self.ranks(item)) - 1)
