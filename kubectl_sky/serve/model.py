"""Compute the status of a service from its Deployment, its pods and their events."""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Annotated

from msgspec import Struct, field
from msgspec.structs import replace

from kubectl_sky.observe import nodes
from kubectl_sky.observe.deletion import deletion_of
from kubectl_sky.observe.endpoints import combine
from kubectl_sky.observe.findings import Cause, Finding, diagnose
from kubectl_sky.observe.nodes import NodeStatus
from kubectl_sky.observe.ownership import controller
from kubectl_sky.observe.reasons import TERMINATING
from kubectl_sky.observe.rules import RULES
from kubectl_sky.observe.signals import TaskSnapshot
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.words import bounded, kinds, names
from kubectl_sky.words.core_objects import Event, Ingress, Node, Scaler
from kubectl_sky.words.core_objects import Service as ServiceAddress
from kubectl_sky.words.decoding import convert
from kubectl_sky.words.documents import Document, Note, always
from kubectl_sky.words.objects import NO_CONDITION, Object
from kubectl_sky.words.pod_objects import Pod
from kubectl_sky.words.task_objects import ObjectStatus, RayCluster, RayService, ServiceObject
from kubectl_sky.workloads import registry
from kubectl_sky.workloads.workload import condition

_REVISION = "deployment.kubernetes.io/revision"
_TOO_LATE = "ProgressDeadlineExceeded"
_MAX_CRASHES = 3  # of a replica that was not ready yet, then its version fails
_NOT_SCALED = "ScalingDisabled"  # of a service with 0 replicas


class ServiceState(StrEnum):
    """The state of a service.

    Degraded: replicas of the current version are not ready. Stopped: it has 0 replicas.
    """

    STARTING = "starting"
    UPDATING = "updating"
    READY = "ready"
    DEGRADED = "degraded"
    FAILED = "failed"
    STOPPED = "stopped"


class Replica(Struct, frozen=True):
    """A replica of a service."""

    number: Annotated[int, Note("for `serve logs --replica`")]
    pod: str
    version: int
    ready: bool
    restarts: int
    host: Annotated[str, Note("cluster node")]
    created_at: str
    reason: Annotated[str, Note("why it is not ready")] = ""


class ReplicaCounts(Struct, frozen=True):
    """How many replicas a service has."""

    wanted: int
    ready: Annotated[int, Note("of any version")]
    updated: Annotated[int, Note("of this version")]
    total: Annotated[int, Note("also those that start or stop")]
    most: Annotated[int | None, Note("the autoscaler's limit")]


class Service(Struct, frozen=True):
    """A service: `serve up|update|status NAME`."""

    name: str
    namespace: str
    username: str
    status: Annotated[str, Note(", ".join(f"`{state}`" for state in ServiceState))]
    created_at: str
    version: Annotated[int, Note("revision of the Deployment")]
    version_id: Annotated[str, Note("id of the version's objects")]
    replicas: ReplicaCounts
    endpoints: Annotated[Sequence[str], Note("`HOST:PORT`; those outside the cluster first")]
    message: Annotated[str, Note("why it is not ready; may be empty")]
    findings: Annotated[Sequence[Finding], Note("their `nodes` are numbers of replicas")]
    pods: Sequence[Replica]


class ServiceList(Document, frozen=True, kw_only=True):
    """Services, newest first: `serve status`, `GET /services`."""

    services: list[Service]


class ServicesDeleted(Document, frozen=True, kw_only=True):
    """Services that were deleted: `serve down`."""

    services: Annotated[Sequence[str], Note("their names")]
    status: Annotated[str, Note("`deleted`, or `deleting` while pods or Deployments exist")] = (
        always("deleted")
    )
    remaining: Annotated[list[str], Note("what still exists, and what keeps it")] = field(
        default_factory=list
    )


class ServiceStatus(Service, frozen=True):
    """A service as the cluster shows it, and what its text needs."""

    remark: str = ""  # what its deletion, its Deployment or its autoscaler says

    @property
    def document(self) -> Service:
        """What programs see of it."""
        return convert(self, Service)


class ServiceObjects(Struct, frozen=True):
    """The objects of a service, those of others excluded; None and empty if not found."""

    deployment: ServiceObject
    replica_sets: Sequence[ServiceObject]
    pods: Sequence[Pod]
    service: ServiceAddress | None = None
    autoscaler: Scaler | None = None
    ingress: Ingress | None = None
    events: Sequence[Event] = ()  # of the namespace
    cluster_nodes: Sequence[Node] = ()  # empty if they are not known


