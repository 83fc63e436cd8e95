"""Label selectors and field selectors."""

import re
from collections.abc import Callable

from kubectl_sky_practice import label_selectors, problems
from kubectl_sky_practice.resources import Json, Resource

Predicate = Callable[[Json], bool]

_COMMON_FIELDS = {"metadata.name", "metadata.namespace"}
_FIELDS = {
    "pods": {"spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "status.phase"},
    "events": {
        *("reason", "source", "type", "reportingComponent", "involvedObject.kind"),
        *("involvedObject.namespace", "involvedObject.name", "involvedObject.uid"),
    },
}


def labels(text: str) -> Predicate:
    """Parse a label selector. Raises Problem."""
    try:
        matches = label_selectors.parse(text)
    except ValueError as error:
        raise problems.bad_request(str(error)) from None
    return lambda obj: matches(obj["metadata"].get("labels") or {})


def fields(text: str, resource: Resource) -> Predicate:
    """Parse a field selector. Raises Problem for fields that the kind does not support."""
    requirements = []
    for part in filter(None, text.split(",")):
        match = re.fullmatch(r"\s*([\w.]+)\s*(==|=|!=)(.*)", part)
        if not match:
            raise problems.bad_request(f"invalid selector: {part!r}")
        path, operator, value = match.groups()
        if path not in _COMMON_FIELDS | _FIELDS.get(resource.storage, set()):
            raise problems.bad_request(f"field label not supported: {path}")
        requirements.append((path.split("."), operator != "!=", value))
    return lambda obj: all(
        (_value(obj, path) == value) is equal for path, equal, value in requirements
    )


def _value(obj: Json, path: list[str]) -> str:
    value: object = obj
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    if path[0] == "source" and isinstance(value, dict):
        value = value.get("component")
    return "" if value is None else str(value)
