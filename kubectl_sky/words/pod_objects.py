"""Define what is read of pods, and of the pod templates of other objects."""

from msgspec import field

from kubectl_sky.words.objects import NO_OBJECT, Condition, Fields, MaybeTime, Object, Texts

Quantities = dict[str, str | int | float]  # a template may have numbers

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


class Resources(Fields, frozen=True, kw_only=True):
    """The requests and limits of a container or pod: quantities by resource."""

    limits: Quantities | None = None
    requests: Quantities | None = None


class ContainerPort(Fields, frozen=True, kw_only=True):
    """A port of a container; one of the cluster node itself is not 0."""

    host_port: int = 0


class VolumeMount(Fields, frozen=True, kw_only=True):
    """Where a container has a volume."""

    mount_path: str
    name: str
    read_only: bool = False
    sub_path: str = ""


class EnvVar(Fields, frozen=True, kw_only=True):
    """A variable of a container; without a value, it comes from another object."""

    name: str = ""
    value: str | None = None
    value_from: dict[str, object] | None = None


class Container(Fields, frozen=True, kw_only=True):
    """A container of a pod template."""

    name: str = ""
    image: str = ""
    resources: Resources | None = None
    volume_mounts: tuple[VolumeMount, ...] | None = None


class TaskContainer(Container, frozen=True, kw_only=True):
    """A container of the pod template of a task, with its variables."""

    env: tuple[EnvVar, ...] | None = None
    env_from: tuple[dict[str, object], ...] | None = None


class Probe(Fields, frozen=True, kw_only=True):
    """How long a probe may fail."""

    failure_threshold: int = 3
    period_seconds: int = 10


class PodContainer(Container, frozen=True, kw_only=True):
    """A container of a pod."""

    liveness_probe: Probe | None = None
    ports: tuple[ContainerPort, ...] = ()
    readiness_probe: Probe | None = None
    startup_probe: Probe | None = None


class InitContainer(Container, frozen=True, kw_only=True):
    """An init container; a native sidecar has the restart policy Always."""

    restart_policy: str = ""


class NodeRule(Fields, frozen=True, kw_only=True):
    """A rule for labels, or for fields of cluster nodes."""

    key: str
    operator: str
    values: tuple[str, ...] | None = None


class NodeTerm(Fields, frozen=True, kw_only=True):
    """Rules that a cluster node has to meet."""

    match_expressions: tuple[NodeRule, ...] | None = None
    match_fields: tuple[NodeRule, ...] | None = None


class NodeSelector(Fields, frozen=True, kw_only=True):
    """Terms, of which a cluster node has to meet one."""

    node_selector_terms: tuple[NodeTerm, ...] | None = None


class NodeAffinity(Fields, frozen=True, kw_only=True):
    """The cluster nodes that a pod requires."""

    required: NodeSelector | None = field(default=None, name=_REQUIRED)


class PodTerm(Fields, frozen=True, kw_only=True):
    """Which pods a pod runs beside; a selector of namespaces may be empty."""

    namespace_selector: dict[str, object] | None = None
    namespaces: tuple[str, ...] | None = None
    topology_key: str = ""


class WeightedPodTerm(Fields, frozen=True, kw_only=True):
    """A preferred term."""

    pod_affinity_term: PodTerm = PodTerm()


class PodAffinity(Fields, frozen=True, kw_only=True):
    """The pods that a pod runs beside, or not beside."""

    preferred: tuple[WeightedPodTerm, ...] | None = field(default=None, name=_PREFERRED)
    required: tuple[PodTerm, ...] | None = field(default=None, name=_REQUIRED)


