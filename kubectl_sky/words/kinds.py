"""Kubernetes kinds as values: API group, version, kind and plural, and the type of the answers."""

from functools import partial
from typing import Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from kubectl_sky.words import core_objects as core
from kubectl_sky.words import objects, pod_objects, task_objects
from kubectl_sky.words import scheduled_objects as scheduled

T_co = TypeVar("T_co", covariant=True)


class Kind(Struct, frozen=True):
    """One kind of object. `group` is empty for the core API (`/api/v1`)."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """Return the apiVersion of manifests: `v1`, `batch/v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resource(self) -> str:
        """Return the name for kubectl and RBAC: `pods`, `jobs.batch`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


class ReadKind(Kind, Generic[T_co], frozen=True, kw_only=True):
    """A kind whose objects are read as values of a type; `shape` is that type."""

    shape: type[T_co]


_cluster_kind = partial(Kind, namespaced=False)

APP_WRAPPER = ReadKind(
    "workload.codeflare.dev", "v1beta2", "AppWrapper", "appwrappers", shape=task_objects.AppWrapper
)
KUEUE_VERSIONS = ("v1beta2", "v1beta1")  # newest first; a cluster serves one or both
_KUEUE = ("kueue.x-k8s.io", KUEUE_VERSIONS[0])
GANG_VERSIONS = ("v1beta1", "v1alpha2")  # of Kubernetes 1.37 and 1.36

CLUSTER_ROLE = _cluster_kind("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles")
CLUSTER_ROLE_BINDING = _cluster_kind(
    "rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings"
)
CONFIG_MAP = ReadKind("", "v1", "ConfigMap", "configmaps", shape=core.ConfigMap)
CUSTOM_RESOURCE_DEFINITION = _cluster_kind(
    "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions"
)
DEPLOYMENT = ReadKind("apps", "v1", "Deployment", "deployments", shape=task_objects.Deployment)
DEVICE_CLASS = ReadKind(
    "resource.k8s.io",
    "v1",
    "DeviceClass",
    "deviceclasses",
    namespaced=False,
    shape=scheduled.DeviceClass,
)
ENDPOINT_SLICE = ReadKind(
    "discovery.k8s.io", "v1", "EndpointSlice", "endpointslices", shape=core.EndpointSlice
)
EVENT = ReadKind("", "v1", "Event", "events", shape=core.Event)
GANG = ReadKind(
    "scheduling.k8s.io", GANG_VERSIONS[0], "PodGroup", "podgroups", shape=scheduled.Gang
)
HPA = ReadKind(
    "autoscaling",
    "v2",
    "HorizontalPodAutoscaler",
    "horizontalpodautoscalers",
    shape=core.Scaler,
)
INGRESS = ReadKind("networking.k8s.io", "v1", "Ingress", "ingresses", shape=core.Ingress)
JOB = ReadKind("batch", "v1", "Job", "jobs", shape=task_objects.Job)
LEASE = ReadKind("coordination.k8s.io", "v1", "Lease", "leases", shape=core.Lease)
LIMIT_RANGE = ReadKind("", "v1", "LimitRange", "limitranges", shape=core.LimitRange)
JOB_SET = ReadKind("jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets", shape=task_objects.JobSet)
CLUSTER_QUEUE = ReadKind(
    *_KUEUE, "ClusterQueue", "clusterqueues", namespaced=False, shape=scheduled.KueueQueue
)
COHORT = ReadKind(*_KUEUE, "Cohort", "cohorts", namespaced=False, shape=scheduled.KueueQueue)
LOCAL_QUEUE = ReadKind(*_KUEUE, "LocalQueue", "localqueues", shape=scheduled.KueueQueue)
QUEUED_WORKLOAD = ReadKind(*_KUEUE, "Workload", "workloads", shape=scheduled.QueuedWorkload)
QUEUE_PRIORITY = ReadKind(
    *_KUEUE,
    "WorkloadPriorityClass",
    "workloadpriorityclasses",
    namespaced=False,
    shape=core.PriorityClass,
)
MPI_JOB = ReadKind("kubeflow.org", "v2beta1", "MPIJob", "mpijobs", shape=task_objects.MPIJob)
NAMESPACE = ReadKind("", "v1", "Namespace", "namespaces", namespaced=False, shape=objects.Object)
NETWORK_POLICY = Kind("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies")
NODE = ReadKind("", "v1", "Node", "nodes", namespaced=False, shape=core.Node)
POD = ReadKind("", "v1", "Pod", "pods", shape=pod_objects.Pod)
POD_GROUP = ReadKind(
    "scheduling.volcano.sh", "v1beta1", "PodGroup", "podgroups", shape=scheduled.PodGroup
)
POD_METRICS = ReadKind("metrics.k8s.io", "v1beta1", "PodMetrics", "pods", shape=core.PodMetrics)
POD_DISRUPTION_BUDGET = Kind("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets")
PRIORITY_CLASS = ReadKind(
    "scheduling.k8s.io",
    "v1",
    "PriorityClass",
    "priorityclasses",
    namespaced=False,
    shape=core.PriorityClass,
)
PVC = ReadKind("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", shape=core.Pvc)
RAY_SERVE_GRAPH = ReadKind(
    "kubectl-sky.dev",
    "v1alpha1",
    "RayServeGraph",
    "rayservegraphs",
    shape=task_objects.RayServeGraph,
)
RAY_CLUSTER = ReadKind("ray.io", "v1", "RayCluster", "rayclusters", shape=task_objects.RayCluster)
RAY_SERVICE = ReadKind("ray.io", "v1", "RayService", "rayservices", shape=task_objects.RayService)
REPLICA_SET = ReadKind("apps", "v1", "ReplicaSet", "replicasets", shape=task_objects.ReplicaSet)
RESOURCE_CLAIM = ReadKind(
    "resource.k8s.io", "v1", "ResourceClaim", "resourceclaims", shape=scheduled.ResourceClaim
)
RESOURCE_FLAVOR = ReadKind(
    *_KUEUE, "ResourceFlavor", "resourceflavors", namespaced=False, shape=scheduled.ResourceFlavor
)
RESOURCE_QUOTA = ReadKind("", "v1", "ResourceQuota", "resourcequotas", shape=core.ResourceQuota)
RESOURCE_SLICE = ReadKind(
    "resource.k8s.io",
    "v1",
    "ResourceSlice",
    "resourceslices",
    namespaced=False,
    shape=scheduled.ResourceSlice,
)
ROLE = Kind("rbac.authorization.k8s.io", "v1", "Role", "roles")
ROLE_BINDING = Kind("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings")
SECRET = ReadKind("", "v1", "Secret", "secrets", shape=core.Secret)
SELF_SUBJECT_ACCESS_REVIEW = _cluster_kind(
    "authorization.k8s.io", "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews"
)
SELF_SUBJECT_REVIEW = _cluster_kind(
    "authentication.k8s.io", "v1", "SelfSubjectReview", "selfsubjectreviews"
)
SERVICE = ReadKind("", "v1", "Service", "services", shape=core.Service)
SERVICE_ACCOUNT = Kind("", "v1", "ServiceAccount", "serviceaccounts")
STORAGE_CLASS = ReadKind(
    "storage.k8s.io", "v1", "StorageClass", "storageclasses", namespaced=False, shape=objects.Object
)
TOPOLOGY = ReadKind(*_KUEUE, "Topology", "topologies", namespaced=False, shape=scheduled.Topology)
VALIDATING_POLICY = _cluster_kind(
    "admissionregistration.k8s.io",
    "v1",
    "ValidatingAdmissionPolicy",
    "validatingadmissionpolicies",
)
VALIDATING_POLICY_BINDING = _cluster_kind(
    "admissionregistration.k8s.io",
    "v1",
    "ValidatingAdmissionPolicyBinding",
    "validatingadmissionpolicybindings",
)
VOLCANO_QUEUE = ReadKind(
    "scheduling.volcano.sh",
    "v1beta1",
    "Queue",
    "queues",
    namespaced=False,
    shape=scheduled.VolcanoQueue,
)

_BY_NAME = {
    (kind.api_version, kind.kind): kind for kind in list(vars().values()) if isinstance(kind, Kind)
}
_BY_NAME |= {
    (f"{kind.group}/{version}", kind.kind): replace(kind, version=version)
    for kind, versions in ((LOCAL_QUEUE, KUEUE_VERSIONS), (GANG, GANG_VERSIONS))
    for version in versions
}


def kind_of(manifest: dict[str, object]) -> Kind | None:
    """Return the kind of a manifest, or None for an unknown kind."""
    return _BY_NAME.get((str(manifest.get("apiVersion")), str(manifest.get("kind"))))