def own_pods(deployment: Object, replica_sets: Iterable[Object], pods: Iterable[Pod]) -> list[Pod]:
    """Return the pods that the Deployment controls, by uids, oldest first."""
    uid = deployment.metadata.uid
    ours = {item.metadata.uid for item in replica_sets if controller(item) == uid}
    pods = (pod for pod in pods if controller(pod) in ours)
    return sorted(pods, key=lambda pod: (pod.metadata.creation_timestamp, pod.metadata.name))


def status_of(objects: ServiceObjects) -> ServiceStatus:
    deployment = objects.deployment
    metadata = deployment.metadata
    version = _version(deployment)
    versions = {item.metadata.uid: _version(item) for item in objects.replica_sets}
    pods = own_pods(deployment, objects.replica_sets, objects.pods)
    task = _as_task(deployment, pods)
    findings = _findings(objects, pods, task)

    replicas = tuple(
        Replica(
            number=node.index,
            pod=node.pod,
            version=versions.get(controller(pod), 0),
            ready=nodes.is_ready(pod),
            restarts=nodes.container(pod).restart_count,
            host=node.host,
            created_at=pod.metadata.creation_timestamp,
            reason=_reason(node, pod, objects.events, findings),
        )
        for node, pod in zip(task.nodes, pods, strict=True)
    )

    autoscaler = objects.autoscaler
    failure = condition(deployment, "ReplicaFailure") or NO_CONDITION
    remark = str(task.deletion) or failure.message or _explain_autoscaler(autoscaler)
    if _is_ray(deployment):
        state = _ray_state(deployment)
        ready = sum(replica.ready for replica in replicas)
    else:
        state = _state(deployment, replicas)
        ready = deployment.status.ready_replicas

    most = autoscaler.spec.max_replicas if autoscaler else None
    counts = ReplicaCounts(
        wanted=len(registry.of(deployment).ranks(deployment)),
        ready=ready,
        updated=sum(replica.version == version for replica in replicas),
        total=len(replicas),
        most=most,
    )
    return ServiceStatus(
        name=metadata.name,
        namespace=metadata.namespace,
        username=task.user,
        status=state,
        created_at=task.created_at,
        version=version,
        version_id=version_id(deployment),
        replicas=counts,
        endpoints=_endpoints(objects, task, pods),
        message=_explain_newest(replicas, version) or remark,
        findings=findings,
        pods=replicas,
        remark=remark,
    )


def _explain_newest(replicas: Iterable[Replica], version: int) -> str:
    """Return why a replica of the newest version is not ready, in one line; empty if all are."""
    failing = (item for item in replicas if item.reason and item.version == version)
    first = next(failing, None)
    return f"{first.reason} ({first.pod})" if first else ""


def _explain_autoscaler(autoscaler: Scaler | None) -> str:
    """Return why the autoscaler cannot work, such as a cluster without metrics."""
    conditions = (autoscaler and autoscaler.status.conditions) or ()
    reasons = (
        item.reason or ""
        for item in conditions
        if (item.type, item.status) == ("ScalingActive", "False")
    )
    reason = next((text for text in reasons if text != _NOT_SCALED), "")
    return f"autoscaling inactive: {reason}" if reason else ""


def version_id(item: ServiceObject) -> str:
    """Return the id of the version that a Deployment, ReplicaSet, RayService or RayCluster runs."""
    head = item.spec.head_group_spec  # of a RayCluster
    if item.spec.ray_cluster_config:
        head = item.spec.ray_cluster_config.head_group_spec
    template = head.template if head else item.spec.template
    return template.metadata.labels.get(names.TASK_ID, "")


def _is_ray(item: ServiceObject) -> bool:
    return isinstance(item, RayService | RayCluster)


def _ray_state(item: ServiceObject) -> ServiceState:
    seen = bounded.integer(item.status.observed_generation, 2**63)
    if condition(item, "UpgradeInProgress") or seen < item.metadata.generation:
        return ServiceState.UPDATING if condition(item, "Ready") else ServiceState.STARTING
    return ServiceState.READY if condition(item, "Ready") else ServiceState.STARTING


def _version(item: ServiceObject) -> int:
    if _is_ray(item):  # KubeRay counts no versions
        return 1
    return bounded.integer(item.metadata.annotations.get(_REVISION))


