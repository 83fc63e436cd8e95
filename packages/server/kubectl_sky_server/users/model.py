"""A user's namespace, rights and quota: what `users add` creates, and what the cluster has."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any

from msgspec import Struct

from kubectl_sky.errors import UserError
from kubectl_sky.plan import accelerators
from kubectl_sky.plan.resources import ACCELERATORS, amounts, readable, show
from kubectl_sky.spec import accelerator, quantity
from kubectl_sky.spec.document import FieldError
from kubectl_sky.words import names, owners
from kubectl_sky.words.core_objects import ResourceQuota
from kubectl_sky.words.documents import Document, Note
from kubectl_sky.words.names import standard_labels
from kubectl_sky.words.objects import Object
from kubectl_sky.words.scheduled_objects import KueueQueue

Manifest = Mapping[str, Any]

USER = "User"
GROUP = "Group"
SERVICE_ACCOUNT = "ServiceAccount"
POD_SECURITY_LABEL = "pod-security.kubernetes.io/enforce"
NONE = "none"  # value of a flag that removes a limit

CPUS = "requests.cpu"
MEMORY = "requests.memory"
TASKS = "pods"
STORAGE = "requests.storage"
# The limits of each quota, unless an admin has changed them. Services that open ports of cluster
# nodes, or cost money, are not allowed; the other counts keep one user from filling etcd.
DEFAULTS = {
    "services.loadbalancers": "0",
    "services.nodeports": "0",
    "services": "1k",  # as the API server writes 1000
    "persistentvolumeclaims": "100",
    "configmaps": "10k",
}
_MAX_TASKS = 100_000


class QuotaFlags(Struct, frozen=True):
    """The limits that a command sets; None keeps the current limit, `none` removes it."""

    cpus: str | None = None
    memory: str | None = None
    gpus: str | None = None
    tasks: str | None = None
    storage: str | None = None


class Account(Struct, frozen=True):
    """The values of a user's objects in a namespace."""

    user: owners.User
    kind: str  # of the RBAC subject
    namespace: str
    hard: Mapping[str, str] = {}  # the quota by the names of ResourceQuotas
    rules: Sequence[Mapping[str, object]] = ()  # of the Role
    cluster_queue: str = ""  # that of the LocalQueue; without one there is no LocalQueue
    queue_version: str = ""  # apiVersion of the LocalQueue
    pod_security: str = "baseline"  # the level of a namespace that the command creates

    @property
    def name(self) -> str:
        return f"kubectl-sky-{self.user.slug}"

    @property
    def labels(self) -> dict[str, str]:
        standard = standard_labels(names.MANAGER, self.name)
        return standard | {names.ACCOUNT: self.kind, names.USERNAME: self.user.label}

    @property
    def annotations(self) -> Mapping[str, str]:
        return {names.ORIGINAL_USER: self.user.name}

    @property
    def subject(self) -> Mapping[str, str]:
        if self.kind == SERVICE_ACCOUNT:
            return {"kind": self.kind, "name": self.user.name, "namespace": self.namespace}
        return {"apiGroup": "rbac.authorization.k8s.io", "kind": self.kind, "name": self.user.name}

    @property
    def default_requests(self) -> Mapping[str, str]:
        """The requests of containers that set none, for each resource with a quota: they fit."""
        return {
            resource: min(self.hard[name], size, key=quantity.quantity)
            for name, resource, size in ((CPUS, "cpu", "500m"), (MEMORY, "memory", "512Mi"))
            if name in self.hard
        }


def check_name(user: owners.User, kind: str) -> None:
    """Raise UserError for a name that a subject of this kind cannot have, or of Kubernetes."""
    if user.name.startswith("system:"):
        raise UserError(
            f'"{user.name}" is a name of Kubernetes itself',
            "name a user or a group of yours; for a ServiceAccount, use --service-account",
        )
    if kind == SERVICE_ACCOUNT and not names.SUBDOMAIN.fullmatch(user.name):
        raise UserError(
            f'"{user.name}" is not a valid name of a ServiceAccount',
            "use lower-case letters, digits, - and .",
        )


def quota(flags: QuotaFlags, current: Mapping[str, str], owns_namespace: bool) -> dict[str, str]:
    """Return the limits of the flags, and the current ones that no flag changes.

    A namespace of the user's own has a quota without a flag, too. Raises UserError for an invalid
    value.
    """
    gpus = [f"requests.{resource}" for resource in ACCELERATORS]
    hard = dict(current)

    for flag, limited, value, parse in (
        ("--cpus", [CPUS], flags.cpus, lambda text: {CPUS: quantity.cpus(text)}),
        ("--memory", [MEMORY], flags.memory, lambda text: {MEMORY: quantity.memory(text)}),
        ("--tasks", [TASKS], flags.tasks, _parse_tasks),
        ("--storage", [STORAGE], flags.storage, lambda text: {STORAGE: quantity.storage(text)}),
        ("--gpus", gpus, flags.gpus, _parse_gpus),
    ):
        if value is None:
            continue
        try:
            limits = {} if value == NONE else parse(value)
        except (ValueError, FieldError) as error:
            raise UserError(f"{flag} {value}: {error}") from None
        hard = {name: size for name, size in hard.items() if name not in limited} | limits

    has_limits = hard.items() - DEFAULTS.items()
    return DEFAULTS | hard if has_limits or owns_namespace else {}


