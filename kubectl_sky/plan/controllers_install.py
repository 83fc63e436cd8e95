"""What `controllers install` renders: controllers in a cluster, with the least rights."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from kubectl_sky.errors import UserError
from kubectl_sky.plan.install import CONTROLLERS, DEFAULT_IMAGE, Install, check_namespace
from kubectl_sky.plan.labels import standard_labels
from kubectl_sky.words import names
from kubectl_sky.words.names import CONTROLLERS_NAMESPACE

NAMES = tuple(CONTROLLERS)

_LEASES = "coordination.k8s.io"
_RBAC = "rbac.authorization.k8s.io"


@dataclass(frozen=True)
class Rule:
    """One RBAC rule; `objects` are names of objects, for all of them if it is empty."""

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    objects: tuple[str, ...] = ()

    @property
    def fields(self) -> Mapping[str, object]:
        """The rule as in a Role."""
        rule: dict[str, object] = {
            "apiGroups": [self.group],
            "resources": list(self.resources),
            "verbs": list(self.verbs),
        }
        return rule | ({"resourceNames": list(self.objects)} if self.objects else {})


# To resume and to stop is to patch, to cancel is to delete: none of them can create a pod.
_LEAD = ("delete", "list", "patch", "watch")

# The rights of each controller in the namespaces that it serves.
RULES: Mapping[str, Sequence[Rule]] = {
    "tasks": (
        Rule("batch", ("jobs",), _LEAD),
        Rule("jobset.x-k8s.io", ("jobsets",), _LEAD),
        Rule("kubeflow.org", ("mpijobs",), _LEAD),
        Rule("workload.codeflare.dev", ("appwrappers",), _LEAD),
        Rule("", ("pods",), ("list",)),
        # Tells a Job that was deleted from one that submit has not created yet.
        Rule("", ("services",), ("list",)),
    ),
    "ray": (
        Rule("kubectl-sky.dev", ("rayservegraphs",), ("list", "watch")),
        Rule("kubectl-sky.dev", ("rayservegraphs/status",), ("patch",)),
        Rule("ray.io", ("rayservices",), ("create", "get", "list", "patch", "watch")),
        Rule("", ("configmaps",), ("create", "get", "patch")),  # the builder
        Rule("", ("secrets",), ("get",)),  # tokens, CAs and signatures, by name
        Rule("", ("events",), ("create",)),
    ),
    "fairshare": (
        Rule("scheduling.volcano.sh", ("podgroups",), ("list", "watch")),
        Rule("", ("events",), ("create",)),
    ),
}
# The rights that a controller needs in all namespaces, or on kinds without a namespace.
CLUSTER_RULES: dict[str, tuple[Rule, ...]] = {
    # Kinds may be installed later.
    name: (Rule("apiextensions.k8s.io", ("customresourcedefinitions",), ("list", "watch")),)
    for name in NAMES
}
_CLASS_VERBS = ("get", "list", "watch", "create", "patch", "delete")  # RBAC knows no labels
CLUSTER_RULES["fairshare"] += (Rule("scheduling.k8s.io", ("priorityclasses",), _CLASS_VERBS),)
# The rights that a controller needs in its own namespace.
OWN_RULES: Mapping[str, Sequence[Rule]] = {
    "fairshare": (Rule("", ("configmaps",), ("get", "list", "create", "delete")),),  # its journal
}
# Templates of CRDs that a controller needs.
CRDS: Mapping[str, Sequence[str]] = {"ray": ("ray/rayservegraph-crd.yaml.j2",)}


@dataclass(frozen=True)
class Role:
    """A Role or ClusterRole and its binding; `namespace` "" for a ClusterRole."""

    name: str
    namespace: str
    labels: Mapping[str, str]
    rules: Sequence[Mapping[str, object]]
    subject: Mapping[str, str]
    annotations: Mapping[str, str]

    @property
    def kind(self) -> str:
        """The kind of the role."""
        return "Role" if self.namespace else "ClusterRole"

    @property
    def binding_kind(self) -> str:
        """The kind of its binding."""
        return f"{self.kind}Binding"


@dataclass(frozen=True)
class ControllerInstall(Install):
    """The values of the objects of one controller, which has an account of its own.

    It acts on the namespace `served`; on all if that is empty.
    """

    controller: str = ""
    served: str = ""
    port: int = 8080
    settings: str = "kubectl-sky-settings"  # ConfigMap with settings.yaml, which may be missing
    mount: str = "/etc/kubectl-sky"
    retention_seconds: int | None = None  # of finished tasks

    @property
    def namespace_labels(self) -> Mapping[str, str]:
        """The labels of a namespace that is for the controllers alone."""
        return {
            **standard_labels(names.MANAGER, names.MANAGER),
            "pod-security.kubernetes.io/enforce": "restricted",
        }

    @property
    def reaches_sources(self) -> bool:
        """Whether the pods reach more than DNS and the API server."""
        return self.controller == "ray"

    @property
    def arguments(self) -> list[str]:
        """The arguments of the container."""
        served = ["-n", self.served] if self.served else ["-A"]
        seconds = self.retention_seconds
        retention = [] if seconds is None else ["--delete-finished-after", f"{seconds}s"]
        health = ["--health-host", "$(POD_IP)", "--health-port", str(self.port)]
        return ["controllers", "run", *served, "--only", self.controller, *retention, *health]

    @property
    def roles(self) -> Iterator[Role]:
        """The roles of the controller, and the one of those who read its Lease."""
        lease = names.controller_lease(self.controller, not self.served)
        home = self.served or CONTROLLERS_NAMESPACE
        rules = RULES[self.controller]
        own = (
            Rule(_LEASES, ("leases",), ("create",)),  # RBAC cannot limit this by name
            Rule(_LEASES, ("leases",), ("get", "patch"), (lease,)),
            *OWN_RULES.get(self.controller, ()),
        )
        if self.served:
            yield self._role(self.name, home, (*rules, *own))
        else:
            yield self._role(self.name, "", (*rules, *CLUSTER_RULES[self.controller]))
            yield self._role(self.name, home, own)
        if self.controller == "tasks":
            read = Rule(_LEASES, ("leases",), ("get",), (lease,))
            everybody = {"apiGroup": _RBAC, "kind": "Group", "name": "system:authenticated"}
            yield self._role("kubectl-sky-lease-reader", home, (read,), everybody)

    def _role(
        self,
        name: str,
        namespace: str,
        rules: Sequence[Rule],
        subject: Mapping[str, str] | None = None,
    ) -> Role:
        account = {"kind": "ServiceAccount", "name": self.name, "namespace": self.namespace}
        fields = [rule.fields for rule in rules]
        return Role(name, namespace, self.labels, fields, subject or account, self.annotations)


def controllers_install(
    namespace: str | None,
    image: str | None,
    controllers: Sequence[str],
    retention_seconds: int | None = None,
    served: str | None = None,
) -> tuple[ControllerInstall, ...]:
    """Return the values of the flags, for each controller.

    Without a namespace, the controllers serve all; with one, that namespace, or `served`. Raises
    UserError for an invalid name.
    """
    if served and not namespace:
        raise UserError("--for requires -n", "choose a namespace that its users cannot write to")
    if namespace:  # PriorityClasses have no namespace
        controllers = [name for name in controllers if name != "fairshare"]
    if not controllers:
        raise UserError("fairshare acts on all namespaces", "omit -n")
    return tuple(
        ControllerInstall(
            name=CONTROLLERS[controller],
            namespace=namespace or CONTROLLERS_NAMESPACE,
            image=image or DEFAULT_IMAGE,
            controller=controller,
            served=check_namespace(served) if served else namespace or "",
            retention_seconds=retention_seconds,
        )
        for controller in controllers
    )