class Affinity(Fields, frozen=True, kw_only=True):
    """Where a pod may run."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class PvcSource(Fields, frozen=True, kw_only=True):
    """The PVC of a volume."""

    claim_name: str


class Volume(Fields, frozen=True, kw_only=True):
    """A volume of a pod."""

    csi: dict[str, object] | None = None
    name: str = ""
    persistent_volume_claim: PvcSource | None = None

    @property
    def claim(self) -> str:
        """The name of its PVC; empty for another volume."""
        return self.persistent_volume_claim.claim_name if self.persistent_volume_claim else ""


class TemplateSpec(Fields, frozen=True, kw_only=True):
    """What the pods of a template request."""

    affinity: Affinity | None = None
    containers: tuple[Container, ...] = ()
    node_selector: Texts | None = None
    volumes: tuple[Volume, ...] | None = None

    @property
    def node_terms(self) -> tuple[NodeTerm, ...]:
        """The required terms, of which a cluster node has to meet one; empty for any."""
        affinity = self.affinity and self.affinity.node_affinity
        selector = affinity and affinity.required
        return (selector and selector.node_selector_terms) or ()


class TaskTemplateSpec(TemplateSpec, frozen=True, kw_only=True):
    """What the pods of a task request; their variables differ from node to node."""

    containers: tuple[TaskContainer, ...] = ()
    init_containers: tuple[TaskContainer, ...] | None = None
    service_account_name: str = ""
    image_pull_secrets: tuple[Texts, ...] | None = None


class TemplateMetadata(Fields, frozen=True, kw_only=True):
    """The metadata of the pods of a template."""

    annotations: Texts | None = None
    labels: Texts = field(default_factory=dict)


class PodTemplate(Fields, frozen=True, kw_only=True):
    """A pod template."""

    metadata: TemplateMetadata = TemplateMetadata()
    spec: TaskTemplateSpec = TaskTemplateSpec()


class ClaimReference(Fields, frozen=True, kw_only=True):
    """A ResourceClaim that a pod names."""

    name: str = ""
    resource_claim_name: str | None = None


class SchedulingGroup(Fields, frozen=True, kw_only=True):
    """The PodGroup of Kubernetes that a pod names."""

    pod_group_name: str = ""


class Named(Fields, frozen=True, kw_only=True):
    """Something with a name, such as a scheduling gate or an AdmissionCheck."""

    name: str = ""


class SpreadRule(Fields, frozen=True, kw_only=True):
    """How evenly pods are spread over the values of a label of cluster nodes."""

    when_unsatisfiable: str = ""


class Toleration(Fields, frozen=True, kw_only=True):
    """A toleration; without a key or an effect, it tolerates all."""

    effect: str = ""
    key: str = ""
    operator: str = ""
    value: str = ""


class PodSpec(TemplateSpec, frozen=True, kw_only=True):
    """What a pod runs, and where."""

    active_deadline_seconds: int | None = None
    containers: tuple[PodContainer, ...] = ()
    host_network: bool = False
    init_containers: tuple[InitContainer, ...] = ()
    node_name: str = ""
    overhead: Quantities | None = None
    preemption_policy: str = ""
    priority: int = 0
    priority_class_name: str = ""
    resource_claims: tuple[ClaimReference, ...] | None = None
    resources: Resources | None = None
    restart_policy: str = ""
    scheduler_name: str = ""
    scheduling_gates: tuple[Named, ...] | None = None
    scheduling_group: SchedulingGroup | None = None
    tolerations: tuple[Toleration, ...] | None = None
    topology_spread_constraints: tuple[SpreadRule, ...] | None = None

    @property
    def claims(self) -> tuple[str, ...]:
        """The names of the PVCs that it mounts."""
        return tuple(volume.claim for volume in self.volumes or () if volume.claim)


class Running(Fields, frozen=True, kw_only=True):
    """The state of a container that runs."""

    started_at: MaybeTime = None


class Terminated(Fields, frozen=True, kw_only=True):
    """How a container ended."""

    exit_code: int | None = None
    finished_at: MaybeTime = None
    message: str = ""
    reason: str = ""
    started_at: MaybeTime = None


class Waiting(Fields, frozen=True, kw_only=True):
    """Why a container does not run."""

    message: str = ""
    reason: str = ""


class ContainerState(Fields, frozen=True, kw_only=True):
    """The state of a container: one of these, or none."""

    running: Running | None = None
    terminated: Terminated | None = None
    waiting: Waiting | None = None

    @property
    def exit_code(self) -> int | None:
        return self.terminated.exit_code if self.terminated else None


class ContainerStatus(Fields, frozen=True, kw_only=True):
    """A container, as the kubelet reports it."""

    image: str = ""
    image_id: str = field(default="", name="imageID")
    last_state: ContainerState = ContainerState()
    name: str
    ready: bool = True
    restart_count: int = 0
    started: bool | None = None
    state: ContainerState = ContainerState()

    @property
    def has_run(self) -> bool:
        """Whether it runs or has run, and so has a log."""
        return any(state.running or state.terminated for state in (self.state, self.last_state))


NO_CONTAINER = ContainerStatus(name="")  # before the kubelet reports one


class PodStatus(Fields, frozen=True, kw_only=True):
    """A pod, as the kubelet and the controllers report it."""

    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    ephemeral_container_statuses: tuple[ContainerStatus, ...] = ()
    host_ip: str = field(default="", name="hostIP")
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    message: str = ""
    nominated_node_name: str = ""  # where the scheduler has preempted pods for it
    phase: str = ""
    pod_ip: str = field(default="", name="podIP")
    reason: str = ""
    start_time: MaybeTime = None

    @property
    def all_containers(self) -> tuple[ContainerStatus, ...]:
        """Those of `kubectl logs --all-containers`, in its order."""
        return (
            *self.init_container_statuses,
            *self.container_statuses,
            *self.ephemeral_container_statuses,
        )

    @property
    def has_ended(self) -> bool:
        return self.phase in ("Succeeded", "Failed")


class Pod(Object, frozen=True, kw_only=True):
    """A pod."""

    api_version: str = "v1"
    kind: str = "Pod"
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


NO_POD = Pod(metadata=NO_OBJECT.metadata)
