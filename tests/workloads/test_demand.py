"""What workloads ask of quotas: which pods run together, and which wait."""

from fractions import Fraction
from typing import Any

import pytest
from msgspec.structs import replace

from kubectl_sky.plan.plan import Plan
from kubectl_sky.plan.quota import Demand
from kubectl_sky.render import manifests
from kubectl_sky.spec.kubernetes import Kubernetes
from kubectl_sky.spec.task import Task
from kubectl_sky.workloads.demand import demand
from tests.builders import make_plan


def demand_of(plan: Plan) -> Demand:
    rendered = manifests.render(plan)
    workloads = [manifest.object for manifest in rendered.workload]
    return demand(workloads, [manifest.object for manifest in rendered.auxiliary])


@pytest.mark.parametrize(
    ("queue", "suspended", "starts_now"),
    [(None, False, True), ("gold", False, False), (None, True, False)],
)
def test_task_that_waits_for_a_queue_or_a_stage_does_not_start_now(
    queue: str | None, suspended: bool, starts_now: bool
) -> None:
    plan = make_plan(Task(run="x", kubernetes=Kubernetes(queue=queue)))
    (step,) = demand_of(replace(plan, suspended=suspended)).steps
    assert step.starts_now is starts_now


@pytest.mark.parametrize(
    ("backend", "jobs"), [("jobs", 3), ("indexed", 1), ("jobset", 1), ("mpijob", 1)]
)
def test_every_backend_asks_for_the_pods_of_all_nodes(backend: str, jobs: int) -> None:
    asked = demand_of(make_plan(Task(run="x", num_nodes=3, backend=backend)))
    (step,) = asked.steps
    assert sum(pods.count for pods in step.pods) == 3
    assert asked.objects["count/pods"] == 3
    assert asked.objects["count/jobs.batch"] == jobs
    assert asked.objects["configmaps"] == 1


@pytest.mark.parametrize("backend", ["appwrapper", "volcano"])
def test_wrapped_and_gang_scheduled_pods_count(backend: str) -> None:
    asked = demand_of(make_plan(Task(run="x", num_nodes=2, backend=backend)))
    assert sum(pods.count for step in asked.steps for pods in step.pods) == 2


@pytest.mark.parametrize("storage_class", ["fast", ""])
def test_pvc_counts_its_size_for_all_and_for_its_class(storage_class: str) -> None:
    spec = {"storageClassName": storage_class, "resources": {"requests": {"storage": "1Gi"}}}
    counts = {"persistentvolumeclaims": 1, "requests.storage": 2**30}
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "spec": spec}
    of_class = {f"fast.storageclass.storage.k8s.io/{name}": size for name, size in counts.items()}
    asked = demand([], [claim])
    assert [dict(sizes) for sizes in asked.claims] == [{"storage": Fraction(2**30)}]
    assert asked.objects == {"count/persistentvolumeclaims": 1} | counts | (
        of_class if storage_class else {}
    )


@pytest.mark.parametrize(
    ("spec", "node_ports"),
    [
        ({"type": "NodePort"}, 3),
        ({"type": "LoadBalancer"}, 3),
        ({"type": "LoadBalancer", "allocateLoadBalancerNodePorts": False}, 1),
        ({"type": "ClusterIP"}, 0),
    ],
)
def test_service_with_several_ports_counts_node_ports(
    spec: dict[str, Any], node_ports: int
) -> None:
    ports = [{"port": 80, "nodePort": 30080}, {"port": 81}, {"port": 82}]
    service = {"apiVersion": "v1", "kind": "Service", "spec": {"ports": ports, **spec}}
    asked = demand([], [service]).objects
    assert asked["services"] == asked["count/services"] == 1
    assert asked.get("services.nodeports", 0) == node_ports
    assert asked.get("services.loadbalancers", 0) == (spec["type"] == "LoadBalancer")
