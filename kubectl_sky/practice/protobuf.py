"""Bodies in protobuf, which `kubectl create` sends for built-in kinds, read as JSON objects."""

import gzip
import json
from base64 import b64encode
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from kubectl_sky.practice import problems
from kubectl_sky.practice.resources import Json

TYPE = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\0"
_META = "k8s.io.apimachinery.pkg.apis.meta.v1."
# Messages whose fields JSON has in the object around them.
_INLINE = {"localObjectReference", "volumeSource", "persistentVolumeSource", "handler"}
_INLINE |= {"ingressRuleValue", "ephemeralContainerCommon"}
# Sent as 0 or false where nobody said anything, which JSON leaves out.
_UNSAID = {"stdin", "stdinOnce", "tty", "hostNetwork", "hostPID", "hostIPC", "readOnly", "hostPort"}
_UNSAID |= {"globalDefault", "nodePort", "targetPort", "generation", "unschedulable"}
_UNSAID |= {"healthCheckNodePort", "publishNotReadyAddresses"}
_PACKAGES = {
    "": "core",
    "rbac.authorization.k8s.io": "rbac",
    "networking.k8s.io": "networking",
    "storage.k8s.io": "storage",
    "scheduling.k8s.io": "scheduling",
    "authentication.k8s.io": "authentication",
    "authorization.k8s.io": "authorization",
}


@cache
def _messages() -> dict[str, dict[str, list[str]]]:
    found = Path(__file__).with_name("messages.json.gz").read_bytes()
    read: dict[str, dict[str, list[str]]] = json.loads(gzip.decompress(found))
    return read


def decode(body: bytes, group: str, version: str, kind: str) -> Json:
    """Return the object of a kind in a body. Raises Problem."""
    package = _PACKAGES.get(group, group)
    message = f"k8s.io.api.{package}.{version}.{kind}"
    if kind == "DeleteOptions":
        message = _META + kind
    try:
        if not body.startswith(_MAGIC):
            raise ValueError(body[:4])
        envelope = dict(_fields(body[len(_MAGIC) :]))
        about = {number: value.decode() for number, value in _fields(envelope.get(1, b""))}
        found: Json = _read(envelope.get(2, b""), message)
        return {"apiVersion": about.get(1, ""), "kind": about.get(2, ""), **found}
    except (ValueError, KeyError, IndexError, AttributeError, TypeError):
        why = "provided data does not appear to be a protobuf message, expected prefix"
        raise problems.bad_request(f"{why} [107 56 115 0]") from None


def _number(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Yield the fields of a message by their numbers: integers, or bytes."""
    at = 0
    while at < len(data):
        tag, at = _number(data, at)
        if tag & 7 == 0:
            value, at = _number(data, at)
            yield tag >> 3, value
        elif tag & 7 == 2:
            size, at = _number(data, at)
            if at + size > len(data):
                raise ValueError(size)
            yield tag >> 3, data[at : at + size]
            at += size
        else:
            raise ValueError(tag)


def _read(data: bytes, message: str) -> Any:
    special = _SPECIAL.get(message.rpartition(".")[2])
    if special:
        return special(dict(_fields(data)))
    found: Json = {}
    for number, value in _fields(data):
        name, shape, kind = _messages()[message].get(str(number), ("", "", ""))
        if shape == "map":
            entry = dict(_fields(value))
            found.setdefault(name, {})[entry.get(1, b"").decode()] = _value(entry.get(2, b""), kind)
        elif shape == "list":
            found.setdefault(name, []).append(_value(value, kind))
        elif name in _INLINE:
            found |= _read(value, kind)
        elif name:
            found[name] = _value(value, kind)
    return {
        name: value
        for name, value in found.items()
        if value not in ("", None) and (value or name not in _UNSAID)
    }


def _value(value: Any, kind: str) -> Any:
    if kind == "string":
        return value.decode()
    if kind == "bytes":
        return b64encode(value).decode()
    if kind == "bool":
        return bool(value)
    if isinstance(value, int):
        return value - (1 << 64) if value >> 63 else value
    return _read(value, kind)


def _time(parts: dict[int, Any]) -> str | None:
    if not parts.get(1) or parts[1] >> 63:
        return None
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=parts[1])).strftime(
        "%Y-%m-%dT%H:%M:%SZ"
    )


def _int_or_string(parts: dict[int, Any]) -> int | str:
    return parts.get(3, b"").decode() if parts.get(1) else int(parts.get(2, 0))


_SPECIAL: dict[str, Callable[[dict[int, Any]], Any]] = {
    "Time": _time,
    "MicroTime": _time,
    "Quantity": lambda parts: parts.get(1, b"0").decode(),
    "IntOrString": _int_or_string,
    "FieldsV1": lambda parts: json.loads(parts.get(1, b"{}")),
}
