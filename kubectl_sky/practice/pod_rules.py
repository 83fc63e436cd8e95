"""What is wrong with the spec of a pod, in the words and the order of the real server."""

import re
from collections.abc import Callable, Iterable, Iterator

from kubectl_sky.practice import quantities
from kubectl_sky.practice.problems import Cause
from kubectl_sky.practice.resources import Json

LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
BAD_LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must"
    " start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for"
    f" validation is '{LABEL}')"
)
_BAD_VARIABLE = (
    "a valid environment variable name must consist only of printable ASCII characters other"
    " than '='"
)
_NATIVE = ("cpu", "memory", "ephemeral-storage")
_NAMED = {"configMap": "name", "secret": "secretName", "persistentVolumeClaim": "claimName"}
_FIELDS = {"metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName"}
_FIELDS |= {"spec.serviceAccountName", "status.hostIP", "status.hostIPs", "status.podIP"}
_FIELDS |= {"status.podIPs"}


def invalid(path: str, value: object, why: str) -> Cause:
    """A value that cannot be."""
    shown = f'"{value}"' if isinstance(value, str) else str(value)
    return Cause("FieldValueInvalid", path, f"Invalid value: {shown}: {why}")


def required(path: str, why: str = "") -> Cause:
    """A value that is missing."""
    return Cause("FieldValueRequired", path, "Required value" + (f": {why}" if why else ""))


def one_of(path: str, value: str | None, known: Iterable[str]) -> Iterator[Cause]:
    """Yield what is wrong with a value that is none of those that are known."""
    if value is not None and value not in known:
        listed = ", ".join(f'"{one}"' for one in known)
        text = f'Unsupported value: "{value}": supported values: {listed}'
        yield Cause("FieldValueNotSupported", path, text)


def labelled(path: str, value: str | None) -> Iterator[Cause]:
    """Yield what is wrong with a value that has to be a DNS label."""
    if value and not re.fullmatch(LABEL, value):
        yield invalid(path, value, BAD_LABEL)


def pod(spec: Json, path: str) -> Iterator[Cause]:
    """Yield what is wrong with a pod."""
    volumes: list[str | None] = []
    for at, volume in enumerate(spec.get("volumes") or ()):
        yield from _volume(volume, volumes, f"{path}.volumes[{at}]")
        volumes.append(volume.get("name"))
    if not spec.get("containers"):
        yield required(f"{path}.containers")
    for group in ("initContainers", "containers"):
        seen: set[str] = set()
        for at, container in enumerate(spec.get(group) or ()):
            here = f"{path}.{group}[{at}]"
            yield from _names(container, seen, here)
            for check in (_ports, _env, _mounts(volumes), _pulls, _resources):
                yield from check(container, here)
            seen.add(container.get("name"))
    policies = ("Always", "OnFailure", "Never")
    yield from one_of(f"{path}.restartPolicy", spec.get("restartPolicy"), policies)
    seconds = spec.get("activeDeadlineSeconds")
    if seconds is not None and seconds < 1:
        why = "must be between 1 and 2147483647, inclusive"
        yield invalid(f"{path}.activeDeadlineSeconds", seconds, why)
    for name in ("hostname", "subdomain"):
        yield from labelled(f"{path}.{name}", spec.get(name))


def _volume(volume: Json, before: list[str | None], path: str) -> Iterator[Cause]:
    name, kinds = volume.get("name"), [kind for kind in volume if kind != "name"]
    if not name:
        yield required(f"{path}.name")
    yield from labelled(f"{path}.name", name)
    if name in before:
        yield Cause("FieldValueDuplicate", f"{path}.name", f'Duplicate value: "{name}"')
    if len(kinds) > 1:
        text = "Forbidden: may not specify more than 1 volume type"
        yield Cause("FieldValueForbidden", f"{path}.{kinds[1]}", text)
    for kind, field in _NAMED.items():
        if kind in volume and not volume[kind].get(field):
            yield required(f"{path}.{kind}.{field}")


