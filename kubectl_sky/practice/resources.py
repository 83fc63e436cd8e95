"""The kinds that the practice cluster serves, and those that users add as CRDs."""

from dataclasses import dataclass, field
from typing import Any

from kubectl_sky.practice import problems

Json = dict[str, Any]


@dataclass(frozen=True)
class Resource:
    """A kind in one version. `storage` is its name for humans and for the state: `jobs.batch`."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True
    short: tuple[str, ...] = ()
    status: bool = False
    categories: tuple[str, ...] = ()
    # A CRD's own: its version's entry in spec.versions.
    custom: Json = field(default_factory=dict, hash=False, compare=False)

    @property
    def storage(self) -> str:
        """The plural with its group."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def api_version(self) -> str:
        """As objects say it."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified_kind(self) -> str:
        """The kind with its group, as the messages of the API have it."""
        return f"{self.kind}.{self.group}" if self.group else self.kind


_BATCH, _RBAC = "batch", "rbac.authorization.k8s.io"
_CRDS = "customresourcedefinitions.apiextensions.k8s.io"

BUILT_IN = (
    Resource("", "v1", "Namespace", "namespaces", namespaced=False, short=("ns",), status=True),
    Resource("", "v1", "Node", "nodes", namespaced=False, short=("no",), status=True),
    Resource("", "v1", "Pod", "pods", short=("po",), status=True, categories=("all",)),
    Resource("", "v1", "ConfigMap", "configmaps", short=("cm",)),
    Resource("", "v1", "Secret", "secrets"),
    Resource("", "v1", "Service", "services", short=("svc",), status=True, categories=("all",)),
    Resource("", "v1", "ServiceAccount", "serviceaccounts", short=("sa",)),
    Resource("", "v1", "Event", "events", short=("ev",)),
    Resource(
        "", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", short=("pvc",), status=True
    ),
    Resource(
        "",
        "v1",
        "PersistentVolume",
        "persistentvolumes",
        namespaced=False,
        short=("pv",),
        status=True,
    ),
    Resource("", "v1", "ResourceQuota", "resourcequotas", short=("quota",), status=True),
    Resource("", "v1", "LimitRange", "limitranges", short=("limits",)),
    Resource(_BATCH, "v1", "Job", "jobs", status=True, categories=("all",)),
    Resource("networking.k8s.io", "v1", "Ingress", "ingresses", short=("ing",), status=True),
    Resource("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies", short=("netpol",)),
    Resource(_RBAC, "v1", "Role", "roles"),
    Resource(_RBAC, "v1", "RoleBinding", "rolebindings"),
    Resource(_RBAC, "v1", "ClusterRole", "clusterroles", namespaced=False),
    Resource(_RBAC, "v1", "ClusterRoleBinding", "clusterrolebindings", namespaced=False),
    Resource(
        "storage.k8s.io", "v1", "StorageClass", "storageclasses", namespaced=False, short=("sc",)
    ),
    Resource(
        "scheduling.k8s.io",
        "v1",
        "PriorityClass",
        "priorityclasses",
        namespaced=False,
        short=("pc",),
    ),
    Resource(
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        namespaced=False,
        short=("crd", "crds"),
        status=True,
    ),
)


class Resources:
    """All kinds that are served now."""

    def __init__(self) -> None:
        self._known = {(one.group, one.version, one.plural): one for one in BUILT_IN}

    def all(self) -> list[Resource]:
        """Return every kind in every version."""
        return list(self._known.values())

    def find(self, group: str, version: str, plural: str) -> Resource:
        """Return a kind by its path. Raises Problem."""
        try:
            return self._known[group, version, plural]
        except KeyError:
            raise problems.no_path() from None

    def serves(self, path: str) -> bool:
        """Say whether there are kinds of the group that a path is of."""
        first, _, rest = path.strip("/").partition("/")
        group, _, below = rest.partition("/")
        known = first == "apis" and any(one.group == group for one in self.all())
        return first == "api" or (known and bool(below))

    def stored(self, storage: str) -> Resource:
        """Return a kind by its name in the state, in whichever version."""
        plural, _, group = storage.partition(".")
        return next(one for one in self.all() if (one.plural, one.group) == (plural, group))

    def of(self, api_version: str, kind: str) -> Resource | None:
        """Return the kind that an object says it is of."""
        group, _, version = api_version.rpartition("/")
        for one in self.all():
            if (one.group, one.version, one.kind) == (group, version, kind):
                return one
        return None

    def define(self, definition: Json) -> None:
        """Serve what a CustomResourceDefinition says, in the versions that it serves."""
        self.forget(definition)
        spec = definition["spec"]
        names = spec["names"]
        for version in spec["versions"]:
            if version.get("served"):
                key = (spec["group"], version["name"], names["plural"])
                self._known[key] = Resource(
                    *(spec["group"], version["name"], names["kind"], names["plural"]),
                    namespaced=spec["scope"] == "Namespaced",
                    short=tuple(names.get("shortNames") or ()),
                    status="status" in (version.get("subresources") or {}),
                    categories=tuple(names.get("categories") or ()),
                    custom=version,
                )

    def forget(self, definition: Json) -> None:
        """Serve no more what a CustomResourceDefinition said."""
        spec = definition["spec"]
        gone = (spec["group"], spec["names"]["plural"])
        self._known = {
            key: one for key, one in self._known.items() if (one.group, one.plural) != gone
        }
