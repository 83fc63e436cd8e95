"""Programs of ours in a cluster: the server without rights, controllers with the least rights."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from kubectl_sky import __version__
from kubectl_sky.errors import UserError
from kubectl_sky.words import names
from kubectl_sky.words.names import CONTROLLERS, CONTROLLERS_NAMESPACE, SERVER, standard_labels
from kubectl_sky.words.settings import Settings

REPOSITORY = "ghcr.io/kubectl-sky/kubectl-sky"
IMAGE_DIGEST = ""  # a release writes that of its image, which nobody can move: .ci/digest.sh
DEFAULT_IMAGE = f"{REPOSITORY}:{__version__}{IMAGE_DIGEST and '@'}{IMAGE_DIGEST}"

# Of the Service, and of most API servers behind it: network plugins look at one or the other.
API_SERVER_PORTS = (443, 6443)

# A name and a tag, or a digest, which nobody can move to another image.
_IMAGE = re.compile(r"[^\s@-][^\s@]{0,1000}(@sha256:[0-9a-f]{64})?")
_SERVICE = re.compile(r"[a-z0-9-]+\.([a-z0-9-]+)\.svc(\.cluster\.local)?")
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def _check_namespace(name: str) -> str:
    if not _LABEL.fullmatch(name):
        raise UserError(f'"{name}" is not a valid namespace')
    return name


class Install(Struct, frozen=True):
    """The values that the objects of a program share. Raises UserError for an invalid one."""

    name: str
    namespace: str = CONTROLLERS_NAMESPACE
    image: str = DEFAULT_IMAGE
    api_server_ports: Sequence[int] = API_SERVER_PORTS
    ingress_ports: Sequence[int] = ()  # that other pods may reach
    reaches_sources: bool = False  # whether the pods reach more than DNS and the API server
    annotations: Mapping[str, str] = {}
    prometheus: str = ""  # its URL: pods get a token of their account, and may reach it

    def __post_init__(self) -> None:
        _check_namespace(self.namespace)
        if not _IMAGE.fullmatch(self.image):
            hint = "use NAME:TAG, or NAME@sha256: and 64 hexadecimal digits"
            raise UserError(f'"{self.image}" is not a valid image', hint)

    @property
    def prometheus_rule(self) -> Mapping[str, Any]:
        """Where the NetworkPolicy lets pods reach Prometheus: its namespace, or its port."""
        url = urlsplit(self.prometheus)
        if service := _SERVICE.fullmatch(url.hostname or ""):
            labels = {"kubernetes.io/metadata.name": service[1]}
            return {"to": [{"namespaceSelector": {"matchLabels": labels}}]}
        port = url.port or (443 if url.scheme == "https" else 80)
        return {"ports": [{"protocol": "TCP", "port": port}]}

    @property
    def labels(self) -> Mapping[str, str]:
        return standard_labels(self.name, self.name)

    @property
    def selector(self) -> Mapping[str, str]:
        """The labels that select the pods.

        A task may have the same name, but not the same instance.
        """
        return {names.APP_NAME: self.name, names.INSTANCE: self.name}


class ServerInstall(Install, frozen=True):
    """The values of the server's objects; `host_name` is that of the Ingress, or empty."""

    name: str = SERVER
    ingress_ports: Sequence[int] = (8000,)
    host_name: str = ""
    audit_log: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.host_name and not names.SUBDOMAIN.fullmatch(self.host_name):
            raise UserError(
                f'"{self.host_name}" is not a valid host name', "example: sky.example.com"
            )

    @property
    def arguments(self) -> list[str]:
        # Proxies in the cluster may send the name of the Service as Host.
        service_host = f"{self.name}.$(POD_NAMESPACE).svc"
        hosts = ["$(HOST_NAME)", service_host] if self.host_name else []
        allowed = [word for host in hosts for word in ("--allow-host", host)]
        audit = ["--audit-log", self.audit_log] if self.audit_log else []
        listen = ["--host", "0.0.0.0", "--port", str(self.ingress_ports[0]), "--behind-proxy"]
        return ["api", *listen, *allowed, *audit]


class Flags(Struct, frozen=True):
    """What the flags of both installs say; `namespace` is None without -n."""

    namespace: str | None = None
    image: str | None = None
    api_server_ports: Sequence[int] = API_SERVER_PORTS


def server_install(
    flags: Flags, host_name: str | None = None, *, audit_log: str = "", prometheus: str = ""
) -> ServerInstall:
    """Return the values of the flags. Raises UserError for an invalid name."""
    return ServerInstall(
        namespace=flags.namespace or CONTROLLERS_NAMESPACE,
        image=flags.image or DEFAULT_IMAGE,
        api_server_ports=flags.api_server_ports,
        host_name=(host_name or "").lower(),
        audit_log=audit_log,
        prometheus=prometheus,
    )


_LEASES = "coordination.k8s.io"
_RBAC = "rbac.authorization.k8s.io"


_DEFAULTS = Settings()
Rule = Mapping[str, Sequence[str]]


def _rule(
    group: str, resources: Sequence[str], verbs: Sequence[str], objects: Sequence[str] = ()
) -> Rule:
    """Return an RBAC rule; `objects` are names of objects, for all of them if it is empty."""
    rule = {"apiGroups": [group], "resources": list(resources), "verbs": list(verbs)}
    return rule | ({"resourceNames": list(objects)} if objects else {})


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
_CRDS = _rule("apiextensions.k8s.io", ("customresourcedefinitions",), ("list", "watch"))
_CLASS_VERBS = ("get", "list", "watch", "create", "patch", "delete")  # RBAC knows no labels

