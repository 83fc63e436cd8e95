"""What is wrong with an object: unknown fields, wrong types, missing and forbidden values."""

import json
import re
from collections.abc import Iterator
from typing import Any

from kubectl_sky.practice import problems, rules, schemas
from kubectl_sky.practice.decoding import NAMES
from kubectl_sky.practice.pod_rules import BAD_LABEL, LABEL
from kubectl_sky.practice.problems import Cause
from kubectl_sky.practice.resources import Json, Resource

_SUBDOMAIN = rf"{LABEL}(\.{LABEL})*"
_LABELS = {"namespaces", "services", "pods.hostname"}  # kinds whose names are labels
_DATA, _MOST_DATA = ("data", "binaryData", "stringData"), 1024 * 1024
_FREE = {"rbac.authorization.k8s.io"}  # groups whose names may be any path segment
_BAD_SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.',"
    " and must start and end with an alphanumeric character (e.g. 'example.com', regex used for"
    rf" validation is '{LABEL}(\.{LABEL})*')"
)
_BAD_VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.',"
    " and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or"
    " '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "object": (dict,),
    "array": (list,),
}


def unknown(value: Any, schema: Json, path: str = "") -> Iterator[str]:
    """Yield the paths of fields that the schema does not have."""
    if isinstance(value, dict):
        for key, inner in value.items():
            below = schemas.field(schema, key)
            here = f"{path}.{key}" if path else key
            if below is None:
                yield here
            else:
                yield from unknown(inner, below, here)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from unknown(inner, schemas.items(schema), f"{path}[{index}]")


def pruned(value: Any, schema: Json) -> Any:
    """Return a value without the fields that its schema does not have, and without nulls."""
    if isinstance(value, dict):
        fields = ((key, inner, schemas.field(schema, key)) for key, inner in value.items())
        return {
            key: pruned(inner, below)
            for key, inner, below in fields
            if below is not None and (inner is not None or below.get("nullable"))
        }
    if isinstance(value, list):
        inner = schemas.items(schema)
        return [pruned(item, inner) for item in value]
    return value


def defaulted(value: Any, schema: Json) -> Any:
    """Return a custom object with the defaults that its schema gives."""
    if isinstance(value, dict):
        known = schema.get("properties") or {}
        missing = {
            key: below["default"]
            for key, below in known.items()
            if key not in value and "default" in below
        }
        full = {**value, **missing}
        return {
            key: defaulted(inner, schemas.field(schema, key) or {}) for key, inner in full.items()
        }
    if isinstance(value, list):
        return [defaulted(item, schemas.items(schema)) for item in value]
    return value


def not_decoded(resource: Resource, why: str) -> problems.Problem:
    """Say that a body cannot be read as an object of a kind."""
    named = f'{resource.kind} in version "{resource.version}"'
    return problems.bad_request(f"{named} cannot be handled as a {resource.kind}: {why}")


def mistyped(obj: Json, resource: Resource) -> str:
    """Say what the real server could not decode of a built-in object: values of wrong types."""
    for path, value, schema in _mistyped(obj, schemas.root(resource), resource.kind):
        found = NAMES[type(value)]
        wanted = schemas.go_type(schema)
        return f"json: cannot unmarshal {found} into Go struct field {path} of type {wanted}"
    return ""


def _mistyped(
    value: Any, schema: Json, owner: str = "", path: str = ""
) -> Iterator[tuple[str, Any, Json]]:
    """Yield path, value and schema; a path begins with the struct that has the field."""
    wanted = schema.get("type", "")
    if value is None:
        return
    exact = not (wanted in ("integer", "number") and isinstance(value, bool))
    if wanted and not (isinstance(value, _TYPES[wanted]) and exact):
        if schema.get("format") != "int-or-string":
            yield f"{owner}{path}", value, schema
    elif isinstance(value, dict):
        owner = schema.get("x-name", owner)
        for key, inner in value.items():
            here = f"{path}.{key}" if key in (schema.get("properties") or ()) else path
            yield from _mistyped(inner, schemas.field(schema, key) or {}, owner, here)
    elif isinstance(value, list):
        for inner in value:
            yield from _mistyped(inner, schemas.items(schema), owner, path)


def causes(value: Any, schema: Json, path: str = "") -> Iterator[Cause]:
    """Yield what is wrong with a custom object by its schema."""
    wanted = schema.get("type", "")
    if value is None and schema.get("nullable"):
        return
    mistyped = next(_mistyped(value, {**schema, "properties": {}, "items": {}}), None)
    if wanted and (mistyped or value is None):
        shown = NAMES.get(type(value), "null")
        text = f'Invalid value: "{shown}": {path} in body must be of type {wanted}: "{shown}"'
        yield Cause("FieldValueTypeInvalid", path, text)
        return
    yield from _limits(value, schema, path)
    if isinstance(value, dict):
        for key in schema.get("required") or ():
            if key not in value:
                yield Cause("FieldValueRequired", f"{path}.{key}".strip("."), "Required value")
        for key, inner in value.items():
            below = schemas.field(schema, key)
            if below and key != "metadata":
                yield from causes(inner, below, f"{path}.{key}".strip("."))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from causes(inner, schemas.items(schema), f"{path}[{index}]")


