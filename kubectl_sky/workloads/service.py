"""Service backend: a Deployment whose replicas each run the task, behind a Service."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from kubectl_sky.plan.plan import Node, Plan
from kubectl_sky.spec.service import REPLICA
from kubectl_sky.words import bounded, kinds, names
from kubectl_sky.workloads.workload import Object, PhaseDetails, Workload, node_index, waiting

_NONE: Mapping[str, str] = MappingProxyType({})


class Service(Workload):
    """A rank is the number of a replica, as `serve status` counts them."""

    name = "service"
    kind = kinds.DEPLOYMENT
    template = "deployment.yaml.j2"
    rank0_selector = _NONE  # the Service leads to all replicas
    selectable = False
    independent_nodes = True

    def adapted(self, plan: Plan) -> Plan:
        """Name the objects that all versions share after the service.

        Its pods lack the label of tasks, so that no command takes them for a task's.
        """
        assert plan.serving
        service = {names.SERVICE: plan.serving.name}
        return replace(
            plan,
            labels={**plan.labels, **service},
            selector=service,
            env={key: value for key, value in plan.env.items() if key != REPLICA},
            ports=plan.ports and replace(plan.ports, service=plan.serving.name),
        )

    def pods(self, plan: Plan) -> tuple[Node, ...]:
        """Return one Deployment for all replicas."""
        assert plan.serving
        labels = {key: value for key, value in plan.labels.items() if key != names.TASK}
        return (
            Node(
                index=0,
                job=plan.serving.name,
                labels=labels,
                env_from_fields={REPLICA: "metadata.name"},
            ),
        )

    def node(self, item: Object, rank: int) -> PhaseDetails:
        """A replica never ends."""
        return waiting(item)

    def ranks(self, item: Object) -> Sequence[int]:
        """Return the numbers of the replicas that the Deployment asks for."""
        return range(bounded.integer(item.get("spec", {}).get("replicas")))

    def rank(self, pod: Object) -> int:
        """Return the number that `serve status` gives to the pod."""
        return node_index(pod)

    def title(self, rank: int) -> str:
        """Return the display name of a replica."""
        return f"replica-{rank}"