_HISTORY = (  # of the setting `history`; RBAC cannot limit `create` by name
    _rule("", ("configmaps",), ("create",)),
    _rule("", ("configmaps",), ("get", "patch"), (names.HISTORY,)),
    _rule("", ("pods/log",), ("get",)),  # for the steps in them
)

RIGHTS: Mapping[str, Rights] = {
    "tasks": Rights(
        served=(
            _rule("batch", ("jobs",), _LEAD),
            _rule("jobset.x-k8s.io", ("jobsets",), _LEAD),
            _rule("kubeflow.org", ("mpijobs",), _LEAD),
            _rule("workload.codeflare.dev", ("appwrappers",), _LEAD),
            _rule("", ("pods",), ("delete", "get", "list", "patch", "watch")),
            # Tells a Job that was deleted from one that submit has not created yet.
            _rule("", ("services",), ("list",)),
        ),
        cluster=(_CRDS,),
    ),
    "ray": Rights(
        served=(
            _rule("kubectl-sky.dev", ("rayservegraphs",), ("list", "watch")),
            _rule("kubectl-sky.dev", ("rayservegraphs/status",), ("patch",)),
            _rule("ray.io", ("rayservices",), ("create", "get", "list", "patch", "watch")),
            _rule("", ("configmaps",), ("create", "get", "patch")),  # the builder
            _rule("", ("secrets",), ("get",)),  # tokens, CAs and signatures, by name
            _rule("", ("events",), ("create",)),
        ),
        cluster=(_CRDS,),
        crds=("ray/rayservegraph-crd.yaml.j2",),
        reaches_sources=True,
    ),
    "fairshare": Rights(
        served=(
            _rule("scheduling.volcano.sh", ("podgroups",), ("list", "watch")),
            _rule("", ("events",), ("create",)),
        ),
        cluster=(_CRDS, _rule("scheduling.k8s.io", ("priorityclasses",), _CLASS_VERBS)),
        own=(_rule("", ("configmaps",), ("get", "list", "create", "delete")),),  # its journal
    ),
}


class Role(Struct, frozen=True):
    """A Role or ClusterRole and its binding; `namespace` "" for a ClusterRole."""

    name: str
    namespace: str
    labels: Mapping[str, str]
    rules: Sequence[Rule]
    subject: Mapping[str, str]
    annotations: Mapping[str, str] = {}

    @property
    def kind(self) -> str:
        return "Role" if self.namespace else "ClusterRole"


class ControllerInstall(Install, frozen=True):
    """The values of the objects of one controller, which has an account of its own.

    It acts on the namespace `served`; on all if that is empty.
    """

    controller: str = ""
    served: str = ""
    retention_seconds: int | None = None  # of finished tasks
    keeps_history: bool = False
    replicas: int = 1

    @property
    def namespace_labels(self) -> Mapping[str, str]:
        standard = standard_labels(names.MANAGER, names.MANAGER)
        return standard | {"pod-security.kubernetes.io/enforce": "restricted"}

    @property
    def arguments(self) -> list[str]:
        served = ["-n", self.served] if self.served else ["-A"]
        seconds = self.retention_seconds
        retention = [] if seconds is None else ["--delete-finished-after", f"{seconds}s"]
        health = ["--health-host", "$(POD_IP)", "--health-port", "8080"]
        return ["controllers", "run", *served, "--only", self.controller, *retention, *health]

    @property
    def roles(self) -> Iterator[Role]:
        lease = names.controller_lease(self.controller, not self.served)
        home = self.served or CONTROLLERS_NAMESPACE
        rights = RIGHTS[self.controller]
        own = (
            _rule(_LEASES, ("leases",), ("create",)),  # RBAC cannot limit this by name
            _rule(_LEASES, ("leases",), ("get", "patch"), (lease,)),
            *rights.own,
        )
        history = _HISTORY if self.keeps_history else ()
        served = (*rights.served, *history)

        if self.served:
            yield self._role(self.name, home, (*served, *own))
        else:
            yield self._role(self.name, "", (*served, *rights.cluster))
            yield self._role(self.name, home, own)

        if self.controller == "tasks":
            read = _rule(_LEASES, ("leases",), ("get",), (lease,))
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
        return Role(name, namespace, self.labels, rules, subject or account)


def controllers_install(
    flags: Flags,
    controllers: Sequence[str],
    *,
    retention_seconds: int | None = None,
    served: str | None = None,
    replicas: int = 1,
    settings: Settings = _DEFAULTS,
) -> tuple[ControllerInstall, ...]:
    """Return the values of the flags, for each controller, as its settings require.

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

    served_namespace = _check_namespace(served) if served else namespace or ""
    return tuple(
        ControllerInstall(
            name=CONTROLLERS[controller],
            namespace=namespace or CONTROLLERS_NAMESPACE,
            image=flags.image or DEFAULT_IMAGE,
            api_server_ports=flags.api_server_ports,
            reaches_sources=RIGHTS[controller].reaches_sources
            or (controller == "tasks" and bool(settings.notify)),
            controller=controller,
            served=served_namespace,
            retention_seconds=retention_seconds,
            keeps_history=controller == "tasks" and bool(settings.history),
            replicas=replicas,
        )
        for controller in controllers
    )
