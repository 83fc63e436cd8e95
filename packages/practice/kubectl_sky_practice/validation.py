"""Validate objects: the OpenAPI schema of their kind, rules across fields, immutable fields.

Status codes, reasons and field paths are the real API server's; the sentences are not.
"""

import base64
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from jsonschema import Draft4Validator, FormatChecker, ValidationError, validators

from kubectl_sky_practice import problems, quantities, schemas
from kubectl_sky_practice.problems import Cause
from kubectl_sky_practice.resources import Json, Resource

Causes = Iterator[Cause]

_DNS_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DNS_SUBDOMAIN = rf"{_DNS_LABEL}(\.{_DNS_LABEL})*"
_QUALIFIED_NAME = r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"
_NAMED_BY_LABEL = {"namespaces", "services"}
_RBAC = "rbac.authorization.k8s.io"  # its names may be any path segment
_DATA = ("data", "binaryData", "stringData")
_MAX_DATA = 1024 * 1024
_NOT_SUPPORTED = "not supported by the practice cluster"
_UNSUPPORTED = {  # fields of specs
    "deployments.apps": ("minReadySeconds", "paused"),
    "jobs.batch": ("managedBy", "maxFailedIndexes", "successPolicy"),
    "resourcequotas": ("scopes", "scopeSelector"),
}
_NATIVE_RESOURCES = ("cpu", "memory", "ephemeral-storage", "hugepages-")


def invalid(path: str, value: object, reason: str) -> Cause:
    text = json.dumps(value, separators=(",", ":"))
    return Cause("FieldValueInvalid", path, f"Invalid value: {text[:200]}: {reason}")


def required(path: str) -> Cause:
    return Cause("FieldValueRequired", path, "Required value")


def not_supported(path: str, value: object, supported: Iterable[object]) -> Cause:
    known = ", ".join(map(json.dumps, supported))
    text = f"Unsupported value: {json.dumps(value)}: supported values: {known}"
    return Cause("FieldValueNotSupported", path, text)


def forbidden(path: str, reason: str) -> Cause:
    return Cause("FieldValueForbidden", path, f"Forbidden: {reason}")


def mistyped(obj: Json, resource: Resource) -> str:
    """Name the first value of a wrong type that prevents decoding; empty if all are right.

    The types in a custom resource, but for its metadata, are checked by `check`.
    """
    for path, error in _schema_errors(obj, schemas.root(resource)):
        if error.validator in _TYPES and (not resource.custom or path.startswith("metadata")):
            return f"{path}: wrong type, {_type_name(error.instance)}"
    return ""


def check(obj: Json, resource: Resource, *, schema: bool = True) -> None:
    """Refuse an invalid object. Raises Problem with all invalid fields."""
    causes = list(_rules(obj, resource.storage))
    causes += _metadata(obj["metadata"], resource)
    paths = {cause.field for cause in causes}
    for path, error in _schema_errors(obj, schemas.root(resource)) if schema else ():
        reported = path in paths or path.rpartition("[")[0] in paths
        unset = error.instance == "" or path.startswith("status")
        if not reported and (resource.custom or not unset):
            causes.append(_schema_cause(path, error))
    if causes:
        raise problems.invalid(resource.qualified_kind, obj["metadata"]["name"], causes)


def _rules(obj: Json, storage: str) -> Causes:
    spec = obj.get("spec") or {}
    for field in _UNSUPPORTED.get(storage, ()):
        if spec.get(field):
            yield forbidden(f"spec.{field}", _NOT_SUPPORTED)
    if storage in ("configmaps", "secrets"):
        yield from _data(obj)
    if storage in _SPECS:
        yield from _SPECS[storage](spec)


def _follow_reference(
    validator: Any, reference: str, instance: Any, _: Json
) -> Iterator[ValidationError]:
    yield from validator.descend(instance, schemas.referenced(reference))


def _check_type(
    validator: Any, expected: str, instance: Any, schema: Json
) -> Iterator[ValidationError]:
    if instance is None and schema.get("nullable"):
        return
    if not validator.is_type(instance, expected):
        yield ValidationError(f"expected {expected}")


