"""Tasks, plans and the objects of a cluster, valid by default; name only what a test is about."""

from typing import Any

from kubectl_sky.plan.placement import choose_placement
from kubectl_sky.plan.plan import Plan
from kubectl_sky.plan.resolve import notes, resolve
from kubectl_sky.spec.task import Resources, Task
from kubectl_sky.words.facts import ClusterNode, ExistingPvc, Facts
from kubectl_sky.words.owners import User
from kubectl_sky.words.settings import Settings
from kubectl_sky.workloads import registry

Json = dict[str, Any]

ID = "bcdf2345"
LABELS = {
    "product": "nvidia.com/gpu.product",
    "gke": "cloud.google.com/gke-accelerator",
    "sky": "skypilot.co/accelerator",
    "tpu": "cloud.google.com/gke-tpu-accelerator",
    "topology": "cloud.google.com/gke-tpu-topology",
    "spot": "cloud.google.com/gke-spot",
}
CREATED = "2026-01-01T00:00:00Z"
FACTS = Facts(User("alice@example.com"), "team-a", {"data": ExistingPvc("data-vvvv2345")})


def make_plan(
    task: Task | None = None,
    facts: Facts = FACTS,
    settings: Settings | None = None,
    task_id: str = "bcdf2345",
) -> Plan:
    task = task or make_task()
    plan = resolve(task, task_id, choose_placement(task, facts), facts, settings or Settings())
    return registry.find(plan.backend).adapted(plan, task, facts)


def make_notes(
    task: Task, facts: Facts = FACTS, settings: Settings | None = None
) -> tuple[str, ...]:
    return tuple(notes(task, choose_placement(task, facts), facts, settings or Settings()))


def make_task(nodes: int = 1, resources: Resources | None = None, run: str = "true") -> Task:
    return Task(name="train", num_nodes=nodes, resources=resources or Resources(), run=run)


def make_metadata(
    name: str, node: int | None = None, task_id: str = ID, user: str = "alice", nodes: int = 1
) -> Json:
    labels = {"skypilot-task": "true", "task-id": task_id, "task-name": "train", "username": user}
    if node is not None:
        labels["node-idx"] = str(node)

    return {
        "name": name,
        "namespace": "default",
        "uid": f"uid-{name}",
        "creationTimestamp": CREATED,
        "labels": labels,
        "annotations": {
            "kubectl-sky/name": "train",
            "kubectl-sky/user": user,
            "kubectl-sky/num-nodes": str(nodes),
        },
    }


def make_job(node: int = 0, nodes: int = 1, end: str = "", **more: Any) -> Json:
    """A Job of a task; `end` is the type of its final condition: Complete or Failed."""
    metadata = make_metadata(f"train-{ID}-node-{node}", node, nodes=nodes, **more)
    conditions = [
        {"type": "FailureTarget", "status": "False"},
        {
            "type": end,
            "status": "True",
            "reason": "BackoffLimitExceeded" if end == "Failed" else "CompletionsReached",
            "message": "Job has reached the specified backoff limit",
            "lastTransitionTime": "2026-01-01T00:09:00Z",
        },
    ]

    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata,
        "spec": {},
        "status": {"conditions": conditions if end else [], "startTime": CREATED},
    }


def make_controller(name: str) -> list[Json]:
    """The reference of a pod to the Job of this name, which makes it."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": f"uid-{name}"}
    return [owner | {"controller": True, "blockOwnerDeletion": True}]


def make_pod(
    node: int = 0, phase: str = "Running", state: Json | None = None, **status: Any
) -> Json:
    """A pod of a task; `state` is its container's, such as `{"running": {}}`."""
    metadata = make_metadata(f"train-{ID}-node-{node}-x", node)
    metadata["ownerReferences"] = make_controller(f"train-{ID}-node-{node}")
    statuses = [{"name": "sidecar", "state": {"running": {}}}, {"name": "main", "state": state}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"nodeName": "worker-1"},
        "status": {"phase": phase, **status, "containerStatuses": statuses if state else []},
    }