def _state(deployment: ServiceObject, replicas: Sequence[Replica]) -> ServiceState:
    status = deployment.status
    total = status.replicas
    updated = status.updated_replicas
    ready = status.ready_replicas

    progress = "".join(
        item.reason
        for item in status.conditions
        if item.type == "Progressing"  # of any status: it is False when it is too late
    )

    if status.observed_generation >= deployment.metadata.generation:
        if progress == _TOO_LATE:
            return ServiceState.FAILED
        if updated == total == ready == deployment.spec.replicas:
            return ServiceState.READY if total else ServiceState.STOPPED
        if updated == total and progress == "NewReplicaSetAvailable":
            return ServiceState.DEGRADED
        newest = (item for item in replicas if item.version == _version(deployment))
        if any(not item.ready and item.restarts >= _MAX_CRASHES for item in newest):
            return ServiceState.FAILED
    return ServiceState.UPDATING if ready and _version(deployment) > 1 else ServiceState.STARTING


def _as_task(deployment: ServiceObject, pods: Sequence[Pod]) -> TaskStatus:
    """Return the replicas as the nodes of a task, which the rules of `doctor` explain."""
    metadata = deployment.metadata
    labels = metadata.labels
    annotations = metadata.annotations
    name = metadata.name

    return TaskStatus(
        id=name,
        name=annotations.get(names.ORIGINAL_NAME) or labels.get(names.TASK_NAME, name),
        namespace=metadata.namespace,
        user=annotations.get(names.ORIGINAL_USER) or labels.get(names.USERNAME, ""),
        created_at=metadata.creation_timestamp,
        updated_at="",
        nodes=tuple(
            nodes.of_pod(NodeStatus(number, f"replica-{number}", name), pod)
            for number, pod in enumerate(pods)
        ),
        num_nodes=len(pods),
        deletion=deletion_of([deployment], pods, lambda pod: f"pod {pod.metadata.name}"),
        backend="service",
    )


def _findings(objects: ServiceObjects, pods: Sequence[Pod], task: TaskStatus) -> list[Cause]:
    """Return what `doctor` would say of the replicas that are not ready."""
    numbered = []
    for number, pod in enumerate(pods):
        metadata = pod.metadata
        if not nodes.is_ready(pod) and not metadata.deletion_timestamp:
            labels = metadata.labels | {names.NODE_IDX: str(number)}
            numbered.append(replace(pod, metadata=replace(metadata, labels=labels)))

    # Its conditions are not a Job's.
    workload = replace(objects.deployment, status=ObjectStatus())
    snapshot = TaskSnapshot(
        task.id,
        task.namespace,
        {
            kinds.JOB.kind: (workload,),
            kinds.POD.kind: tuple(numbered),
            kinds.EVENT.kind: tuple(objects.events),
            **({kinds.NODE.kind: tuple(objects.cluster_nodes)} if objects.cluster_nodes else {}),
        },
        task=replace(task, nodes=tuple(node for node in task.nodes if node.reason != TERMINATING)),
    )

    return [
        replace(item, then=item.then.replace("kubectl sky logs", "kubectl sky serve logs"))
        for item in (diagnose(snapshot, RULES) if numbered else ())
    ]


def _reason(node: NodeStatus, pod: Pod, events: Iterable[Event], findings: Iterable[Cause]) -> str:
    """Return why a replica is not ready; empty if it is."""
    if nodes.is_ready(pod):
        return ""
    if pod.metadata.deletion_timestamp:  # its events are of the time before
        return TERMINATING
    causes = [finding.what for finding in findings if node.index in finding.ranks]
    unhealthy = [
        event.message
        for event in events
        if event.involved_object.name == node.pod and event.reason == "Unhealthy"
    ]
    texts = (*causes, node.reason, *reversed(unhealthy), "NotReady")
    return " ".join(next(filter(None, texts)).split())


def _endpoints(objects: ServiceObjects, task: TaskStatus, pods: Sequence[Pod]) -> tuple[str, ...]:
    if objects.service is None:
        return ()
    endpoints = combine(task, objects.service, pods, objects.cluster_nodes).ports
    rules = objects.ingress.spec.rules if objects.ingress else ()
    hosts = (f"{rule.host}:443" for rule in rules if rule.host)
    addresses = (address for item in endpoints for address in (*item.outside, item.address))
    return (*hosts, *addresses)
