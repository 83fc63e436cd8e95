"""Compare a pod with the template that its controller creates pods from.

Anyone who can create pods can name another user's Job as the controller of a pod: the Job counts
it, and deletes a pending pod of its own. Such a pod gets no data unless it runs the same program.
Everything that can affect the program or what it is connected to is compared, also fields that are
not known here. What only affects where and when a pod runs is not.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kubectl_sky.workloads.workload import Object

_SCHEDULING = frozenset(
    {
        "activeDeadlineSeconds",
        "affinity",
        "enableServiceLinks",
        "ephemeralContainers",  # cannot be created with a pod; adding one is a right like exec
        "hostname",
        "nodeName",
        "nodeSelector",
        "overhead",
        "preemptionPolicy",
        "priority",
        "priorityClassName",
        "restartPolicy",
        "schedulerName",
        "schedulingGates",
        "serviceAccount",  # the old name of serviceAccountName
        "subdomain",
        "terminationGracePeriodSeconds",
        "tolerations",
        "topologySpreadConstraints",
    }
)
# Of containers and volumes: API servers set a default or write a quantity in another form.
_NOT_COMPARED = _SCHEDULING | {"divisor", "imagePullPolicy", "resources", "sizeLimit"}
_DEFAULTS: Mapping[str, object] = {
    "apiVersion": "v1",
    "defaultMode": 420,
    "dnsPolicy": "ClusterFirst",
    "failureThreshold": 3,
    "periodSeconds": 10,
    "protocol": "TCP",
    "scheme": "HTTP",
    "serviceAccountName": "default",
    "successThreshold": 1,
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
    "timeoutSeconds": 1,
}
_ANNOTATION = re.compile(r"metadata\.annotations\['([^']+)'\]")  # as a source of variables
_EMPTY: tuple[object, ...] = ({}, [], "", None)
_TOKEN_FOLDER = "/var/run/secrets/kubernetes.io/serviceaccount"
_TOKEN_SOURCES = {"serviceAccountToken", "configMap", "downwardAPI"}

Added = Callable[[Object], bool]  # whether a controller adds this variable, volume, mount or field


def difference(template: Object, pod: Object, added: Added) -> str:
    """Return the first field in which they differ, such as `spec.containers[0].image`."""
    expected, actual = (_without_defaults(item["spec"]) for item in (template, pod))
    return _difference("spec", expected, actual, added) or _foreign_annotation(template, pod)


def _foreign_annotation(template: Object, pod: Object) -> str:
    """Return an annotation that a variable shows, and that is no index and not the template's.

    Shells run commands in numbers that they calculate with. Labels cannot hold such text.
    """
    expected, actual = (item["metadata"].get("annotations", {}) for item in (template, pod))
    for name in _ANNOTATION.findall(json.dumps(pod["spec"])):
        value = actual.get(name, "")
        if not value.isdecimal() and value not in ("", expected.get(name)):
            return f"metadata.annotations.{name}"
    return ""


def _without_defaults(value: Any) -> Any:  # noqa: ANN401 -- JSON
    if isinstance(value, Mapping):
        fields = {
            key: _without_defaults(content)
            for key, content in value.items()
            if key not in _NOT_COMPARED and _DEFAULTS.get(key, _EMPTY) != content
        }
        return {key: content for key, content in fields.items() if content not in _EMPTY}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_without_defaults(item) for item in value if not _is_token(item)]
    return value


def _difference(path: str, expected: Any, actual: Any, added: Added) -> str:  # noqa: ANN401 -- JSON
    if isinstance(expected, Mapping) and isinstance(actual, Mapping):
        for key in sorted({*expected, *actual}):
            ours, theirs = expected.get(key), actual.get(key)
            if ours is None and isinstance(theirs, Mapping) and added(theirs):
                continue
            if isinstance(theirs, list):
                ours = [] if ours is None else ours
                theirs = [item for item in theirs if item in ours or not _is_added(item, added)]
            if found := _difference(f"{path}.{key}", ours, theirs, added):
                return found
        return ""
    if isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        pairs = enumerate(zip(expected, actual, strict=True))
        paths = (_difference(f"{path}[{index}]", *pair, added) for index, pair in pairs)
        return next(filter(None, paths), "")
    return "" if expected == actual else path


def _is_added(item: object, added: Added) -> bool:
    return isinstance(item, Mapping) and added(item)


def _is_token(item: object) -> bool:
    """Return whether admission added a volume or mount for the token of the service account."""
    if not isinstance(item, Mapping) or not str(item.get("name")).startswith("kube-api-access-"):
        return False
    sources = (item.get("projected") or {}).get("sources") or ()
    if not sources:
        return bool(item.get("mountPath") == _TOKEN_FOLDER)
    return all(_TOKEN_SOURCES.issuperset(source) for source in sources)
