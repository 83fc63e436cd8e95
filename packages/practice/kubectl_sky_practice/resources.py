"""The kinds that the API serves: built-in ones, and those of CRDs."""

from dataclasses import dataclass, field
from typing import Any

from kubectl_sky_practice import problems

Json = dict[str, Any]


@dataclass(frozen=True)
class Resource:
    """A kind in one version. `storage` is its plural with its group: `jobs.batch`."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True
    short: tuple[str, ...] = ()
    status: bool = False
    categories: tuple[str, ...] = ()
    # of a CRD: the version's entry in spec.versions
    custom: Json = field(default_factory=dict, hash=False, compare=False)

    @property
    def storage(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified_kind(self) -> str:
        return f"{self.kind}.{self.group}" if self.group else self.kind


_RBAC = "rbac.authorization.k8s.io"
_BUILT_IN = (  # group, kind, plural, short names
    ("", "Namespace", "namespaces", "ns"),
    ("", "Node", "nodes", "no"),
    ("", "Pod", "pods", "po"),
    ("", "ConfigMap", "configmaps", "cm"),
    ("", "Secret", "secrets", ""),
    ("", "Service", "services", "svc"),
    ("", "ServiceAccount", "serviceaccounts", "sa"),
    ("", "Event", "events", "ev"),
    ("", "PersistentVolumeClaim", "persistentvolumeclaims", "pvc"),
    ("", "ResourceQuota", "resourcequotas", "quota"),
    ("", "LimitRange", "limitranges", "limits"),
    ("apps", "Deployment", "deployments", "deploy"),
    ("apps", "ReplicaSet", "replicasets", "rs"),
    ("autoscaling", "HorizontalPodAutoscaler", "horizontalpodautoscalers", "hpa"),
    ("batch", "Job", "jobs", ""),
    ("coordination.k8s.io", "Lease", "leases", ""),
    ("networking.k8s.io", "Ingress", "ingresses", "ing"),
    ("networking.k8s.io", "NetworkPolicy", "networkpolicies", "netpol"),
    (_RBAC, "Role", "roles", ""),
    (_RBAC, "RoleBinding", "rolebindings", ""),
    (_RBAC, "ClusterRole", "clusterroles", ""),
    (_RBAC, "ClusterRoleBinding", "clusterrolebindings", ""),
    ("storage.k8s.io", "StorageClass", "storageclasses", "sc"),
    ("scheduling.k8s.io", "PriorityClass", "priorityclasses", "pc"),
    ("apiextensions.k8s.io", "CustomResourceDefinition", "customresourcedefinitions", "crd crds"),
)
_CLUSTER_SCOPED = {"Namespace", "Node", "StorageClass", "PriorityClass"}
_CLUSTER_SCOPED |= {"ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition"}
_WITH_STATUS = {"Namespace", "Node", "Pod", "Service", "PersistentVolumeClaim", "Job", "Ingress"}
_WITH_STATUS |= {"ResourceQuota", "CustomResourceDefinition"}
_WITH_STATUS |= {"Deployment", "ReplicaSet", "HorizontalPodAutoscaler"}
_IN_ALL = {"Pod", "Service", "Job", "Deployment", "ReplicaSet", "HorizontalPodAutoscaler"}


def _resource(group: str, kind: str, plural: str, short: str) -> Resource:
    version = "v2" if group == "autoscaling" else "v1"
    categories = ("all",) if kind in _IN_ALL else ()
    return Resource(
        *(group, version, kind, plural),
        namespaced=kind not in _CLUSTER_SCOPED,
        short=tuple(short.split()),
        status=kind in _WITH_STATUS,
        categories=categories,
    )


BUILT_IN = tuple(_resource(*row) for row in _BUILT_IN)


class Resources:
    def __init__(self) -> None:
        self._served = {
            (resource.group, resource.version, resource.plural): resource for resource in BUILT_IN
        }

    def all(self) -> list[Resource]:
        return list(self._served.values())

    def find(self, group: str, version: str, plural: str) -> Resource:
        """Return a kind by its path. Raises Problem."""
        try:
            return self._served[group, version, plural]
        except KeyError:
            raise problems.no_path() from None

    def serves(self, path: str) -> bool:
        first, _, rest = path.strip("/").partition("/")
        group, _, below = rest.partition("/")
        served = first == "apis" and any(resource.group == group for resource in self.all())
        return first == "api" or (served and bool(below))

    def stored(self, storage: str) -> Resource:
        """Return a kind by its name in the state, in whichever version."""
        plural, _, group = storage.partition(".")
        return next(
            resource
            for resource in self.all()
            if (resource.plural, resource.group) == (plural, group)
        )

    def define(self, definition: Json) -> None:
        self.forget(definition)
        spec = definition["spec"]
        names = spec["names"]
        for version in spec["versions"]:
            if version.get("served"):
                key = (spec["group"], version["name"], names["plural"])
                self._served[key] = Resource(
                    *(spec["group"], version["name"], names["kind"], names["plural"]),
                    namespaced=spec["scope"] == "Namespaced",
                    short=tuple(names.get("shortNames") or ()),
                    status="status" in (version.get("subresources") or {}),
                    categories=tuple(names.get("categories") or ()),
                    custom=version,
                )

    def forget(self, definition: Json) -> None:
        spec = definition["spec"]
        names = (spec["group"], spec["names"]["plural"])
        self._served = {
            key: resource
            for key, resource in self._served.items()
            if (resource.group, resource.plural) != names
        }