def _parse_tasks(text: str) -> dict[str, str]:
    if not re.fullmatch("[0-9]{1,6}", text) or int(text) > _MAX_TASKS:
        raise ValueError(f"expected a whole number up to {_MAX_TASKS:,}, or none")
    return {TASKS: str(int(text))}


def _parse_gpus(text: str) -> dict[str, str]:
    """Return the limits of GPUs; a quota counts GPUs by vendor, not by model."""
    if re.fullmatch("0+", text):
        return {f"requests.{resource}": "0" for resource in sorted(ACCELERATORS)}
    if ":" not in text and not text.isdigit():
        raise ValueError("expected a number of GPUs, such as 8 or A100:8")
    requested, *alternatives = [item.rounded for item in accelerator.candidates(text)]
    model = requested.name or ""
    family = accelerators.family_of(model)
    if alternatives or accelerators.is_tpu(model):
        raise ValueError("expected one GPU, such as 8 or A100:8")
    return {f"requests.{family.resource}": str(requested.count)}


class Quota(Struct, frozen=True):
    """A limit, and what is used of it."""

    namespace: str
    quota: str
    resource: str
    used: str
    hard: str

    @property
    def readable(self) -> tuple[str, str]:
        """Used and limit in units that people compare."""
        return readable(self.resource, self.used), readable(self.resource, self.hard)


class User(Struct, frozen=True, rename={"kind": "subject"}):
    """A user with a namespace: `users show`."""

    user: str
    kind: Annotated[str, Note("`User`, `Group` or `ServiceAccount`")]
    namespace: str
    created_at: str
    queues: tuple[str, ...]
    quotas: tuple[Quota, ...]
    unlimited: Annotated[
        tuple[str, ...], Note("what no quota or policy limits; only of `users show`")
    ] = ()
    without_rights: Annotated[
        bool, Note("whether its RoleBinding was not found; only of `users show`")
    ] = False

    def use(self, *resources: str) -> str:
        """Return used and limit of the first of these resources with a quota; "-" without."""
        uses = {item.resource: "/".join(item.readable) for item in self.quotas}
        return next((uses[name] for name in resources if name in uses), "-")


class UserList(Document, frozen=True, kw_only=True):
    """Users: `users list`."""

    users: list[User]


def name_of(item: Manifest) -> str:
    """Return the name of the user of an object of `users add`."""
    metadata = item["metadata"]
    annotations = metadata.get("annotations") or {}
    labels = metadata.get("labels") or {}
    return str(annotations.get(names.ORIGINAL_USER) or labels.get(names.USERNAME) or "")


def list_holds(namespace: Manifest) -> list[str]:
    """Return what the deletion of a namespace waits for, as Kubernetes says it."""
    conditions = (namespace.get("status") or {}).get("conditions") or ()
    return [it.get("message") or it["type"] for it in conditions if it.get("status") == "True"]


def account(
    namespace: str,
    role: Object | None,
    quotas: Iterable[ResourceQuota],
    queues: Iterable[KueueQueue] = (),
    unlimited: tuple[str, ...] = (),
) -> User:
    user = _name_of(role) if role else ""
    kind = role.metadata.labels.get(names.ACCOUNT, "") if role else ""
    created_at = role.metadata.creation_timestamp if role else ""

    return User(
        user=user,
        kind=kind,
        namespace=namespace,
        created_at=created_at,
        quotas=tuple(uses_of(quotas)),
        queues=tuple(item.metadata.name for item in queues if _name_of(item) == user),
        unlimited=unlimited,
    )


def uses_of(quotas: Iterable[ResourceQuota]) -> Iterator[Quota]:
    """Yield the limits of quotas, and what is used of them."""
    for quota in quotas:
        used = amounts(quota.status.used)
        for name, limit in sorted(amounts(quota.spec.hard).items()):
            size = show(name, used[name]) if name in used else "0"
            metadata = quota.metadata
            yield Quota(metadata.namespace, metadata.name, name, size, show(name, limit))


def _name_of(item: Object) -> str:
    metadata = item.metadata
    name = metadata.annotations.get(names.ORIGINAL_USER)
    return name or metadata.labels.get(names.USERNAME, "")
