"""The settings of `config.kubernetes` that apply to a task's objects."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kubectl_sky.facts import Facts
from kubectl_sky.plan import pod, queueing, service_account
from kubectl_sky.settings import Settings
from kubectl_sky.spec.task import Resources, Task


@dataclass(frozen=True)
class PodOptions:
    """The user's settings for pods and queues.

    The pods use the service account `account` and run on cluster nodes with the labels
    `node_selector`. The task waits in the `queue`, if one is set; `queueing` are its Kueue labels.
    `pod_config` is merged into every pod.
    """

    account: str | None
    node_selector: Mapping[str, str]
    queue: str | None
    queueing: Mapping[str, str]
    pod_config: Mapping[str, Any]

    @property
    def mounts_token(self) -> bool:
        """Whether pods mount a service account token: only of an account that was set."""
        return self.account is not None

    @property
    def non_root(self) -> bool:
        """Whether the user sets runAsNonRoot and requests no privileges."""
        spec = self.pod_config.get("spec") or {}
        declared = (spec.get("securityContext") or {}).get("runAsNonRoot") is True
        return declared and not any(map(_privileged, spec.get("containers") or ()))


def _privileged(container: Mapping[str, Any]) -> bool:
    """Return whether a container requests privileges.

    Kubernetes rejects such a container if it also drops them.
    """
    context = container.get("securityContext") or {}
    return bool(context.get("privileged") or (context.get("capabilities") or {}).get("add"))


def build_pod_options(
    task: Task, resources: Resources, facts: Facts, settings: Settings
) -> PodOptions:
    """Build the settings. Raises UserError for a context without a service account."""
    options = task.kubernetes
    return PodOptions(
        account=service_account.find_account(options.accounts, facts.context),
        node_selector=queueing.node_selector(options, settings),
        queue=queueing.queue(options, settings),
        queueing=queueing.labels(task, resources, facts, settings),
        pod_config=pod.patch(options.pod),
    )
