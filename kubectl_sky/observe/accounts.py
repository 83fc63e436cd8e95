"""The users that `users add` created: their namespace, quota and what they use of it."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, cast

from kubectl_sky.plan.account import CPUS, MEMORY, TASKS
from kubectl_sky.plan.resources import amounts, readable, shown
from kubectl_sky.words import names

if TYPE_CHECKING:
    from kubectl_sky.words import models

Object = Mapping[str, Any]

_GPU = ("/gpu", "/neuron", "/tpu")


@dataclass(frozen=True)
class QuotaUse:
    """One resource of a ResourceQuota: what is used, and the limit."""

    quota: str
    resource: str
    used: str
    hard: str

    def __str__(self) -> str:
        """Return `2/8`."""
        return "/".join(self.readable)

    @property
    def readable(self) -> tuple[str, str]:
        """Used and limit in units that people compare."""
        return readable(self.resource, self.used), readable(self.resource, self.hard)

    def as_json(self) -> "models.Quota":
        """Return the fields as JSON values."""
        return cast("models.Quota", asdict(self))


@dataclass(frozen=True)
class AccountStatus:
    """A user and the quotas of its namespace; without a user, the namespace alone.

    `queues` are the user's LocalQueues.
    """

    user: str
    kind: str
    namespace: str
    created_at: str
    quotas: tuple[QuotaUse, ...]
    queues: tuple[str, ...] = ()

    def use(self, *resources: str) -> str:
        """Return used and limit of the first of these resources with a quota; "-" without."""
        uses = {item.resource: item for item in self.quotas}
        return next((str(uses[name]) for name in resources if name in uses), "-")

    @property
    def cpus(self) -> str:
        """Used and limit of CPUs."""
        return self.use(CPUS, "cpu", "limits.cpu")

    @property
    def memory(self) -> str:
        """Used and limit of memory."""
        return self.use(MEMORY, "memory", "limits.memory")

    @property
    def tasks(self) -> str:
        """Used and limit of pods."""
        return self.use(TASKS, "count/pods")

    @property
    def gpus(self) -> str:
        """Used and limit of GPUs."""
        return self.use(*(item.resource for item in self.quotas if item.resource.endswith(_GPU)))

    def as_json(self) -> "models.UserFields":
        """Return the user as JSON values."""
        return {
            "user": self.user,
            "subject": self.kind,
            "namespace": self.namespace,
            "created_at": self.created_at,
            "queues": list(self.queues),
            "quotas": [item.as_json() for item in self.quotas],
        }


def name_of(item: Object) -> str:
    """Return the name of the user of an object of `users add`."""
    metadata = item["metadata"]
    annotations, labels = metadata.get("annotations") or {}, metadata.get("labels") or {}
    return str(annotations.get(names.ORIGINAL_USER) or labels.get(names.USERNAME) or "")


def account(
    namespace: str, role: Object | None, quotas: Iterable[Object], queues: Iterable[Object] = ()
) -> AccountStatus:
    """Return the status of a user, by its Role, or of a namespace."""
    metadata: Object = role["metadata"] if role else {}
    user = name_of(role) if role else ""
    return AccountStatus(
        user=user,
        kind=str((metadata.get("labels") or {}).get(names.ACCOUNT, "")),
        namespace=namespace,
        created_at=str(metadata.get("creationTimestamp") or ""),
        quotas=tuple(use for quota in quotas for use in _uses(quota)),
        queues=tuple(str(item["metadata"]["name"]) for item in queues if name_of(item) == user),
    )


def _uses(quota: Object) -> Iterable[QuotaUse]:
    hard = amounts((quota.get("spec") or {}).get("hard"))
    used = amounts((quota.get("status") or {}).get("used"))
    for name, limit in sorted(hard.items()):
        size = shown(name, used[name]) if name in used else "0"
        yield QuotaUse(str(quota["metadata"]["name"]), name, size, shown(name, limit))
