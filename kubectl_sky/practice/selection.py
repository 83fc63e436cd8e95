"""Label selectors and field selectors."""

import re
from collections.abc import Callable, Mapping

from kubectl_sky.practice import problems
from kubectl_sky.practice.resources import Json, Resource

Predicate = Callable[[Json], bool]

_KEY = r"(?:[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9](?:[-\w.]{0,61}[A-Za-z0-9])?"
_VALUE = r"(?:[A-Za-z0-9](?:[-\w.]{0,61}[A-Za-z0-9])?)?"
_REQUIREMENT = re.compile(
    rf"\s*(?:(?P<key>{_KEY})\s*(?P<operator>==?|!=)\s*(?P<value>{_VALUE})"
    rf"|(?P<set_key>{_KEY})\s+(?P<set_operator>in|notin)\s*\((?P<values>[^()]*)\)"
    rf"|(?P<absent>!?)\s*(?P<exists>{_KEY}))\s*(?:,|$)"
)
_COMMON_FIELDS = {"metadata.name", "metadata.namespace"}
_FIELDS = {
    "pods": {
        *("spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName"),
        *("status.phase", "status.podIP", "status.nominatedNodeName", "spec.hostNetwork"),
    },
    "events": {
        *("reason", "source", "type", "reportingComponent", "involvedObject.kind"),
        *("involvedObject.namespace", "involvedObject.name", "involvedObject.uid"),
        *("involvedObject.apiVersion", "involvedObject.resourceVersion"),
        "involvedObject.fieldPath",
    },
    "nodes": {"spec.unschedulable"},
    "namespaces": {"status.phase"},
    "secrets": {"type"},
    "jobs.batch": {"status.successful"},
    "services": {"spec.clusterIP", "spec.type"},
}


def labels(text: str) -> Predicate:
    """Parse a label selector. Raises Problem."""
    requirements = []
    rest = text.strip("\0 ")
    while rest:
        match = _REQUIREMENT.match(rest)
        if not match:
            raise problems.bad_request(f"unable to parse requirement: {rest!r}")
        requirements.append(_requirement(**match.groupdict()))
        rest = rest[match.end() :].strip()
    return lambda obj: matches(
        {"matchExpressions": requirements}, obj["metadata"].get("labels") or {}
    )


def _requirement(**parts: str | None) -> Json:
    if parts["exists"]:
        operator = "DoesNotExist" if parts["absent"] else "Exists"
        return {"key": parts["exists"], "operator": operator}
    if parts["set_key"]:
        operator = "In" if parts["set_operator"] == "in" else "NotIn"
        values = [value.strip() for value in (parts["values"] or "").split(",")]
        return {"key": parts["set_key"], "operator": operator, "values": values}
    operator = "NotIn" if parts["operator"] == "!=" else "In"
    return {"key": parts["key"], "operator": operator, "values": [parts["value"]]}


def matches(selector: Json, labels: Mapping[str, str]) -> bool:
    """Say whether labels match a selector with matchLabels and matchExpressions."""
    equal: bool = (selector.get("matchLabels") or {}).items() <= labels.items()
    expressions = selector.get("matchExpressions") or ()
    return equal and all(_holds(expression, labels) for expression in expressions)


def _holds(expression: Json, labels: Mapping[str, str]) -> bool:
    operator: str = expression["operator"]
    values: list[str] = expression.get("values") or []
    value = labels.get(expression["key"])
    if operator in ("Exists", "DoesNotExist"):
        return (value is not None) == (operator == "Exists")
    if operator in ("In", "NotIn"):
        return (value in values) == (operator == "In")
    number = value is not None and value.isdigit()
    return number and bool((int(value or 0) - int(values[0])) * (1 if operator == "Gt" else -1) > 0)


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
    if path == ["status", "successful"]:
        path = ["status", "succeeded"]
    value: object = obj
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    if path[0] == "source" and isinstance(value, dict):
        value = value.get("component")
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)
