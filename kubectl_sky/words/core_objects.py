"""Define what is read of the kinds that Kubernetes itself has, but for pods and workloads."""

from msgspec import field

from kubectl_sky.words.objects import Condition, Fields, LooseCondition, MaybeTime, Object, Texts


class ConfigMap(Object, frozen=True, kw_only=True):
    """A ConfigMap."""

    api_version: str = "v1"
    kind: str = "ConfigMap"
    data: Texts | None = None


class Secret(ConfigMap, frozen=True, kw_only=True):
    """A Secret; its values are in Base64."""

    kind: str = "Secret"


class EventObject(Fields, frozen=True, kw_only=True):
    """The object that an Event is about."""

    field_path: str = ""
    kind: str = ""
    name: str = ""
    namespace: str = ""
    uid: str = ""


class Event(Object, frozen=True, kw_only=True):
    """An Event of the core API."""

    api_version: str = "v1"
    kind: str = "Event"
    count: int = 0
    event_time: MaybeTime = None
    first_timestamp: MaybeTime = None
    involved_object: EventObject = EventObject()
    last_timestamp: MaybeTime = None
    message: str = ""
    reason: str = ""
    type: str = ""


class PvcResources(Fields, frozen=True, kw_only=True):
    """The size that a PVC requests."""

    requests: Texts = field(default_factory=dict)


class PvcSpec(Fields, frozen=True, kw_only=True):
    """What a PVC requests."""

    access_modes: tuple[str, ...] = ()
    resources: PvcResources = PvcResources()
    storage_class_name: str = ""


class PvcStatus(Fields, frozen=True, kw_only=True):
    """What a PVC has."""

    capacity: Texts = field(default_factory=dict)
    phase: str = ""


class Pvc(Object, frozen=True, kw_only=True):
    """A PersistentVolumeClaim."""

    api_version: str = "v1"
    kind: str = "PersistentVolumeClaim"
    spec: PvcSpec = PvcSpec()
    status: PvcStatus = PvcStatus()


class LimitRangeItem(Fields, frozen=True, kw_only=True):
    """The limits of one type of objects: quantities by resource."""

    type: str = ""
    default: Texts = field(default_factory=dict)
    default_request: Texts = field(default_factory=dict)
    max: Texts = field(default_factory=dict)
    max_limit_request_ratio: Texts = field(default_factory=dict)
    min: Texts = field(default_factory=dict)


class LimitRangeSpec(Fields, frozen=True, kw_only=True):
    """The limits of a namespace."""

    limits: tuple[LimitRangeItem, ...] | None = None


class LimitRange(Object, frozen=True, kw_only=True):
    """A LimitRange."""

    api_version: str = "v1"
    kind: str = "LimitRange"
    spec: LimitRangeSpec = LimitRangeSpec()


class Taint(Fields, frozen=True, kw_only=True):
    """A taint of a cluster node."""

    key: str
    value: str = ""
    effect: str


class NodeAddress(Fields, frozen=True, kw_only=True):
    """An address of a cluster node."""

    type: str
    address: str


class NodeSpec(Fields, frozen=True, kw_only=True):
    """Which pods a cluster node accepts."""

    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False


class NodeState(Fields, frozen=True, kw_only=True):
    """The state of a cluster node."""

    addresses: tuple[NodeAddress, ...] = ()
    allocatable: Texts = field(default_factory=dict)
    conditions: tuple[Condition, ...] = ()


class Node(Object, frozen=True, kw_only=True):
    """A cluster node."""

    api_version: str = "v1"
    kind: str = "Node"
    spec: NodeSpec = NodeSpec()
    status: NodeState = NodeState()


class QuotaScope(Fields, frozen=True, kw_only=True):
    """A requirement of a scope selector."""

    scope_name: str = ""
    operator: str = ""
    values: tuple[str, ...] | None = None


class QuotaScopes(Fields, frozen=True, kw_only=True):
    """A scope selector."""

    match_expressions: tuple[QuotaScope, ...] | None = None


class QuotaSpec(Fields, frozen=True, kw_only=True):
    """The limits of a ResourceQuota, and the pods that they count."""

    hard: Texts = field(default_factory=dict)
    scope_selector: QuotaScopes | None = None
    scopes: tuple[str, ...] | None = None


class QuotaStatus(Fields, frozen=True, kw_only=True):
    """What a ResourceQuota counts."""

    hard: Texts = field(default_factory=dict)
    used: Texts = field(default_factory=dict)


