"""The settings of `config.kubernetes` that apply to a task's objects."""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

from msgspec import Struct

from kubectl_sky.plan import queueing
from kubectl_sky.spec import resource_fields
from kubectl_sky.spec.document import Data, FieldError
from kubectl_sky.spec.kubernetes import KUBERNETES, MAIN
from kubectl_sky.spec.task import Resources, Task
from kubectl_sky.spec.variables import RESERVED
from kubectl_sky.words.facts import Facts
from kubectl_sky.words.settings import Settings


class PodOptions(Struct, frozen=True):
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
    def has_own_group(self) -> bool:
        """Whether the user's pod_config names a PodGroup."""
        return bool((self.pod_config.get("spec") or {}).get("schedulingGroup"))

    @property
    def non_root(self) -> bool:
        """Whether the user sets runAsNonRoot and requests no privileges."""
        spec = self.pod_config.get("spec") or {}
        declared = (spec.get("securityContext") or {}).get("runAsNonRoot") is True
        return declared and not any(map(_privileged, spec.get("containers") or ()))

    @property
    def has_startup_probe(self) -> bool:
        """Whether the user sets the startup probe of the task's container."""
        containers = (self.pod_config.get("spec") or {}).get("containers") or ()
        return any("startupProbe" in item for item in containers if item.get("name") in MAIN)


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
        account=find_account(options.accounts, facts.context),
        node_selector=queueing.node_selector(options, settings),
        queue=queueing.queue(options, settings),
        queueing=queueing.labels(task, resources, facts, settings),
        pod_config=pod_config_patch(options.pod),
    )


def find_account(accounts: Mapping[str, str], context: str) -> str | None:
    """Return the account of the first pattern that matches the context.

    None if no account is set. If the context is not known, return the account that all contexts
    share. Raises FieldError for a context without an account, as SkyPilot does.
    """
    if not accounts:
        return None
    if not context:
        return accounts.get("*") if len(set(accounts.values())) == 1 else None
    for pattern, name in accounts.items():
        if fnmatchcase(context, pattern):
            return name
    raise FieldError(
        (*KUBERNETES, "remote_identity"),
        f'no service account is set for the context "{context}"',
        "add one, or * for all others",
    )


def account_depends_on_context(accounts: Mapping[str, str], context: str) -> bool:
    """Return whether the account depends on a context that is not known yet."""
    return bool(accounts) and not context and find_account(accounts, context) is None


def pod_config_patch(config: Mapping[str, Data]) -> Mapping[str, Data]:
    """Return the supported part of a valid `pod_config`; validate reports the rest."""
    pod_metadata = config.get("metadata") or {}
    labels = resource_fields.without_ours(pod_metadata.get("labels"))
    annotations = resource_fields.without_ours(pod_metadata.get("annotations"))
    user_metadata = {"labels": labels, "annotations": annotations}
    merged = {
        "metadata": {name: values for name, values in user_metadata.items() if values},
        "spec": _pod_spec(config.get("spec") or {}),
    }
    return {name: values for name, values in merged.items() if values}


# Fields of pods that null does not remove: the nodes could not start, or not find each other.
_NEEDED = ("containers", "initContainers", "volumes", "hostname", "subdomain")


def _pod_spec(spec: Mapping[str, Data]) -> Mapping[str, Data]:
    spec = {name: value for name, value in spec.items() if value is not None or name not in _NEEDED}
    spec.pop("restartPolicy", None)  # validate accepts only that of tasks; services have another
    if spec.get("containers"):
        spec["containers"] = [_container(container) for container in spec["containers"]]
    if spec.get("serviceAccountName") and spec.get("automountServiceAccountToken") is None:
        spec["automountServiceAccountToken"] = True  # an account is useless without its token
    if spec.get("hostNetwork") and spec.get("dnsPolicy") is None:
        spec["dnsPolicy"] = "ClusterFirstWithHostNet"  # else no node finds another by its name
    return spec


def _container(container: Mapping[str, Data]) -> Mapping[str, Data]:
    if container.get("name") not in MAIN or not container.get("env"):
        return container
    return {
        **container,
        "env": [variable for variable in container["env"] if variable.get("name") not in RESERVED],
    }
