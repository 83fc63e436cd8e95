"""Kubernetes kinds as values: API group, version, kind and plural."""

from functools import partial

from msgspec import Struct
from msgspec.structs import replace


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


_cluster_kind = partial(Kind, namespaced=False)

APP_WRAPPER = Kind("workload.codeflare.dev", "v1beta2", "AppWrapper", "appwrappers")
KUEUE_VERSIONS = ("v1beta2", "v1beta1")  # newest first; a cluster serves one or both
_KUEUE = ("kueue.x-k8s.io", KUEUE_VERSIONS[0])
GANG_VERSIONS = ("v1beta1", "v1alpha2")  # of Kubernetes 1.37 and 1.36

CLUSTER_ROLE = _cluster_kind("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles")
CLUSTER_ROLE_BINDING = _cluster_kind(
    "rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings"
)
CONFIG_MAP = Kind("", "v1", "ConfigMap", "configmaps")
CUSTOM_RESOURCE_DEFINITION = _cluster_kind(
    "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions"
)
DEPLOYMENT = Kind("apps", "v1", "Deployment", "deployments")
DEVICE_CLASS = _cluster_kind("resource.k8s.io", "v1", "DeviceClass", "deviceclasses")
ENDPOINT_SLICE = Kind("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices")
EVENT = Kind("", "v1", "Event", "events")
GANG = Kind("scheduling.k8s.io", GANG_VERSIONS[0], "PodGroup", "podgroups")
HPA = Kind("autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers")
INGRESS = Kind("networking.k8s.io", "v1", "Ingress", "ingresses")
JOB = Kind("batch", "v1", "Job", "jobs")
LEASE = Kind("coordination.k8s.io", "v1", "Lease", "leases")
LIMIT_RANGE = Kind("", "v1", "LimitRange", "limitranges")
JOB_SET = Kind("jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets")
CLUSTER_QUEUE = _cluster_kind(*_KUEUE, "ClusterQueue", "clusterqueues")
LOCAL_QUEUE = Kind(*_KUEUE, "LocalQueue", "localqueues")
QUEUED_WORKLOAD = Kind(*_KUEUE, "Workload", "workloads")
QUEUE_PRIORITY = _cluster_kind(*_KUEUE, "WorkloadPriorityClass", "workloadpriorityclasses")
MPI_JOB = Kind("kubeflow.org", "v2beta1", "MPIJob", "mpijobs")
NAMESPACE = _cluster_kind("", "v1", "Namespace", "namespaces")
NETWORK_POLICY = Kind("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies")
NODE = _cluster_kind("", "v1", "Node", "nodes")
POD = Kind("", "v1", "Pod", "pods")
POD_GROUP = Kind("scheduling.volcano.sh", "v1beta1", "PodGroup", "podgroups")
POD_METRICS = Kind("metrics.k8s.io", "v1beta1", "PodMetrics", "pods")
POD_DISRUPTION_BUDGET = Kind("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets")
PRIORITY_CLASS = _cluster_kind("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses")
PVC = Kind("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims")
RAY_SERVE_GRAPH = Kind("kubectl-sky.dev", "v1alpha1", "RayServeGraph", "rayservegraphs")
RAY_CLUSTER = Kind("ray.io", "v1", "RayCluster", "rayclusters")
RAY_SERVICE = Kind("ray.io", "v1", "RayService", "rayservices")
REPLICA_SET = Kind("apps", "v1", "ReplicaSet", "replicasets")
RESOURCE_CLAIM = Kind("resource.k8s.io", "v1", "ResourceClaim", "resourceclaims")
RESOURCE_FLAVOR = _cluster_kind(*_KUEUE, "ResourceFlavor", "resourceflavors")
RESOURCE_QUOTA = Kind("", "v1", "ResourceQuota", "resourcequotas")
RESOURCE_SLICE = _cluster_kind("resource.k8s.io", "v1", "ResourceSlice", "resourceslices")
ROLE = Kind("rbac.authorization.k8s.io", "v1", "Role", "roles")
ROLE_BINDING = Kind("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings")
SECRET = Kind("", "v1", "Secret", "secrets")
SELF_SUBJECT_ACCESS_REVIEW = _cluster_kind(
    "authorization.k8s.io", "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews"
)
SELF_SUBJECT_REVIEW = _cluster_kind(
    "authentication.k8s.io", "v1", "SelfSubjectReview", "selfsubjectreviews"
)
SERVICE = Kind("", "v1", "Service", "services")
SERVICE_ACCOUNT = Kind("", "v1", "ServiceAccount", "serviceaccounts")
STORAGE_CLASS = _cluster_kind("storage.k8s.io", "v1", "StorageClass", "storageclasses")
TOPOLOGY = _cluster_kind(*_KUEUE, "Topology", "topologies")
VOLCANO_QUEUE = _cluster_kind("scheduling.volcano.sh", "v1beta1", "Queue", "queues")

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