def _names(container: Json, before: set[str], path: str) -> Iterator[Cause]:
    name = container.get("name")
    if not name:
        yield required(f"{path}.name")
    yield from labelled(f"{path}.name", name)
    if name in before:
        yield Cause("FieldValueDuplicate", f"{path}.name", f'Duplicate value: "{name}"')
    if not container.get("image"):
        yield required(f"{path}.image")


def _ports(container: Json, path: str) -> Iterator[Cause]:
    for at, port in enumerate(container.get("ports") or ()):
        here, number = f"{path}.ports[{at}].containerPort", port.get("containerPort")
        if not number:
            yield required(here)
        elif not 0 < number < 65536:
            yield invalid(here, number, "must be between 1 and 65535, inclusive")


def _env(container: Json, path: str) -> Iterator[Cause]:
    for at, variable in enumerate(container.get("env") or ()):
        here, source = f"{path}.env[{at}]", variable.get("valueFrom")
        name = variable.get("name")
        if not name:
            yield required(f"{here}.name")
        elif "=" in name or not (name.isascii() and name.isprintable()):
            yield invalid(f"{here}.name", name, _BAD_VARIABLE)
        if source and variable.get("value"):
            why = "may not be specified when `value` is not empty"
            yield invalid(f"{here}.valueFrom", "", why)
        field = ((source or {}).get("fieldRef") or {}).get("fieldPath")
        known = field in _FIELDS or re.fullmatch(
            r"metadata\.(labels|annotations)\['.*'\]", field or ""
        )
        if field and not known:
            why = f"error converting fieldPath: field label not supported: {field}"
            yield invalid(f"{here}.valueFrom.fieldRef.fieldPath", field, why)


def _mounts(volumes: list[str | None]) -> Callable[[Json, str], Iterator[Cause]]:
    def check(container: Json, path: str) -> Iterator[Cause]:
        seen: set[str] = set()
        for at, mount in enumerate(container.get("volumeMounts") or ()):
            here, folder = f"{path}.volumeMounts[{at}]", mount.get("mountPath")
            if mount.get("name") not in volumes:
                text = f'Not found: "{mount.get("name")}"'
                yield Cause("FieldValueNotFound", f"{here}.name", text)
            if not folder:
                yield required(f"{here}.mountPath")
            elif folder in seen:
                yield invalid(f"{here}.mountPath", folder, "must be unique")
            seen.add(folder)
            below = mount.get("subPath") or ""
            if ".." in below.split("/"):
                yield invalid(f"{path}.volumeMounts.subPath", below, "must not contain '..'")

    return check


def _pulls(container: Json, path: str) -> Iterator[Cause]:
    known = ("Always", "IfNotPresent", "Never")
    yield from one_of(f"{path}.imagePullPolicy", container.get("imagePullPolicy"), known)


def _resources(container: Json, path: str) -> Iterator[Cause]:
    resources = container.get("resources") or {}
    parts = {part: resources.get(part) or {} for part in ("limits", "requests")}
    for part, amounts in parts.items():
        for name, text in amounts.items():
            yield from _amount(name, text, f"{path}.resources.{part}[{name}]")
    limits, missing = parts["limits"], False
    for name, text in parts["requests"].items():
        asked = quantities.parse(text).nanos
        most = quantities.parse(limits[name]).nanos if name in limits else None
        exact = "/" in name
        missing |= exact and most is None
        if most is not None and (asked > most or (exact and asked != most)):
            words = "equal to" if exact else "less than or equal to"
            why = f"must be {words} {name} limit of {limits[name]}"
            yield invalid(f"{path}.resources.requests", text, why)
    if missing:
        why = "Limit must be set for non overcommitable resources"
        yield required(f"{path}.resources.limits", why)


def _amount(name: str, text: str, path: str) -> Iterator[Cause]:
    if "/" not in name and name not in _NATIVE and not name.startswith("hugepages-"):
        yield invalid(path, name, "must be a standard resource type or fully qualified")
        yield invalid(path, name, "must be a standard resource for containers")
    nanos = quantities.parse(text).nanos
    if nanos < 0:
        yield invalid(path, text, "must be greater than or equal to 0")
    elif "/" in name and nanos % 10**9:
        yield invalid(path, text, "must be an integer")
