"""What of the user's `pod_config` is merged into the pods: all that is not ours to say."""

from collections.abc import Mapping

from kubectl_sky.spec import metadata
from kubectl_sky.spec.document import Data
from kubectl_sky.spec.pod_config import MAIN
from kubectl_sky.spec.variables import RESERVED


def patch(config: Mapping[str, Data]) -> Mapping[str, Data]:
    """Return the part of a valid `pod_config` that is carried out; validate has told the rest."""
    given = config.get("metadata") or {}
    labels = metadata.without_ours(given.get("labels"))
    annotations = metadata.without_ours(given.get("annotations"))
    told = {"labels": labels, "annotations": annotations}
    found = {
        "metadata": {name: values for name, values in told.items() if values},
        "spec": _spec(config.get("spec") or {}),
    }
    return {name: values for name, values in found.items() if values}


def _spec(given: Mapping[str, Data]) -> Mapping[str, Data]:
    spec = dict(given)
    if spec.get("containers"):
        spec["containers"] = [_container(one) for one in spec["containers"]]
    if spec.get("serviceAccountName") and spec.get("automountServiceAccountToken") is None:
        spec["automountServiceAccountToken"] = True  # to act for an account is to have its token
    return spec


def _container(given: Mapping[str, Data]) -> Mapping[str, Data]:
    if given.get("name") not in MAIN or not given.get("env"):
        return given
    return {**given, "env": [one for one in given["env"] if one.get("name") not in RESERVED]}
