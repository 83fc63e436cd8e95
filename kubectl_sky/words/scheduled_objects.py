"""Define what is read of the objects of schedulers: Kueue, Volcano, PodGroups and DRA devices."""

from typing import Any

from kubectl_sky.words.core_objects import Taint
from kubectl_sky.words.objects import (
    Amount,
    Condition,
    Conditions,
    Fields,
    LooseCondition,
    Object,
    Texts,
)
from kubectl_sky.words.pod_objects import Named, NodeRule, Toleration


class FlavorResource(Fields, frozen=True, kw_only=True):
    """A resource of a flavor in a queue: its quota, or what is reserved."""

    name: str
    borrowing_limit: Amount = ""
    lending_limit: Amount = ""
    nominal_quota: Amount = ""
    total: Amount = "0"


class QueueFlavor(Fields, frozen=True, kw_only=True):
    """A flavor in a queue."""

    name: str
    resources: tuple[FlavorResource, ...] | None = None


class ResourceGroup(Fields, frozen=True, kw_only=True):
    """Flavors of a ClusterQueue that share resources."""

    flavors: tuple[QueueFlavor, ...] | None = None

    @property
    def resources(self) -> set[str]:
        """The resources that each of its flavors has."""
        flavors = self.flavors or ()
        return {resource.name for flavor in flavors for resource in flavor.resources or ()}


class Checks(Fields, frozen=True, kw_only=True):
    """The AdmissionChecks of a queue."""

    admission_checks: tuple[Named, ...] | None = None


class Fungibility(Fields, frozen=True, kw_only=True):
    """Whether another flavor is tried before one borrows or preempts."""

    preference: str = ""
    when_can_borrow: str = ""
    when_can_preempt: str = ""


class BorrowWithinCohort(Fields, frozen=True, kw_only=True):
    """Whether a workload preempts others also if its queue borrows."""

    max_priority_threshold: int | None = None
    policy: str = ""


class KueuePreemption(Fields, frozen=True, kw_only=True):
    """Whom a workload of a queue preempts."""

    borrow_within_cohort: BorrowWithinCohort | None = None
    reclaim_within_cohort: str = ""
    within_cluster_queue: str = ""


class LabelSelector(Fields, frozen=True, kw_only=True):
    """A label selector; an empty one selects everything."""

    match_expressions: tuple[NodeRule, ...] | None = None
    match_labels: Texts | None = None


class QueueSpec(Fields, frozen=True, kw_only=True):
    """What a queue of Kueue may use."""

    admission_checks: tuple[str, ...] | None = None  # of v1beta1
    admission_checks_strategy: Checks | None = None
    admission_scope: dict[str, Any] | None = None  # who has used less goes first
    cluster_queue: str = ""
    cohort: str = ""  # of v1beta1
    cohort_name: str = ""
    flavor_fungibility: Fungibility | None = None
    namespace_selector: LabelSelector | None = None  # none selects nothing
    parent_name: str = ""  # of a cohort
    preemption: KueuePreemption | None = None
    queueing_strategy: str = ""
    resource_groups: tuple[ResourceGroup, ...] | None = None
    stop_policy: str = ""


class QueueStatus(Fields, frozen=True, kw_only=True):
    """What a queue of Kueue uses, and how many Workloads wait."""

    admitted_workloads: int = 0
    conditions: tuple[Condition, ...] = ()
    flavors_reservation: tuple[QueueFlavor, ...] | None = None
    pending_workloads: int = 0


class KueueQueue(Object, frozen=True, kw_only=True):
    """A LocalQueue, ClusterQueue or Cohort."""

    spec: QueueSpec = QueueSpec()
    status: QueueStatus = QueueStatus()


class FlavorSpec(Fields, frozen=True, kw_only=True):
    """The cluster nodes of a ResourceFlavor, and their topology."""

    node_labels: Texts | None = None
    node_taints: tuple[Taint, ...] | None = None
    tolerations: tuple[Toleration, ...] | None = None
    topology_name: str = ""


class ResourceFlavor(Object, frozen=True, kw_only=True):
    """A ResourceFlavor of Kueue."""

    spec: FlavorSpec = FlavorSpec()


class TopologyLevel(Fields, frozen=True, kw_only=True):
    """A level of a topology: a label of cluster nodes."""

    node_label: str


class TopologySpec(Fields, frozen=True, kw_only=True):
    """The levels of a topology, the widest first."""

    levels: tuple[TopologyLevel, ...] = ()


class Topology(Object, frozen=True, kw_only=True):
    """A Topology of Kueue."""

    spec: TopologySpec = TopologySpec()


class QueuedSpec(Fields, frozen=True, kw_only=True):
    """The queue of a Workload and its priority there."""

    active: bool | None = None
    priority: int | None = None
    queue_name: str = ""


class PodSetAssignment(Fields, frozen=True, kw_only=True):
    """The flavor of each resource of some pods, and how much of it they use."""

    flavors: Texts | None = None
    resource_usage: dict[str, Amount] | None = None


class QueueAdmission(Fields, frozen=True, kw_only=True):
    """The quota that a Workload holds."""

    cluster_queue: str = ""
    pod_set_assignments: tuple[PodSetAssignment, ...] | None = None


