"""The GPUs that pods request."""

from typing import Any

from kubectl_sky.observe import evidence, status
from kubectl_sky.plan.resources import Gpus, gpus_of
from tests.builders import CREATED, make_job, make_pod, terminated
from tests.reading import read_jobs, read_pod, read_pods

Json = dict[str, Any]
GPU = "nvidia.com/gpu"
LABELS = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}


def holding(pod: Json, count: int = 2, resource: str = GPU) -> Json:
    """Let a pod request GPUs."""
    container = {"name": "main", "resources": {"limits": {resource: str(count)}}}
    pod["spec"]["containers"] = [container, {"name": "sidecar"}]
    pod["status"]["startTime"] = CREATED
    return pod


def test_gpus_without_labels_of_cluster_node_are_those_requested() -> None:
    pod = holding(make_pod())
    assert gpus_of(read_pod(pod).spec) == Gpus(2, "nvidia.com/gpu")
    rule = {"key": "nvidia.com/gpu.product", "operator": "In", "values": ["NVIDIA-L4", "x"]}
    other = {"key": "nvidia.com/gpu.product", "operator": "NotIn", "values": ["Tesla-T4"]}
    terms = [{"matchExpressions": [other, rule]}, {"matchFields": []}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    pod["spec"]["affinity"] = {"nodeAffinity": required}
    assert gpus_of(read_pod(pod).spec) == Gpus(2, "L4")
    pod["spec"]["nodeSelector"] = {"cloud.google.com/gke-accelerator": "nvidia-tesla-t4"}
    assert gpus_of(read_pod(pod).spec) in (Gpus(2, "L4"), Gpus(2, "T4"))
    assert gpus_of(read_pod(pod).spec, LABELS) == Gpus(2, "A100-80GB")
    assert gpus_of(read_pod(holding(make_pod(), 4, "amd.com/gpu")).spec) == Gpus(4, "amd.com/gpu")


def test_gpus_of_pod_with_null_resources_are_those_of_other_containers() -> None:
    pod = make_pod()
    empty = [{"name": "a", "resources": None}, {"name": "b", "resources": {"limits": None}}]
    pod["spec"]["containers"] = empty
    assert gpus_of(read_pod(pod).spec) is None
    pod["spec"]["containers"] = [*empty, {"name": "c", "resources": {"requests": {GPU: "2"}}}]
    assert gpus_of(read_pod(pod).spec) == Gpus(2, GPU)


def test_evidence_of_failed_pod_has_its_gpus() -> None:
    pod = holding(make_pod(phase="Failed", state=terminated(1)))
    (task,) = status.tasks(read_jobs([make_job(end="Failed")]), read_pods([pod]))
    (death,) = evidence.deaths(task, read_pods([pod]))
    assert (death.gpus, death.gpu, death.started_at) == (2, GPU, CREATED)