def _check_required(
    _: Any, names: Sequence[str], instance: Any, __: Json
) -> Iterator[ValidationError]:
    missing = [name for name in names if name not in instance] if isinstance(instance, dict) else ()
    yield from (ValidationError("missing", path=[name]) for name in missing)


_FORMATS = FormatChecker(())
_TYPES = ("type", "oneOf", "format")  # keywords of JSON schema that are about a value's type


@_FORMATS.checks("byte", ValueError)
def _is_base64(value: object) -> bool:
    return isinstance(base64.b64decode("".join(str(value).split()), validate=True), bytes)


# OpenAPI 3.0 schemas are JSON schemas of draft 4, with `nullable`.
_SchemaValidator = validators.extend(  # type: ignore[no-untyped-call]
    Draft4Validator,
    {"$ref": _follow_reference, "type": _check_type, "required": _check_required},
)


def _schema_errors(obj: Json, schema: Json) -> Iterator[tuple[str, ValidationError]]:
    for error in _SchemaValidator(schema, format_checker=_FORMATS).iter_errors(obj):
        parts = (f"[{key}]" if isinstance(key, int) else f".{key}" for key in error.absolute_path)
        yield "".join(parts).removeprefix("."), error


def _schema_cause(path: str, error: ValidationError) -> Cause:
    if error.validator == "required":
        return required(path)
    if error.validator == "enum":
        return not_supported(path, error.instance, error.schema["enum"])  # type: ignore[index]
    if error.validator == "type":
        text = f'Invalid value: "{_type_name(error.instance)}": must be of another type'
        return Cause("FieldValueTypeInvalid", path, text)
    return invalid(path, error.instance, f"must match {error.validator} {error.validator_value}")


def _type_name(value: object) -> str:
    names = {str: "string", bool: "boolean", dict: "object", list: "array", type(None): "null"}
    return names.get(type(value), "number")


def _metadata(metadata: Json, resource: Resource) -> Causes:
    name = metadata["name"]
    pattern, limit = (
        (_DNS_LABEL, 63) if resource.storage in _NAMED_BY_LABEL else (_DNS_SUBDOMAIN, 253)
    )
    if len(name) > limit:
        yield invalid("metadata.name", name, f"must be no more than {limit} characters")
    elif resource.group != _RBAC and not re.fullmatch(pattern, name):
        yield invalid("metadata.name", name, "must be a lowercase RFC 1123 name")
    yield from _labels(metadata.get("labels") or {}, "metadata.labels")


def _labels(labels: Json, path: str) -> Causes:
    for key, value in labels.items():
        prefix, _, name = key.rpartition("/")
        if len(name) > 63 or len(prefix) > 253 or not re.fullmatch(_QUALIFIED_NAME, name):
            yield invalid(path, key, "must be a valid label key")
        if len(value) > 63 or not re.fullmatch(f"({_QUALIFIED_NAME})?", value):
            yield invalid(path, value, "must be a valid label value")


def _data(obj: Json) -> Causes:
    size = 0
    for field in _DATA:
        for key, value in (obj.get(field) or {}).items():
            size += len(value)
            if not re.fullmatch(r"[-._a-zA-Z0-9]+", key):
                yield invalid(f"{field}[{key}]", key, "must be a valid config key")
            if field == "binaryData" or (field == "data" and obj.get("kind") == "Secret"):
                size -= len(value) // 4 + value[-2:].count("=")  # base64
    if size > _MAX_DATA:
        text = f"Too long: may not be more than {_MAX_DATA} bytes"
        yield Cause("FieldValueTooLong", "[]", text)


def _label(path: str, value: str | None) -> Causes:
    if value and not (re.fullmatch(_DNS_LABEL, value) and len(value) <= 63):
        yield invalid(path, value, "must be a lowercase RFC 1123 label")


def _names(items: Iterable[Json], path: str) -> Causes:
    names = set()
    for index, item in enumerate(items):
        name = item.get("name")
        here = f"{path}[{index}].name"
        if name and name in names:
            yield Cause("FieldValueDuplicate", here, f'Duplicate value: "{name}"')
        yield from _label(here, name)
        names.add(name)