class QueuedStatus(Conditions, frozen=True, kw_only=True):
    """The state of a Workload in its queue."""

    admission: QueueAdmission | None = None
    cluster_name: str | None = None


class QueuedWorkload(Object, frozen=True, kw_only=True):
    """A Workload of Kueue."""

    spec: QueuedSpec = QueuedSpec()
    status: QueuedStatus = QueuedStatus()


class VolcanoQueueSpec(Fields, frozen=True, kw_only=True):
    """What a queue of Volcano may use; without a capability, all that its parent has."""

    capability: dict[str, Any] | None = None
    parent: str | None = None


class VolcanoQueueStatus(Fields, frozen=True, kw_only=True):
    """The state of a queue of Volcano."""

    state: str = ""


class VolcanoQueue(Object, frozen=True, kw_only=True):
    """A Queue of Volcano."""

    spec: VolcanoQueueSpec | None = None
    status: VolcanoQueueStatus = VolcanoQueueStatus()


class PodGroupSpec(Fields, frozen=True, kw_only=True):
    """The queue and priority of a PodGroup."""

    priority_class_name: str = ""
    queue: str = ""


class PodGroupStatus(Fields, frozen=True, kw_only=True):
    """The state of a PodGroup; users may write it."""

    conditions: tuple[LooseCondition, ...] = ()
    phase: str = ""


class PodGroup(Object, frozen=True, kw_only=True):
    """A PodGroup of Volcano."""

    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()


class GangPolicy(Fields, frozen=True, kw_only=True):
    """How many pods start together."""

    min_count: int = 0


class SchedulingPolicy(Fields, frozen=True, kw_only=True):
    """Whether the pods of a PodGroup start together."""

    gang: GangPolicy | None = None


class TopologyConstraint(Fields, frozen=True, kw_only=True):
    """A label of cluster nodes of which all pods need the same value."""

    key: str = ""


class SchedulingConstraints(Fields, frozen=True, kw_only=True):
    """Where the pods of a PodGroup may run."""

    topology: tuple[TopologyConstraint, ...] | None = None


class GangSpec(Fields, frozen=True, kw_only=True):
    """How the pods of a PodGroup are scheduled."""

    scheduling_constraints: SchedulingConstraints | None = None
    scheduling_policy: SchedulingPolicy | None = None


class Gang(Object, frozen=True, kw_only=True):
    """A PodGroup of Kubernetes."""

    spec: GangSpec = GangSpec()


class CelSelector(Fields, frozen=True, kw_only=True):
    """An expression of CEL."""

    expression: str = ""


class DeviceSelector(Fields, frozen=True, kw_only=True):
    """A selector of devices."""

    cel: CelSelector | None = None


class DeviceClassSpec(Fields, frozen=True, kw_only=True):
    """The devices of a DeviceClass."""

    extended_resource_name: str | None = None
    selectors: tuple[DeviceSelector, ...] | None = None


class DeviceClass(Object, frozen=True, kw_only=True):
    """A DeviceClass."""

    spec: DeviceClassSpec


class SliceDevice(Fields, frozen=True, kw_only=True):
    """A device that a driver publishes; each attribute has its value by a type."""

    attributes: dict[str, dict[str, Any]] | None = None
    name: str
    node_name: str | None = None


class DevicePool(Fields, frozen=True, kw_only=True):
    """The pool of a ResourceSlice: only slices of its newest generation count."""

    generation: int
    name: str


class ResourceSliceSpec(Fields, frozen=True, kw_only=True):
    """The devices of a driver on a cluster node."""

    devices: tuple[SliceDevice, ...] | None = None
    driver: str
    node_name: str | None = None
    pool: DevicePool


class ResourceSlice(Object, frozen=True, kw_only=True):
    """A ResourceSlice."""

    spec: ResourceSliceSpec


class DeviceKey(Fields, frozen=True, kw_only=True):
    """An allocated device."""

    device: str
    driver: str
    pool: str


class AllocatedDevices(Fields, frozen=True, kw_only=True):
    """The devices of an allocation."""

    results: tuple[DeviceKey, ...] | None = None


class Allocation(Fields, frozen=True, kw_only=True):
    """What a ResourceClaim has."""

    devices: AllocatedDevices = AllocatedDevices()


class ClaimUser(Fields, frozen=True, kw_only=True):
    """A pod that a ResourceClaim is reserved for."""

    name: str = ""


class ExactRequest(Fields, frozen=True, kw_only=True):
    """A request of devices of one class."""

    count: int | None = None
    device_class_name: str = "?"


class DeviceRequest(Fields, frozen=True, kw_only=True):
    """A request of a ResourceClaim."""

    exactly: ExactRequest | None = None


class DeviceRequests(Fields, frozen=True, kw_only=True):
    """The requests of a ResourceClaim."""

    requests: tuple[DeviceRequest, ...] | None = None


class ResourceClaimSpec(Fields, frozen=True, kw_only=True):
    """What a ResourceClaim requests."""

    devices: DeviceRequests = DeviceRequests()


class ResourceClaimStatus(Fields, frozen=True, kw_only=True):
    """What a ResourceClaim has, and for which pods."""

    allocation: Allocation | None = None
    reserved_for: tuple[ClaimUser, ...] | None = None


class ResourceClaim(Object, frozen=True, kw_only=True):
    """A ResourceClaim."""

    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()
