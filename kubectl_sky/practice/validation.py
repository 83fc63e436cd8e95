"""What is wrong with an object, and with a change of it, beyond what its schema says."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from kubectl_sky.practice import problems, rules, schemas, shapes
from kubectl_sky.practice.pod_rules import BAD_LABEL, LABEL, invalid, required
from kubectl_sky.practice.problems import Cause
from kubectl_sky.practice.resources import Json, Resource
from kubectl_sky.practice.selection import BAD_KEY

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
_BAD_DATA_KEY = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',"
    "  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)


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
    for label in metadata.get("labels") or ():
        if not re.fullmatch(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?", label.split("/")[-1]):
            yield invalid("metadata.labels", label, BAD_KEY)
    for value in (metadata.get("labels") or {}).values():
        if not re.fullmatch(value_pattern, value):
            text = f'Invalid value: "{value}": {_BAD_VALUE}'
            yield Cause("FieldValueInvalid", "metadata.labels", text)
        elif len(value) > 63:
            text = f'Invalid value: "{value}": must be no more than 63 bytes'
            yield Cause("FieldValueInvalid", "metadata.labels", text)


def _data(obj: Json) -> Iterator[Cause]:
    for field in _DATA:
        for name in obj.get(field) or ():
            if not re.fullmatch(r"[-._a-zA-Z0-9]+", name):
                yield invalid(f"{field}[{name}]", name, _BAD_DATA_KEY)
    size = sum(
        _size(obj, field, value) for field in _DATA for value in (obj.get(field) or {}).values()
    )
    if size > _MOST_DATA:
        text = f"Too long: may not be more than {_MOST_DATA} bytes"
        yield Cause("FieldValueTooLong", "[]", text)


def _size(obj: Json, field: str, value: Any) -> int:
    """Bytes of a value; some fields hold them in base64."""
    text = str(value)
    encoded = field == "binaryData" or (field == "data" and obj.get("kind") == "Secret")
    return len(text) * 3 // 4 - text[-2:].count("=") if encoded else len(text)


def _definition(obj: Json) -> Iterator[Cause]:
    spec, name = obj.get("spec") or {}, obj["metadata"]["name"]
    group, names = spec.get("group", ""), spec.get("names") or {}
    if name != f"{names.get('plural')}.{group}":
        yield invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group')
    for field in ("group", "scope"):
        if not spec.get(field):
            yield required(f"spec.{field}")
    for field in ("plural", "kind"):
        if not names.get(field):
            yield required(f"spec.names.{field}")
    if sum(bool(one.get("storage")) for one in spec.get("versions") or ()) != 1:
        why = "must have exactly one version marked as storage version"
        yield Cause("FieldValueInvalid", "spec.versions", f"Invalid value: {{…}}: {why}")
        text = "Invalid value: null: must have at least one stored version"
        yield Cause("FieldValueInvalid", "status.storedVersions", text)


def check(obj: Json, resource: Resource) -> None:
    """Refuse an object whose values cannot be. Raises Problem with all that is wrong."""
    found = list(_metadata(obj, resource))
    spec = obj.get("spec") or {}
    if resource.storage in ("configmaps", "secrets"):
        found += _data(obj)
    if resource.storage == "customresourcedefinitions.apiextensions.k8s.io":
        found += _definition(obj)
    if resource.custom:
        found += shapes.causes(obj, schemas.root(resource))
    else:
        found += rules.broken(resource.storage, spec)
    if found:
        raise problems.invalid(resource.qualified_kind, obj["metadata"]["name"], found)


_IMMUTABLE = {"jobs.batch": ("selector", "template", "completionMode", "podFailurePolicy")}
_JOB_MAY = {"affinity", "nodeSelector", "tolerations", "schedulingGates"}
_CLAIM_MUST = ("accessModes", "storageClassName", "volumeMode", "selector", "dataSource")
_FORBIDDEN = {
    "persistentvolumeclaims": (
        "spec is immutable after creation except resources.requests and volumeAttributesClassName"
        " for bound claims"
    ),
    "pods": (
        "pod updates may not change fields other than `spec.containers[*].image`,"
        "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only"
        " additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to"
        " be set to 1 if it was previously negative)"
    ),
}
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
            at = "spec.template.spec" if field == "template" else f"spec.{field}"
            found.append(Cause("FieldValueInvalid", at, text))
    settled = _SETTLED.get(resource.storage)
    if settled and settled(before) != settled(after):
        text = f"Forbidden: {_FORBIDDEN[resource.storage]}"
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


_SETTLED: dict[str, Callable[[Json], object]] = {
    "persistentvolumeclaims": lambda spec: [spec.get(field) for field in _CLAIM_MUST],
    "pods": _frozen,
}
