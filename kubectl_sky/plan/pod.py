"""Select the parts of the user's `pod_config` that are merged into the pods."""

from collections.abc import Mapping

from kubectl_sky.spec import metadata
from kubectl_sky.spec.document import Data
from kubectl_sky.spec.pod_config import MAIN
from kubectl_sky.spec.variables import RESERVED


def patch(config: Mapping[str, Data]) -> Mapping[str, Data]:
    """Return the supported part of a valid `pod_config`; validate reports the rest."""
    pod_metadata = config.get("metadata") or {}
    labels = metadata.without_ours(pod_metadata.get("labels"))
    annotations = metadata.without_ours(pod_metadata.get("annotations"))
    user_metadata = {"labels": labels, "annotations": annotations}
    merged = {
        "metadata": {name: values for name, values in user_metadata.items() if values},
        "spec": _spec(config.get("spec") or {}),
    }
    return {name: values for name, values in merged.items() if values}


def _spec(spec: Mapping[str, Data]) -> Mapping[str, Data]:
    spec = dict(spec)
    if spec.get("containers"):
        spec["containers"] = [_container(container) for container in spec["containers"]]
    if spec.get("serviceAccountName") and spec.get("automountServiceAccountToken") is None:
        spec["automountServiceAccountToken"] = True  # an account is useless without its token
    return spec


def _container(container: Mapping[str, Data]) -> Mapping[str, Data]:
    if container.get("name") not in MAIN or not container.get("env"):
        return container
    return {
        **container,
        "env": [variable for variable in container["env"] if variable.get("name") not in RESERVED],
    }
