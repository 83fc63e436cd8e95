"""Decode protobuf bodies, which `kubectl create KIND` sends, into JSON objects."""

import gzip
import json
from base64 import b64encode
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from kubectl_sky_practice.resources import Json

TYPE = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\0"
# messages whose fields JSON has in the object around them
_INLINE = {"localObjectReference", "volumeSource", "persistentVolumeSource", "handler"}
_INLINE |= {"ingressRuleValue", "ephemeralContainerCommon"}
# sent as 0 or false when not set
_OMIT_EMPTY = {"stdin", "stdinOnce", "tty", "hostNetwork", "hostPID", "hostIPC", "readOnly"}
_OMIT_EMPTY |= {"globalDefault", "nodePort", "targetPort", "generation", "unschedulable"}
_OMIT_EMPTY |= {"healthCheckNodePort", "publishNotReadyAddresses", "hostPort"}


@cache
def _messages() -> dict[str, dict[str, list[str]]]:
    packed = Path(__file__).with_name("messages.json.gz").read_bytes()
    messages: dict[str, dict[str, list[str]]] = json.loads(gzip.decompress(packed))
    return messages


def decode(body: bytes, group: str, version: str, kind: str) -> Json:
    """Decode an object of a kind. Raises ValueError."""
    package = "apimachinery.pkg.apis.meta" if kind == "DeleteOptions" else "api."
    if package == "api.":
        package += group.partition(".")[0] or "core"
    try:
        if not body.startswith(_MAGIC):
            raise ValueError(body[:4])
        envelope = dict(_fields(body[len(_MAGIC) :]))
        kinds = {number: value.decode() for number, value in _fields(envelope.get(1, b""))}
        obj: Json = _message(envelope.get(2, b""), f"k8s.io.{package}.{version}.{kind}")
        return {"apiVersion": kinds.get(1, ""), "kind": kinds.get(2, ""), **obj}
    except (ValueError, LookupError, AttributeError, TypeError, OverflowError):
        raise ValueError("not a protobuf message") from None


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at = at + 1
        shift = shift + 7
        if byte < 0x80:
            return value, at


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Yield the fields of a message, by number: integers or bytes."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        value, at = _varint(data, at)
        if tag & 7 == 2:  # a length, and as many bytes
            end = at + value
            if end > len(data):
                raise ValueError(end)
            yield tag >> 3, data[at:end]
            at = end
        elif tag & 7:
            raise ValueError(tag)
        else:
            yield tag >> 3, value


def _message(data: bytes, message: str) -> Any:
    name = message.rpartition(".")[2]
    if name in ("Time", "MicroTime", "Quantity", "IntOrString", "FieldsV1"):
        return _scalar(name, dict(_fields(data)))

    obj: Json = {}
    for number, value in _fields(data):
        name, shape, kind = _messages()[message].get(str(number), ("", "", ""))
        if shape == "map":
            entry = dict(_fields(value))
            obj.setdefault(name, {})[entry.get(1, b"").decode()] = _value(entry.get(2, b""), kind)
        elif shape == "list":
            obj.setdefault(name, []).append(_value(value, kind))
        elif name in _INLINE:
            obj |= _message(value, kind)
        elif name:
            obj[name] = _value(value, kind)

    return {
        name: value
        for name, value in obj.items()
        if value not in ("", None) and (value or name not in _OMIT_EMPTY)
    }


def _value(value: Any, kind: str) -> Any:
    if kind in ("string", "bytes"):
        return (value if kind == "string" else b64encode(value)).decode()
    if kind == "bool":
        return bool(value)
    if isinstance(value, int):
        return value - (1 << 64) if value >> 63 else value
    return _message(value, kind)


def _scalar(name: str, fields: dict[int, Any]) -> Any:
    if name == "Quantity":
        return fields.get(1, b"0").decode()
    if name == "IntOrString":
        return fields.get(3, b"").decode() if fields.get(1) else int(fields.get(2, 0))
    if name == "FieldsV1":
        return json.loads(fields.get(1, b"{}"))
    seconds = fields.get(1, 0)
    if not 0 < seconds < 1 << 35:
        return None
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