def make_ray_head(state: Json, last: Json, limits: Json) -> tuple[Json, Json]:
    """The head of a Ray cluster that is not ready, and its probe's event two minutes later."""
    pod = make_pod(state=state, conditions=[{"type": "Ready", "status": "False"}])
    pod["metadata"]["labels"]["ray.io/node-type"] = "head"
    pod["spec"]["containers"] = [{"name": "main", "resources": {"limits": limits}}]
    pod["status"]["containerStatuses"][1] |= {"ready": False, "lastState": last}
    event = {
        "involvedObject": {"name": pod["metadata"]["name"]},
        "type": "Warning",
        "reason": "Unhealthy",
        "message": "Readiness probe failed: command timed out",
        "lastTimestamp": "2026-01-01T00:02:00Z",
    }
    return pod, event


def make_machine(gpus: int = 8, resource: str = "nvidia.com/gpu", **labels: str) -> ClusterNode:
    """A node as a plan sees it; the labels are short names of the keys in LABELS."""
    sizes = {"cpu": "16", "memory": "64Gi"} | ({resource: str(gpus)} if gpus else {})
    return ClusterNode({LABELS[name]: value for name, value in labels.items()}, sizes)


def terminated(code: int, reason: str = "", at: str = "2026-01-01T00:05:00Z") -> Json:
    """State of a container that has ended."""
    reason = reason or ("Error" if code else "Completed")
    return {"terminated": {"exitCode": code, "reason": reason, "finishedAt": at}}


def make_whole(nodes: int = 3, backend: str = "indexed", **status: Any) -> Json:
    """One Indexed Job for all nodes of a task."""
    metadata = make_metadata(f"train-{ID}", nodes=nodes)
    metadata["annotations"]["kubectl-sky/backend"] = backend
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata,
        "spec": {"completions": nodes, "parallelism": nodes, "completionMode": "Indexed"},
        "status": {"startTime": CREATED, **status},
    }


def make_indexed_pod(index: int, phase: str = "Running", state: Json | None = None) -> Json:
    """The pod of an index."""
    pod = make_pod(0, phase, state)
    key = "batch.kubernetes.io/job-completion-index"
    pod["metadata"] |= make_metadata(f"train-{ID}-{index}-x")
    pod["metadata"]["ownerReferences"] = make_controller(f"train-{ID}")
    pod["metadata"]["labels"][key] = str(index)
    pod["metadata"]["annotations"][key] = str(index)
    return pod


def make_service(*owners: Json) -> Json:
    """The Service of a task, owned by these objects once submit has finished."""
    metadata = make_metadata(f"train-{ID}")
    if owners:
        metadata["ownerReferences"] = [{"uid": owner["metadata"]["uid"]} for owner in owners]
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata}


def condition(kind: str, reason: str = "", status: str = "True") -> Json:
    """A condition of an object."""
    at = "2026-01-01T00:09:00Z"
    return {"type": kind, "status": status, "reason": reason, "lastTransitionTime": at}


def make_silent(pod: Json, host: str, since: str) -> Json:
    """A pod of which the node controller has said since then that its kubelet does not respond."""
    ready = condition("Ready", status="False") | {"lastTransitionTime": since}
    conditions = [condition("ContainersReady"), ready]
    status = pod["status"] | {"conditions": conditions}
    return pod | {"spec": pod["spec"] | {"nodeName": host}, "status": status}


def make_pod_group(phase: str = "", *messages: str) -> Json:
    """A PodGroup of Volcano; the messages say why it cannot be scheduled, the oldest first."""
    conditions = [
        {
            "type": "Unschedulable",
            "status": "True",
            "reason": "NotEnoughResources",
            "message": message,
            "lastTransitionTime": f"2026-01-01T00:0{minute}:00Z",
        }
        for minute, message in enumerate(messages)
    ]
    status = {"phase": phase, "conditions": conditions} if phase else {}
    return {"metadata": {"name": "train-x"}, "spec": {"queue": "gold"}, "status": status}