def _pod(spec: Json, path: str = "spec") -> Causes:
    volumes = spec.get("volumes") or []
    yield from _names(volumes, f"{path}.volumes")
    for index, volume in enumerate(volumes):
        sources = [source for source in volume if source != "name"]
        if len(sources) > 1:
            yield forbidden(f"{path}.volumes[{index}].{sources[1]}", "a volume has one type")
    if not spec.get("containers"):
        yield required(f"{path}.containers")
    for group in ("initContainers", "containers"):
        containers = spec.get(group) or []
        yield from _names(containers, f"{path}.{group}")
        for index, container in enumerate(containers):
            yield from _container(container, volumes, f"{path}.{group}[{index}]")


def _container(container: Json, volumes: Iterable[Json], path: str) -> Causes:
    if not container.get("image"):
        yield required(f"{path}.image")
    names = {volume.get("name") for volume in volumes}
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        if mount.get("name") not in names:
            text = f"Not found: {json.dumps(mount.get('name'))}"
            yield Cause("FieldValueNotFound", f"{path}.volumeMounts[{index}].name", text)
    yield from _resources(container.get("resources") or {}, f"{path}.resources")


def _resources(resources: Json, path: str) -> Causes:
    limits = quantities.amounts(resources.get("limits"))
    requests = quantities.amounts(resources.get("requests"))

    for part, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in amounts.items():
            here = f"{path}.{part}[{name}]"
            extended = "/" in name
            if not extended and not name.startswith(_NATIVE_RESOURCES):
                yield invalid(here, name, "must be a standard resource or fully qualified")
            if amount.nanos < 0 or (extended and amount.nanos % 10**9):
                yield invalid(here, str(amount), "must be a whole number, not negative")

    for name, amount in requests.items():
        extended = "/" in name
        if name not in limits:
            yield from [required(f"{path}.limits")] if extended else ()
        elif amount.nanos > limits[name].nanos or (extended and amount != limits[name]):
            relation = "equal to" if extended else "less than or equal to"
            reason = f"must be {relation} {name} limit of {limits[name]}"
            yield invalid(f"{path}.requests", str(amount), reason)


def _job(spec: Json) -> Causes:
    for field in _JOB_COUNTS:
        if (spec.get(field) or 0) < 0:
            yield invalid(f"spec.{field}", spec[field], "must be greater than or equal to 0")
    if spec.get("completionMode") == "Indexed":
        if spec.get("completions") is None:
            yield required("spec.completions")
    elif spec.get("backoffLimitPerIndex") is not None:
        reason = "requires indexed completion mode"
        yield invalid("spec.backoffLimitPerIndex", spec["backoffLimitPerIndex"], reason)
    allowed = ("Never",) if spec.get("podFailurePolicy") else ("OnFailure", "Never")
    yield from _template(spec, spec.get("template") or {}, allowed)


def _replicas(spec: Json) -> Causes:
    if (spec.get("replicas") or 0) < 0:
        yield invalid("spec.replicas", spec["replicas"], "must be greater than or equal to 0")
    if (spec.get("strategy") or {}).get("type") == "Recreate":
        yield forbidden("spec.strategy.type", _NOT_SUPPORTED)
    yield from _template(spec, spec.get("template") or {}, ("Always",))


def _template(spec: Json, template: Json, policies: Sequence[str]) -> Causes:
    pod = template.get("spec") or {}
    labels = (template.get("metadata") or {}).get("labels") or {}
    yield from _labels(labels, "spec.template.labels")
    if not ((spec.get("selector") or {}).get("matchLabels") or {}).items() <= labels.items():
        yield invalid("spec.template.metadata.labels", labels, "`selector` must match them")
    yield from _pod(pod, "spec.template.spec")
    if pod.get("restartPolicy") not in policies:
        yield not_supported("spec.template.spec.restartPolicy", pod.get("restartPolicy"), policies)


