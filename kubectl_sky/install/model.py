"""Programs of ours in a cluster: the server without rights, controllers with the least rights."""

import re
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from kubectl_sky import __version__
from kubectl_sky.errors import UserError
from kubectl_sky.words import names
from kubectl_sky.words.names import CONTROLLERS, CONTROLLERS_NAMESPACE, SERVER, standard_labels

REPOSITORY = "ghcr.io/kubectl-sky/kubectl-sky"
IMAGE_DIGEST = ""  # a release writes that of its image, which nobody can move: .ci/digest.sh
DEFAULT_IMAGE = f"{REPOSITORY}:{__version__}{IMAGE_DIGEST and '@'}{IMAGE_DIGEST}"

# Of the Service, and of most API servers behind it: network plugins look at one or the other.
API_SERVER_PORTS = (443, 6443)

# A name and a tag, or a digest, which nobody can move to another image.
_IMAGE = re.compile(r"[^\s@-][^\s@]{0,1000}(@sha256:[0-9a-f]{64})?")
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def _checked_namespace(name: str) -> str:
    """Return the name of a namespace. Raises UserError for an invalid one."""
    if not _LABEL.fullmatch(name):
        raise UserError(f'"{name}" is not a valid namespace')
    return name


class Install(Struct, frozen=True):
    """The values that the objects of a program share."""

    name: str
    namespace: str = CONTROLLERS_NAMESPACE
    image: str = DEFAULT_IMAGE
    api_server_ports: Sequence[int] = API_SERVER_PORTS

    def __post_init__(self) -> None:
        """Raise UserError for an invalid namespace or image."""
        _checked_namespace(self.namespace)
        if not _IMAGE.fullmatch(self.image):
            hint = "use NAME:TAG, or NAME@sha256: and 64 hexadecimal digits"
            raise UserError(f'"{self.image}" is not a valid image', hint)

    @property
    def ingress_ports(self) -> Sequence[int]:
        """The ports that other pods may reach."""
        return ()

    @property
    def reaches_sources(self) -> bool:
        """Whether the pods reach more than DNS and the API server."""
        return False

    @property
    def annotations(self) -> Mapping[str, str]:
        """The annotations of all objects: none."""
        return {}

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels of all objects."""
        return standard_labels(self.name, self.name)

    @property
    def selector(self) -> Mapping[str, str]:
        """The labels that select the pods.

        A task may have the same name, but not the same instance.
        """
        return {names.APP_NAME: self.name, names.INSTANCE: self.name}

    @property
    def pod_security(self) -> Mapping[str, object]:
        """The security context of pods at the Pod Security level restricted."""
        return {
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "runAsGroup": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        }

    @property
    def container_security(self) -> Mapping[str, object]:
        """The security context of containers at the Pod Security level restricted."""
        return {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }


class ServerInstall(Install, frozen=True):
    """The values of the server's objects; `host_name` is that of the Ingress, or empty."""

    name: str = SERVER
    host_name: str = ""
    audit_log: str = ""
    port: int = 8000
    mount: str = "/etc/kubectl-sky-server"

    def __post_init__(self) -> None:
        """Raise UserError for an invalid value."""
        super().__post_init__()
        if self.host_name and not names.SUBDOMAIN.fullmatch(self.host_name):
            raise UserError(
                f'"{self.host_name}" is not a valid host name', "example: sky.example.com"
            )

    @property
    def ingress_ports(self) -> tuple[int]:
        """The port that other pods may reach."""
        return (self.port,)

    @property
    def service_host(self) -> str:
        """The name of the Service, which proxies in the cluster may send as Host."""
        return f"{self.name}.$(POD_NAMESPACE).svc"

    @property
    def arguments(self) -> list[str]:
        """The arguments of the container."""
        hosts = [self.host_name, self.service_host] if self.host_name else []
        allowed = [word for host in hosts for word in ("--allow-host", host)]
        audit = ["--audit-log", self.audit_log] if self.audit_log else []
        listen = ["--host", "0.0.0.0", "--port", str(self.port), "--behind-proxy"]
        return ["api", *listen, *allowed, *audit]

    @property
    def kubeconfig_path(self) -> str:
        """The path of the kubeconfig in the container."""
        return f"{self.mount}/kubeconfig"

    @property
    def kubeconfig(self) -> str:
        """A kubeconfig with the address and CA of the API server, and no credentials."""
        return (
            "apiVersion: v1\n"
            "kind: Config\n"
            "clusters:\n"
            "  - name: here\n"
            "    cluster:\n"
            "      server: https://kubernetes.default.svc\n"
            f"      certificate-authority: {self.mount}/ca.crt\n"
            "contexts:\n"
            "  - name: here\n"
            "    context: {cluster: here}\n"
            "current-context: here\n"
        )


class Flags(Struct, frozen=True):
    """What the flags of both installs say; `namespace` is None without -n."""

    namespace: str | None = None
    image: str | None = None
    api_server_ports: Sequence[int] = API_SERVER_PORTS


