"""What `config.kubernetes` makes of a task's objects."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kubectl_sky.facts import Facts
from kubectl_sky.plan import accounts, pod, queueing
from kubectl_sky.settings import Settings
from kubectl_sky.spec.task import Resources, Task


@dataclass(frozen=True)
class Custom:
    """The user's own of pods and queues.

    The pods act for the service account `account` and run on machines with the labels
    `node_selector`; the task waits in Kueue's `queue`, if one is named, by the
    labels `queueing`. `config` is merged into every pod.
    """

    account: str | None
    node_selector: Mapping[str, str]
    queue: str | None
    queueing: Mapping[str, str]
    config: Mapping[str, Any]

    @property
    def token(self) -> bool:
        """Whether the pods have the token of a service account: of one that was asked for."""
        return self.account is not None

    @property
    def non_root(self) -> bool:
        """Whether the user declares that the pods run without root, and asks for no privileges."""
        spec = self.config.get("spec") or {}
        declared = (spec.get("securityContext") or {}).get("runAsNonRoot") is True
        return declared and not any(map(_privileged, spec.get("containers") or ()))


def _privileged(container: Mapping[str, Any]) -> bool:
    """Say whether a container asks for privileges, which Kubernetes refuses beside their loss."""
    asked = container.get("securityContext") or {}
    return bool(asked.get("privileged") or (asked.get("capabilities") or {}).get("add"))


def custom(task: Task, resources: Resources, facts: Facts, settings: Settings) -> Custom:
    """Decide what was left open. Raises UserError for a context without a service account."""
    asked = task.kubernetes
    return Custom(
        account=accounts.account(asked.accounts, facts.context),
        node_selector=queueing.node_selector(asked, settings),
        queue=queueing.queue(asked, settings),
        queueing=queueing.labels(task, resources, facts, settings),
        config=pod.patch(asked.pod),
    )