class ResourceQuota(Object, frozen=True, kw_only=True):
    """A ResourceQuota."""

    api_version: str = "v1"
    kind: str = "ResourceQuota"
    spec: QuotaSpec = QuotaSpec()
    status: QuotaStatus = QuotaStatus()


class ServicePort(Fields, frozen=True, kw_only=True):
    """A port of a Service."""

    name: str = ""
    node_port: int = 0
    port: int


class ServiceSpec(Fields, frozen=True, kw_only=True):
    """The ports of a Service, and the labels of its pods."""

    cluster_ip: str = field(default="", name="clusterIP")
    ports: tuple[ServicePort, ...] = ()
    selector: Texts | None = None
    type: str = ""


class LoadBalancerAddress(Fields, frozen=True, kw_only=True):
    """An address of a load balancer."""

    hostname: str = ""
    ip: str = ""


class LoadBalancer(Fields, frozen=True, kw_only=True):
    """The addresses of a load balancer."""

    ingress: tuple[LoadBalancerAddress, ...] = ()


class ServiceStatus(Fields, frozen=True, kw_only=True):
    """The state of a Service."""

    load_balancer: LoadBalancer = LoadBalancer()


class Service(Object, frozen=True, kw_only=True):
    """A Service of the core API."""

    api_version: str = "v1"
    kind: str = "Service"
    spec: ServiceSpec = ServiceSpec()
    status: ServiceStatus = ServiceStatus()


class IngressRule(Fields, frozen=True, kw_only=True):
    """A rule of an Ingress."""

    host: str = ""


class IngressSpec(Fields, frozen=True, kw_only=True):
    """The rules of an Ingress."""

    rules: tuple[IngressRule, ...] = ()


class Ingress(Object, frozen=True, kw_only=True):
    """An Ingress."""

    api_version: str = "networking.k8s.io/v1"
    kind: str = "Ingress"
    spec: IngressSpec = IngressSpec()


class EndpointPort(Fields, frozen=True, kw_only=True):
    """A port of an EndpointSlice."""

    port: int | None = None


class EndpointSlice(Object, frozen=True, kw_only=True):
    """An EndpointSlice."""

    api_version: str = "discovery.k8s.io/v1"
    kind: str = "EndpointSlice"
    ports: tuple[EndpointPort, ...] | None = None


class LeaseSpec(Fields, frozen=True, kw_only=True):
    """Who holds a Lease, and until when."""

    acquire_time: MaybeTime = None
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    renew_time: MaybeTime = None


class Lease(Object, frozen=True, kw_only=True):
    """A Lease."""

    api_version: str = "coordination.k8s.io/v1"
    kind: str = "Lease"
    spec: LeaseSpec = LeaseSpec()


class PriorityClass(Object, frozen=True, kw_only=True):
    """A PriorityClass, of pods or of Kueue's Workloads."""

    api_version: str = "scheduling.k8s.io/v1"
    kind: str = "PriorityClass"
    global_default: bool = False
    preemption_policy: str = ""
    value: int = 0


class Name(Fields, frozen=True, kw_only=True):
    """The metadata of an object that is not stored, and so without a uid."""

    labels: Texts = field(default_factory=dict)
    name: str
    namespace: str = ""


class ContainerMetrics(Fields, frozen=True, kw_only=True):
    """What a container uses: quantities by resource."""

    name: str
    usage: Texts | None = None


class PodMetrics(Fields, frozen=True, kw_only=True):
    """What a pod uses."""

    api_version: str = "metrics.k8s.io/v1beta1"
    kind: str = "PodMetrics"
    metadata: Name
    containers: tuple[ContainerMetrics, ...] | None = None


class ScalerStatus(Fields, frozen=True, kw_only=True):
    """The state of a HorizontalPodAutoscaler."""

    conditions: tuple[LooseCondition, ...] | None = None


class ScalerSpec(Fields, frozen=True, kw_only=True):
    """The limits of a HorizontalPodAutoscaler."""

    max_replicas: int


class Scaler(Object, frozen=True, kw_only=True):
    """A HorizontalPodAutoscaler."""

    api_version: str = "autoscaling/v2"
    kind: str = "HorizontalPodAutoscaler"
    spec: ScalerSpec
    status: ScalerStatus = ScalerStatus()