def server_install(
    flags: Flags, host_name: str | None = None, *, audit_log: str = ""
) -> ServerInstall:
    """Return the values of the flags. Raises UserError for an invalid name."""
    return ServerInstall(
        namespace=flags.namespace or CONTROLLERS_NAMESPACE,
        image=flags.image or DEFAULT_IMAGE,
        api_server_ports=flags.api_server_ports,
        host_name=(host_name or "").lower(),
        audit_log=audit_log,
    )


_LEASES = "coordination.k8s.io"
_RBAC = "rbac.authorization.k8s.io"


class Rule(Struct, frozen=True):
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


# To resume and to stop is to patch, to cancel is to delete: none of them can create an object.
_LEAD = ("delete", "list", "patch", "watch")


class Rights(Struct, frozen=True):
    """What a controller may do, and the templates of the CRDs that it needs.

    `served` are its rights in the namespaces that it serves, `cluster` those in all namespaces or
    on kinds without a namespace, and `own` those in its own namespace.
    """

    served: Sequence[Rule]
    cluster: Sequence[Rule] = ()
    own: Sequence[Rule] = ()
    crds: Sequence[str] = ()
    reaches_sources: bool = False  # whether its pods reach more than DNS and the API server


# Kinds may be installed later.
_CRDS = Rule("apiextensions.k8s.io", ("customresourcedefinitions",), ("list", "watch"))
_CLASS_VERBS = ("get", "list", "watch", "create", "patch", "delete")  # RBAC knows no labels

RIGHTS: Mapping[str, Rights] = {
    "tasks": Rights(
        served=(
            Rule("batch", ("jobs",), _LEAD),
            Rule("jobset.x-k8s.io", ("jobsets",), _LEAD),
            Rule("kubeflow.org", ("mpijobs",), _LEAD),
            Rule("workload.codeflare.dev", ("appwrappers",), _LEAD),
            Rule("", ("pods",), ("list", "patch", "watch")),
            # Tells a Job that was deleted from one that submit has not created yet.
            Rule("", ("services",), ("list",)),
        ),
        cluster=(_CRDS,),
    ),
    "ray": Rights(
        served=(
            Rule("kubectl-sky.dev", ("rayservegraphs",), ("list", "watch")),
            Rule("kubectl-sky.dev", ("rayservegraphs/status",), ("patch",)),
            Rule("ray.io", ("rayservices",), ("create", "get", "list", "patch", "watch")),
            Rule("", ("configmaps",), ("create", "get", "patch")),  # the builder
            Rule("", ("secrets",), ("get",)),  # tokens, CAs and signatures, by name
            Rule("", ("events",), ("create",)),
        ),
        cluster=(_CRDS,),
        crds=("ray/rayservegraph-crd.yaml.j2",),
        reaches_sources=True,
    ),
    "fairshare": Rights(
        served=(
            Rule("scheduling.volcano.sh", ("podgroups",), ("list", "watch")),
            Rule("", ("events",), ("create",)),
        ),
        cluster=(_CRDS, Rule("scheduling.k8s.io", ("priorityclasses",), _CLASS_VERBS)),
        own=(Rule("", ("configmaps",), ("get", "list", "create", "delete")),),  # its journal
    ),
}


class Role(Struct, frozen=True):
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


class ControllerInstall(Install, frozen=True):
    """The values of the objects of one controller, which has an account of its own.

    It acts on the namespace `served`; on all if that is empty.
    """

    controller: str = ""
    served: str = ""
    port: int = 8080
    settings: str = "kubectl-sky-settings"  # ConfigMap with settings.yaml, which may be missing
    mount: str = "/etc/kubectl-sky"
    retention_seconds: int | None = None  # of finished tasks
    replicas: int = 1

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
        return RIGHTS[self.controller].reaches_sources

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
        rights = RIGHTS[self.controller]
        own = (
            Rule(_LEASES, ("leases",), ("create",)),  # RBAC cannot limit this by name
            Rule(_LEASES, ("leases",), ("get", "patch"), (lease,)),
            *rights.own,
        )
        if self.served:
            yield self._role(self.name, home, (*rights.served, *own))
        else:
            yield self._role(self.name, "", (*rights.served, *rights.cluster))
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
    flags: Flags,
    controllers: Sequence[str],
    *,
    retention_seconds: int | None = None,
    served: str | None = None,
    replicas: int = 1,
) -> tuple[ControllerInstall, ...]:
    """Return the values of the flags, for each controller.

    Without a namespace, the controllers serve all; with one, that namespace, or `served`. Raises
    UserError for an invalid name.
    """
    namespace = flags.namespace
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
            image=flags.image or DEFAULT_IMAGE,
            api_server_ports=flags.api_server_ports,
            controller=controller,
            served=_checked_namespace(served) if served else namespace or "",
            retention_seconds=retention_seconds,
            replicas=replicas,
        )
        for controller in controllers
    )
