"""What clusters say that could not be brought to say it here, and what has to come of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from kubectl_sky.observe import ownership, status
from kubectl_sky.observe.nodes import State
from kubectl_sky.observe.ranks import RankActivity
from kubectl_sky.observe.reasons import NODE_LOST, TERMINATING, WAITING_FOR_FILES, WAITING_FOR_NODES
from kubectl_sky.observe.rules import RULES
from kubectl_sky.observe.signals import SignalSource, TaskSnapshot
from kubectl_sky.words import age
from tests.builders import (
    CREATED,
    ID,
    condition,
    make_job,
    make_pod,
    make_pod_group,
    make_ray_head,
    make_service,
    make_whole,
    terminated,
)
from tests.reading import read_jobs, read_metadata, read_objects, read_pods

Json = dict[str, Any]


@dataclass(frozen=True)
class Said:
    """What a cluster says that could not be brought to say it here, and what has to come of it."""

    rule: str
    message: str
    says: str
    reason: str = "Any"

    @property
    def source(self) -> SignalSource:
        return next(rule.source for rule in RULES if rule.name == self.rule)


_PULL = (
    'Back-off pulling image "reg/a:1": ErrImagePull: failed to pull and unpack image "reg/a:1": '
)
_POD = "0/3 nodes are available: 1 Insufficient cpu, "
SAID = (
    Said("rank-silent", "", "rank 1 has printed nothing for 60m; the other 2 print every second"),
    Said("held", "", "its failed container is held until 2026-01-01T00:30:00Z"),
    Said("queue-missing", "LocalQueue gold doesn't exist", 'queue "gold" not found'),
    Said("cluster-queue-missing", "ClusterQueue big doesn't exist", 'ClusterQueue "big"'),
    Said("queue-stopped", "ClusterQueue big is inactive", 'ClusterQueue "big" is'),
    Said(
        "queue-never",
        "couldn't assign flavors to pod set main: insufficient quota for cpu in flavor default,"
        " previously considered podsets requests (0) + current podset request (8)"
        " > maximum capacity (4)",
        "more cpu than the queue can ever admit: requested 8, at most 4",
    ),
    Said(
        "queue-full",
        "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor"
        " default, 2 more needed",
        "2 more cpu needed",
    ),
    Said("queue-preempts", "Pending the preemption of 1 workload(s)", "is preempting"),
    Said("queue-checks", "The workload has AdmissionCheck pending", "check"),
    Said("queue-waits", "waiting for all pods to be ready", "has not admitted"),
    Said(
        "queue-preempted",
        "Preempted to accommodate a workload (UID: 1-2, JobUID: 3-4) due to prioritization in the"
        " ClusterQueue; preemptor path: /all; preemptee path: /all",
        "the queue preempted the task: prioritization in the ClusterQueue; preemptor",
        "Preempted",
    ),
    Said("gang-queued", "quota", "gold has not admitted the task: quota", "Pending"),
    Said("gang-waits", "2/3 fit", "1 node start together: 2/3 fit", "Inqueue"),
    Said("gang-unseen", "", "no Volcano scheduler has handled it", ""),
    Said(
        "webhook-denied",
        'Error creating: admission webhook "a.example.com" denied the request: no latest tags',
        'webhook "a.example.com" denied the pod: no latest tags',
    ),
    Said(
        "webhook-broken",
        'Error creating: Internal error occurred: failed calling webhook "a.example.com": failed'
        ' to call webhook: Post "https://a.default.svc:443/": connection refused',
        'webhook "a.example.com" failed',
    ),
    Said(
        "policy-denied",
        "Error creating: pods \"x\" is forbidden: ValidatingAdmissionPolicy 'sizes' with binding"
        " 'b' denied request: name your team",
        'policy "sizes" denied the pod: name your team',
    ),
    Said(
        "namespace-ending",
        'pods "x" is forbidden: unable to create new content in namespace a because it is being'
        " terminated",
        "is being deleted",
    ),
    Said("pods-refused", "who knows", "who knows", "FailedCreate"),
    Said("too-many-pods", _POD + "2 Too many pods.", "2/3 cluster nodes have reached"),
    Said(
        "not-ready",
        _POD + "2 node(s) had untolerated taint {node.kubernetes.io/not-ready: }.",
        "2/3 cluster nodes are not ready",
    ),
    Said(
        "tainted",
        _POD + "2 node(s) had untolerated taint(s). preemption: 0/3 nodes are available:",
        "2/3 cluster nodes have taints",
    ),
    Said("cordoned", _POD + "2 node(s) were unschedulable.", "2/3 cluster nodes are"),
    Said("volume-count", _POD + "2 node(s) exceed max volume count.", "maximum number of volumes"),
    Said(
        "volume-exclusive",
        _POD + "2 node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod"
        " access mode.",
        "used by another pod",
    ),
    Said(
        "claim-ending",
        '0/3 nodes are available: persistentvolumeclaim "data" is being deleted.',
        'PVC "data" is being deleted',
    ),
    Said(
        "claim-unbound",
        "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims.",
        "is not bound yet",
    ),
    Said(
        "resource-claim",
        '0/3 nodes are available: waiting for resourceclaim "gpu" to be created.',
        "a ResourceClaim",
    ),
    Said("no-cluster-nodes", "no nodes available to schedule pods", "no nodes that run pods"),
    Said("unschedulable", _POD + "2 node(s) of the moon.", "node(s) of the moon"),
    Said("preempted", "preempting", "higher priority", "PreemptionByScheduler"),
    Said(
        "waits-for-consumer",
        "waiting for first consumer to be created",
        "is bound when a pod is scheduled",
    ),
    Said(
        "provisioner-silent",
        "Waiting for a volume to be created either by the external provisioner 'x'",
        'no storage is provisioned for PVC "data"',
    ),
    Said("claim-lost", "", 'PVC "data" has lost', "ClaimLost"),
    Said("provisioning-failed", "quota", 'PVC "data" failed: quota', "ProvisioningFailed"),
    Said("claim-pending", "hm", "is not bound: Any hm"),
    Said(
        "multi-attach",
        'Multi-Attach error for volume "pvc-1" Volume is already exclusively attached to one node',
        "another cluster node",
        "FailedAttachVolume",
    ),
    Said(
        "image-rate",
        _PULL + "429 Too Many Requests: toomanyrequests: You have reached your pull rate limit",
        'rate limit reached for image "reg/a:1"',
        "ImagePullBackOff",
    ),
    Said(
        "image-access",
        _PULL + "pull access denied, repository does not exist or may require authorization",
        'no permission to pull image "reg/a:1"',
        "ImagePullBackOff",
    ),
    Said(
        "image-missing", _PULL + "reg/a:1: not found", 'image "reg/a:1" not found', "ErrImagePull"
    ),
    Said(
        "image-platform",
        _PULL + "no match for platform in manifest",
        "CPU architecture",
        "ErrImagePull",
    ),
    Said("image-space", _PULL + "no space left on device", "full", "ErrImagePull"),
    Said("image-failed", _PULL + "odd", 'pulling image "reg/a:1" failed', "ImagePullBackOff"),
    Said("container-refused", "odd", "cannot start: odd", "CreateContainerError"),
    Said(
        "shell-missing",
        'runc create failed: exec: "/bin/sh": stat /bin/sh: no such file or directory: unknown',
        "the image has no shell",
        "StartError",
    ),
    Said("program-format", "exec format error", "CPU architecture", "StartError"),
    Said("start-failed", "odd", "cannot start: odd", "StartError"),
    Said("sandbox-failed", "cni", "sandbox or network", "FailedCreatePodSandBox"),
    Said(
        "hung",
        "hung: rank 1 has been in load (a.py:3) for 10m",
        "killed by on_hang: rank 1",
        "Error",
    ),
    Said(
        "nodes-missing",
        "gave up waiting for the other nodes: rank 1 has no address",
        "timeout while waiting for the other nodes: rank 1",
        "Error",
    ),
    Said(
        "upload-timeout",
        "upload of the files for ~/sky_workdir timed out after 300 s: no client connected",
        "upload of the files for ~/sky_workdir timed out after 300 s",
        "Error",
    ),
    Said(
        "bash-missing",
        "the image has no bash, and run uses [[ on line 3",
        "no bash, and run uses [[ on line 3",
        "Error 1",
    ),
    Said(
        "ray-missing",
        "Ray is not installed: install it in setup, such as with: pip install 'ray[default]'",
        "Ray is not installed",
        "Error 1",
    ),
    Said("ray-head-killed", "", "memory limit is 1Gi", "OOMKilled 137"),
    Said("ray-head-slow", "", "CPU limit of 300m", "Unhealthy"),
    Said("not-ready-in-time", "", "not ready within 30 seconds", "startup"),
    Said("not-alive", "", "its probe failed for longer than 30 seconds", "liveness"),
    Said(
        "setup-command-missing",
        "/etc/kubectl-sky/setup.sh: line 1: conda: command not found\ngoes on",
        "setup went on without a command: conda: not found",
    ),
    Said(
        "module-part-missing",
        "ModuleNotFoundError: No module named 'pkg.lib'",
        'Python module "pkg.lib" not found',
    ),
    Said(
        "gpu-failed",
        "NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.",
        "a GPU or its driver failed: Xid (PCI:0000:3b:00): 79",
    ),
    Said("service-ended", "", "its run ends with exit code 0", "Completed 0"),
    Said("process-out-of-memory", "", "one of its processes", "OOMKilled 0"),
    Said(
        "evicted-disk",
        "The node was low on resource: ephemeral-storage. Threshold quantity: 1Gi.",
        "local disk",
        "Evicted",
    ),
    Said(
        "evicted-memory",
        "The node was low on resource: memory. Threshold quantity: 100Mi",
        "low on memory",
        "Evicted",
    ),
    Said("evicted", "drained", "evicted from its cluster node", "EvictionByEvictionAPI"),
    Said("cluster-node-tainted", "taint", "its cluster node was tainted", "NodeTainted"),
    Said("cluster-node-lost", "gone", "its cluster node was lost", "DeletionByTaintManager"),
    Said("pod-deadline", "late", "activeDeadlineSeconds of its pod", "DeadlineExceeded"),
    Said("disk-full", "OSError: [Errno 28] No space left on device", "no space left on device"),
    Said("peers-lost", "torch: NCCL timeout after 600 s", "lost the connection to other nodes"),
    Said("killed", "", "killed: exit code 143 (SIGTERM: terminated)", "Error 143"),
    Said("job-not-found", "", "its Job was deleted or lost its labels"),
    Said("pod-deleted", "", "its pod was deleted"),
    Said("no-address-of-nodes", "node-1 (no address)", "waits to meet node-1 (no address)"),
    Said("no-connection-to-nodes", "node-2 (no connection)", "node-2 (no connection)"),
    Said("node-0-runs-already", "node-0 (connection refused)", "node-0 (connection refused)"),
    Said("meets-nobody", "", "it waits for node-1, which has completed"),
    Said("cluster-node-silent", "", "its cluster node worker-1 does not respond"),
    Said("pod-not-found", "", "its pod is gone; the cause is not known"),
    Said("pods-stopped", "", "which node failed first is not known"),
    Said("cluster-node-not-ready", "", "worker-1 is not ready", "NodeNotReady"),
    Said("pod-terminating", "", "its pod is being deleted"),
    Said("pod-on-lost-node", "", "being deleted, but cluster node worker-1 does not respond"),
    Said("being-deleted", "", "deleting since 2026-01-01T00:05:00Z: waits for finalizer x/stuck"),
    Said("waits-for-files", "", "waits for files"),
    Said("not-submitted", "", "incomplete: 1 of 2 nodes submitted; submit was"),
    Said("nodes-not-found", "", "incomplete: 1 of 2 nodes found; the Jobs"),
    Said("waits-for-nodes", "", "wait for node-1"),
)


def make_snapshot(said: Said) -> TaskSnapshot:
    """Return a task of one node (of two for the barrier) of which this is said."""
    build = _OF_RULES.get(said.rule) or _OF_SOURCES[said.source]
    return build(said)


def _task(**items: list[Json]) -> TaskSnapshot:
    """Return what was read of a task of one node: its Job, unless given, and these objects."""
    found = {"Job": [make_job()], **items}
    return TaskSnapshot(ID, "default", read_objects(found))


def _words(said: Said) -> Json:
    return {"reason": said.reason, "message": said.message}


def _event(name: str, said: Said) -> list[Json]:
    return [{"type": "Warning", "involvedObject": {"name": name}, **_words(said)}]


def _silent_rank(said: Said) -> TaskSnapshot:
    noon = "2026-01-01T12:00:00Z"
    one = "2026-01-01T13:00:00Z"
    times = (one, noon, one)
    activity = tuple(RankActivity(rank, 0, time, "step", 1, 10) for rank, time in enumerate(times))
    return TaskSnapshot(ID, "default", {}, now=age.parse(one), activity=activity)


def _log(said: Said) -> TaskSnapshot:
    pod = make_pod(phase="Failed", state=terminated(1))
    return replace(_task(Pod=[pod]), logs={0: ("...", said.message)})


def _two_nodes(jobs: list[Json], pods: list[Json], services: list[Json]) -> TaskSnapshot:
    tasks = ownership.decide(read_jobs(jobs), read_pods(pods))
    owned = ownership.explain(tasks, read_metadata(services))
    (task,) = status.fold(owned)
    return replace(_task(Job=jobs), task=task)


def _second_without_job(*services: Json) -> TaskSnapshot:
    return _two_nodes([make_job(0, 2)], [], list(services))


def _second_without_pod(*pods: Json) -> TaskSnapshot:
    return _two_nodes([make_job(0, 2), make_job(1, 2, "Failed")], list(pods), [])


def _deleted_pod() -> Json:
    pod = make_pod(1, "Failed")
    pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:05:00Z"
    return pod


def _node(**fields: Any) -> TaskSnapshot:
    """Return a task whose only node has these fields."""
    snapshot = _second_without_job()
    assert snapshot.task
    node = replace(snapshot.task.nodes[0], **fields)
    return replace(snapshot, task=replace(snapshot.task, nodes=(node,), num_nodes=1))


def _started_late(said: Said) -> TaskSnapshot:
    running = make_pod(0, state={"running": {"startedAt": "2026-01-01T00:08:00Z"}})
    completed = make_pod(1, "Succeeded", terminated(0))
    return _task(Job=[make_job(0, 2), make_job(1, 2, "Complete")], Pod=[running, completed])


def _waits_to_meet(said: Said) -> TaskSnapshot:
    return _node(pod="a", reason=WAITING_FOR_NODES, message=said.message)


def _finalized(said: Said) -> TaskSnapshot:
    job = make_job(0, 2)
    job["metadata"] |= {"deletionTimestamp": "2026-01-01T00:05:00Z", "finalizers": ["x/stuck"]}
    return _task(Job=[job])


def _whole(said: Said) -> TaskSnapshot:
    return _task(Job=[make_whole(2, conditions=[condition("Failed", "BackoffLimitExceeded")])])


def _workload(said: Said, kind: str, value: str) -> TaskSnapshot:
    metadata = {"ownerReferences": [{"uid": make_job()["metadata"]["uid"]}]}
    stated = {"type": kind, "status": value, **_words(said)}
    return _task(Workload=[{"metadata": metadata, "status": {"conditions": [stated]}}])


def _scheduler(said: Said) -> TaskSnapshot:
    refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    return _task(Pod=[make_pod(phase="Pending", conditions=[refused | {"message": said.message}])])


def _pod_event(said: Said) -> TaskSnapshot:
    pod = make_pod(phase="Pending", conditions=[{"type": "Initialized", "status": "True"}])
    return _task(Pod=[pod], Event=_event(pod["metadata"]["name"], said))


def _unknown_cluster_node(said: Said) -> TaskSnapshot:
    pod = make_pod(phase="Pending", conditions=[{"type": "Initialized", "status": "True"}])
    unknown = {"type": "Ready", "status": "Unknown"}
    node = {"metadata": {"name": "worker-1"}, "status": {"conditions": [unknown]}}
    return _task(Pod=[pod], Node=[node])


def _claim(said: Said) -> TaskSnapshot:
    claim = {"metadata": {"name": "data"}, "status": {"phase": "Pending"}}
    return _task(PersistentVolumeClaim=[claim], Event=_event("data", said))


def _ended_pod(said: Said) -> Json:
    reason, _, code = said.reason.partition(" ")
    state = terminated(int(code or 1), reason)
    state["terminated"]["message"] = said.message
    return make_pod(phase="Failed", state=state)


def _restarting(said: Said) -> TaskSnapshot:
    pod = _ended_pod(said)
    container = pod["status"]["containerStatuses"][1]
    waiting = {"waiting": {"reason": "CrashLoopBackOff"}}
    container |= {"state": waiting, "lastState": container["state"]}
    return _task(Pod=[pod])


def _ray_head(said: Said) -> TaskSnapshot:
    last = terminated(137, "OOMKilled") if said.reason.startswith("OOM") else {}
    running = {"running": {"startedAt": CREATED}}
    pod, event = make_ray_head(running, last, {"cpu": "300m", "memory": "1Gi"})
    return _task(Pod=[pod], Event=[event])


def _probe(said: Said) -> TaskSnapshot:
    pod = make_pod(phase="Failed", state=terminated(137))
    pod["spec"]["containers"] = [{"name": "main"}]
    words = {"reason": "Killing", "message": f"Container main failed {said.reason} probe"}
    about = {"name": pod["metadata"]["name"]}
    return _task(Pod=[pod], Event=[{"type": "Normal", "involvedObject": about, **words}])


Build = Callable[[Said], TaskSnapshot]
_LOST = "cluster node worker-1 does not respond"
_OF_RULES: Mapping[str, Build] = {
    "being-deleted": _finalized,
    "cluster-node-not-ready": _unknown_cluster_node,
    "cluster-node-silent": lambda said: _node(state=State.RUNNING, reason=NODE_LOST, message=_LOST),
    "held": lambda said: _node(
        state=State.FAILED, exit_code=7, pod="a", held_until="2026-01-01T00:30:00Z"
    ),
    "job-not-found": lambda said: _second_without_job(make_service(make_job(0, 2))),
    "meets-nobody": _started_late,
    "no-address-of-nodes": _waits_to_meet,
    "no-connection-to-nodes": _waits_to_meet,
    "node-0-runs-already": _waits_to_meet,
    "not-submitted": lambda said: _second_without_job(make_service()),
    "pod-deleted": lambda said: _second_without_pod(_deleted_pod()),
    "pod-not-found": lambda said: _second_without_pod(),
    "pod-on-lost-node": lambda said: _node(state=State.RUNNING, reason=TERMINATING, message=_LOST),
    "pod-terminating": lambda said: _node(state=State.RUNNING, reason=TERMINATING, message=""),
    "pods-stopped": _whole,
    "queue-preempted": lambda said: _workload(said, "Preempted", "True"),
    "service-ended": _restarting,
    "waits-for-files": lambda said: _node(
        pod="a", reason=WAITING_FOR_FILES, message="submit again"
    ),
}
_OF_SOURCES: Mapping[SignalSource, Build] = {
    SignalSource.QUEUE: lambda said: _workload(said, "QuotaReserved", "False"),
    SignalSource.GANG: lambda said: _task(PodGroup=[make_pod_group(said.reason, said.message)]),
    SignalSource.WORKLOAD: lambda said: _task(),
    SignalSource.INIT_ENDED: lambda said: _task(),
    SignalSource.WORKLOAD_EVENT: lambda said: _task(
        Event=_event(make_job()["metadata"]["name"], said)
    ),
    SignalSource.SCHEDULER: _scheduler,
    SignalSource.POD: lambda said: _task(Pod=[make_pod(phase="Failed", **_words(said))]),
    SignalSource.POD_EVENT: _pod_event,
    SignalSource.CLAIM: _claim,
    SignalSource.WAITING: lambda said: _task(
        Pod=[make_pod(phase="Pending", state={"waiting": _words(said)})]
    ),
    SignalSource.ENDED: lambda said: _task(Pod=[_ended_pod(said)]),
    SignalSource.PROBE: _probe,
    SignalSource.RAY_HEAD: _ray_head,
    SignalSource.NODE: lambda said: _second_without_job(),
    SignalSource.RANKS: _silent_rank,
    SignalSource.LOG: _log,
    SignalSource.BARRIER: lambda said: _task(
        Job=[make_job(0, 2), make_job(1, 2)], Pod=[make_pod(state={"running": {}})]
    ),
}