def _claim(spec: Json) -> Causes:
    if not spec.get("accessModes"):
        yield required("spec.accessModes")
    for mode in {*(spec.get("accessModes") or ())} - _ACCESS_MODES:
        yield not_supported("spec.accessModes", mode, sorted(_ACCESS_MODES))
    if not ((spec.get("resources") or {}).get("requests") or {}).get("storage"):
        yield required("spec.resources[storage]")


def _quota(spec: Json) -> Causes:
    for name in spec.get("hard") or ():
        if ".storageclass.storage.k8s.io/" in name:
            yield forbidden(f"spec.hard[{name}]", _NOT_SUPPORTED)


_JOB_COUNTS = (
    *("parallelism", "completions", "backoffLimit", "backoffLimitPerIndex"),
    *("activeDeadlineSeconds", "ttlSecondsAfterFinished"),
)
_ACCESS_MODES = {"ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"}
_SPECS: dict[str, Callable[[Json], Causes]] = {
    "pods": _pod,
    "jobs.batch": _job,
    "deployments.apps": _replicas,
    "replicasets.apps": _replicas,
    "persistentvolumeclaims": _claim,
    "resourcequotas": _quota,
}

_JOB_IMMUTABLE = ("selector", "template", "completionMode", "podFailurePolicy")
_SUSPENDED_JOB_MUTABLE = {"affinity", "nodeSelector", "tolerations", "schedulingGates"}
_CLAIM_IMMUTABLE = ("accessModes", "storageClassName", "volumeMode", "selector", "dataSource")
_POD_MUTABLE = {
    *("activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds"),
    *("schedulingGates", "nodeName"),
}


def check_change(old: Json, new: Json, resource: Resource) -> None:
    """Refuse a change of immutable fields. Raises Problem."""
    before = old.get("spec") or {}
    after = new.get("spec") or {}
    causes: list[Cause] = []

    if resource.storage == "jobs.batch":
        causes += _job_changes(old, before, after)
    if resource.storage == "pods" and _frozen(before, "image", _POD_MUTABLE) != _frozen(
        after, "image", _POD_MUTABLE
    ):
        causes.append(forbidden("spec", "pod updates may change only a few fields"))
    if resource.group == "apps" and before.get("selector") != after.get("selector"):
        causes.append(invalid("spec.selector", after.get("selector"), "field is immutable"))
    if resource.storage == "persistentvolumeclaims" and any(
        before.get(field) != after.get(field) for field in _CLAIM_IMMUTABLE
    ):
        causes.append(forbidden("spec", "spec is immutable after creation"))
    if old["kind"] == "PriorityClass" and old.get("value") != new.get("value"):
        causes.append(forbidden("value", "may not be changed in an update."))
    if old.get("immutable") and (old.get("data"), True) != (new.get("data"), new.get("immutable")):
        causes.append(forbidden("data", "field is immutable when `immutable` is set"))

    if causes:
        raise problems.invalid(resource.qualified_kind, new["metadata"]["name"], causes)


def _job_changes(old: Json, before: Json, after: Json) -> Causes:
    fields: tuple[str, ...] = _JOB_IMMUTABLE
    if before.get("completionMode") != "Indexed":
        fields = (*fields, "completions")
    # where the pods of a suspended Job run, and what they get, may still change
    if before.get("suspend") and not (old.get("status") or {}).get("startTime"):
        pods = (spec["template"]["spec"] for spec in (before, after))
        frozen = [_frozen(pod, "resources", _SUSPENDED_JOB_MUTABLE) for pod in pods]
        before = {**before, "template": frozen[0]}
        after = {**after, "template": frozen[1]}
    for field in fields:
        if before.get(field) != after.get(field):
            path = "spec.template.spec" if field == "template" else f"spec.{field}"
            yield invalid(path, after.get(field), "field is immutable")


def _frozen(pod: Json, container_field: str, mutable: set[str]) -> Json:
    """Return the fields of a pod spec that must not change."""
    rest = {key: value for key, value in pod.items() if key not in mutable}
    for group in ("containers", "initContainers"):
        rest[group] = [{**container, container_field: ""} for container in pod.get(group) or ()]
    return rest
