"""Label and field selectors, read as the API reads them."""

import re
from collections.abc import Callable

from kubectl_sky.practice import problems
from kubectl_sky.practice.resources import Json, Resource

Wanted = Callable[[Json], bool]

BAD_KEY = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end"
    " with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for"
    " validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_KEY = r"(?:[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9](?:[-\w.]*[A-Za-z0-9])?"
_VALUE = r"(?:[A-Za-z0-9](?:[-\w.]*[A-Za-z0-9])?)?"
_REQUIREMENTS = (
    (re.compile(rf"({_KEY})\s*(==|=|!=)\s*({_VALUE})\s*(?:,|$)"), "equal"),
    (re.compile(rf"({_KEY})\s+(in|notin)\s*\(([^()]*)\)\s*(?:,|$)"), "set"),
    (re.compile(rf"(!?)\s*({_KEY})\s*(?:,|$)"), "exists"),
)
_PLACE = {"metadata.name": "", "metadata.namespace": ""}
_ABOUT = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_FIELDS = {
    "pods": {
        *("spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName"),
        *("status.phase", "status.podIP", "status.nominatedNodeName", "spec.hostNetwork"),
    },
    "events": {*(f"involvedObject.{field}" for field in _ABOUT), "reason", "source", "type"}
    | {"reportingComponent"},
    "nodes": {"spec.unschedulable"},
    "namespaces": {"status.phase"},
    "secrets": {"type"},
    "jobs.batch": {"status.successful"},
    "services": {"spec.clusterIP", "spec.type"},
}


def labels(text: str) -> Wanted:
    """Read a label selector. Raises Problem."""
    tests = []
    rest = text.strip("\0 ")
    if any(len(name) > 63 for name in re.findall(r"[-\w.]+", rest)):
        raise problems.bad_request(_why(max(re.findall(r"[-\w.]+", rest), key=len)))
    while rest:
        for pattern, kind in _REQUIREMENTS:
            match = pattern.match(rest)
            if match:
                tests.append(_requirement(kind, *match.groups()))
                rest = rest[match.end() :].strip()
                break
        else:
            raise problems.bad_request(_why(rest))

    def wanted(obj: Json) -> bool:
        own = obj["metadata"].get("labels") or {}
        return all(test(own) for test in tests)

    return wanted


def _why(text: str) -> str:
    """Say why a requirement cannot be read, as the real server does."""
    words = [word for word in re.split(r"\s+|(!=|==|[=(),!])", text) if word]
    values = iter(words[3:])
    if words[1:2] and words[1] in ("=", "==", "!="):
        return f"found '{next(values, '')}', expected: ',' or 'end of string'"
    if words[1:2] and words[1] in ("in", "notin"):
        found = words[2] if len(words) > 2 else ""
        return f"unable to parse requirement: found '{found}' expected: '('"
    if words[1:]:
        operators = "in, notin, =, ==, !=, gt, lt"
        return f"unable to parse requirement: found '{words[1]}', expected: {operators}"
    return f'unable to parse requirement: <nil>: Invalid value: "{text}": {BAD_KEY}'


def _requirement(kind: str, *parts: str) -> Callable[[dict[str, str]], bool]:
    if kind == "exists":
        absent, key = parts
        return lambda own: (key in own) != bool(absent)
    key, operator, text = parts
    if kind == "equal":
        if operator == "!=":
            return lambda own: own.get(key) != text
        return lambda own: own.get(key) == text
    values = {value.strip() for value in text.split(",")}
    if operator == "in":
        return lambda own: own.get(key) in values
    return lambda own: own.get(key) not in values


def matches(selector: Json, own: dict[str, str]) -> bool:
    """Say whether labels fit a selector of an object: matchLabels and matchExpressions."""
    for key, value in (selector.get("matchLabels") or {}).items():
        if own.get(key) != value:
            return False
    tests: dict[str, Callable[[str, list[str]], bool]] = {
        "In": lambda key, values: own.get(key) in values,
        "NotIn": lambda key, values: own.get(key) not in values,
        "Exists": lambda key, _: key in own,
        "DoesNotExist": lambda key, _: key not in own,
        "Gt": lambda key, values: own.get(key, "").isdigit() and int(own[key]) > int(values[0]),
        "Lt": lambda key, values: own.get(key, "").isdigit() and int(own[key]) < int(values[0]),
    }
    return all(
        tests[one["operator"]](one["key"], one.get("values") or [])
        for one in selector.get("matchExpressions") or ()
    )


def fields(text: str, resource: Resource) -> Wanted:
    """Read a field selector. Raises Problem for fields that the kind cannot be selected by."""
    tests = []
    for part in filter(None, text.split(",")):
        match = re.fullmatch(r"\s*([\w.]+)\s*(==|=|!=)(.*)", part)
        if not match:
            text = f"invalid selector: '{text}'; can't understand '{part}'"
            raise problems.bad_request(text)
        path, operator, value = match.groups()
        known = _FIELDS.get(resource.storage)
        if path not in _PLACE and path not in (known or ()):
            text = f"field label not supported: {path}"
            if known is None:
                only = '"metadata.name", "metadata.namespace"'
                text = f'"{path}" is not a known field selector: only {only}'
            raise problems.bad_request(text)
        tests.append((path.split("."), operator != "!=", value))

    def wanted(obj: Json) -> bool:
        return all((_at(obj, path) == value) is equal for path, equal, value in tests)

    return wanted


def _at(obj: Json, path: list[str]) -> str:
    found: object = obj
    if path == ["status", "successful"]:
        path = ["status", "succeeded"]
    for key in path:
        found = found.get(key) if isinstance(found, dict) else None
    if isinstance(found, bool):
        return str(found).lower()
    if path[0] == "source" and isinstance(found, dict):
        found = found.get("component")
    return "" if found is None else str(found)