def _limits(value: Any, schema: Json, path: str) -> Iterator[Cause]:
    enum = schema.get("enum")
    if enum and value not in enum:
        known = ", ".join(json.dumps(one) for one in enum)
        text = f"Unsupported value: {json.dumps(value)}: supported values: {known}"
        yield Cause("FieldValueNotSupported", path, text)
    size = len(value) if isinstance(value, str | list) else value
    many = "Items" if isinstance(value, list) else "Length" if isinstance(value, str) else "imum"
    for name, bad, words in (
        ("min", lambda limit: size < limit, "should be greater than or equal to"),
        ("max", lambda limit: size > limit, "should be less than or equal to"),
    ):
        limit = schema.get(name + many)
        if limit is not None and not isinstance(value, bool) and bad(limit):
            text = f"Invalid value: {json.dumps(value)}: {path} in body {words} {limit}"
            yield Cause("FieldValueInvalid", path, text)
    pattern = schema.get("pattern")
    if pattern and isinstance(value, str) and not re.search(pattern, value):
        text = f"Invalid value: {json.dumps(value)}: {path} in body should match '{pattern}'"
        yield Cause("FieldValueInvalid", path, text)


def _metadata(obj: Json, resource: Resource) -> Iterator[Cause]:
    metadata = obj["metadata"]
    name = metadata["name"]
    is_label = resource.storage in _LABELS
    limit = 63 if is_label else 253
    pattern, message = (LABEL, BAD_LABEL) if is_label else (_SUBDOMAIN, _BAD_SUBDOMAIN)
    if resource.group not in _FREE and not re.fullmatch(pattern, name):
        yield Cause("FieldValueInvalid", "metadata.name", f'Invalid value: "{name}": {message}')
    if len(name) > limit:
        text = f'Invalid value: "{name}": must be no more than {limit} characters'
        yield Cause("FieldValueInvalid", "metadata.name", text)
    value_pattern = r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?"
    for value in (metadata.get("labels") or {}).values():
        if not re.fullmatch(value_pattern, value):
            text = f'Invalid value: "{value}": {_BAD_VALUE}'
            yield Cause("FieldValueInvalid", "metadata.labels", text)
        elif len(value) > 63:
            text = f'Invalid value: "{value}": must be no more than 63 bytes'
            yield Cause("FieldValueInvalid", "metadata.labels", text)


def check(obj: Json, resource: Resource) -> None:
    """Refuse an object whose values cannot be. Raises Problem with all that is wrong."""
    found = list(_metadata(obj, resource))
    spec = obj.get("spec") or {}
    if resource.storage in ("configmaps", "secrets"):
        size = sum(len(str(value)) for field in _DATA for value in (obj.get(field) or {}).values())
        if size > _MOST_DATA:
            text = f"Too long: may not be more than {_MOST_DATA} bytes"
            found.append(Cause("FieldValueTooLong", "[]", text))
    if resource.custom:
        found += causes(obj, schemas.root(resource))
    else:
        found += rules.broken(resource.storage, spec)
    if found:
        raise problems.invalid(resource.qualified_kind, obj["metadata"]["name"], found)


_IMMUTABLE = {
    "jobs.batch": ("selector", "template", "completionMode", "podFailurePolicy"),
    "persistentvolumeclaims": ("accessModes", "storageClassName", "volumeMode", "selector"),
}
_JOB_MAY = {"affinity", "nodeSelector", "tolerations", "schedulingGates"}
_POD_MAY = {"activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds"}
_POD_MAY |= {"schedulingGates", "nodeName", "containers", "initContainers"}


def check_change(old: Json, new: Json, resource: Resource) -> None:
    """Refuse a change of what cannot be changed. Raises Problem."""
    before, after = old.get("spec") or {}, new.get("spec") or {}
    found = []
    fields: tuple[str, ...] = _IMMUTABLE.get(resource.storage, ())
    if resource.storage == "jobs.batch" and before.get("completionMode") != "Indexed":
        fields = (*fields, "completions")
    # a suspended job may still be told where its pods go, and what they get
    started = (old.get("status") or {}).get("startTime")
    if resource.storage == "jobs.batch" and before.get("suspend") and not started:
        before, after = ({**one, "template": _pinned(one)} for one in (before, after))
    for field in fields:
        if before.get(field) != after.get(field):
            shown = json.dumps(after.get(field), separators=(",", ":"))
            text = f"Invalid value: {shown}: field is immutable"
            found.append(Cause("FieldValueInvalid", f"spec.{field}", text))
    if resource.storage == "pods" and _frozen(before) != _frozen(after):
        text = (
            "Forbidden: pod updates may not change fields other than `spec.containers[*].image`,"
            "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only"
            " additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to"
            " be set to 1 if it was previously negative)"
        )
        found.append(Cause("FieldValueForbidden", "spec", text))
    if old.get("immutable") and (old.get("data"), True) != (new.get("data"), new.get("immutable")):
        text = "Forbidden: field is immutable when `immutable` is set"
        found.append(Cause("FieldValueForbidden", "data", text))
    if found:
        raise problems.invalid(resource.qualified_kind, new["metadata"]["name"], found)


def _pinned(job: Json) -> Json:
    """Return what of a Job's pods is settled even while it is suspended."""
    spec = job["template"].get("spec") or {}
    rest = {key: value for key, value in spec.items() if key not in _JOB_MAY}
    for group in ("containers", "initContainers"):
        rest[group] = [{**one, "resources": None} for one in spec.get(group) or ()]
    return rest


def _frozen(spec: Json) -> Json:
    rest = {key: value for key, value in spec.items() if key not in _POD_MAY}
    for group in ("containers", "initContainers"):
        rest[group] = [{**container, "image": ""} for container in spec.get(group) or ()]
    return rest
