"""Encode requests, and decode answers of the expected types."""

import json
import re
import threading
from functools import cache
from typing import Any, TypeVar

import msgspec.json
from msgspec import Struct

Json = dict[str, Any]
T = TypeVar("T", bound=Struct)

# Either a surrogate pair (two escapes for one character), or any other escape, which is kept.
_ESCAPE = re.compile(r"\\u(d[89ab][0-9a-f]{2})\\u(d[c-f][0-9a-f]{2})|\\.")


def encode(body: object) -> bytes:
    """Return a body as ASCII JSON, except for characters outside the BMP.

    The API server parses the body of an apply as YAML. YAML rejects the surrogate pairs that JSON
    uses for such characters (emoji, for example), so they are sent as UTF-8. All others stay
    escaped: YAML would read some of them as line breaks and reject others.
    """
    return _ESCAPE.sub(_character, json.dumps(body, separators=(",", ":"))).encode()


def _character(match: re.Match[str]) -> str:
    if match[1] is None:
        return match[0]
    return bytes.fromhex(match[1] + match[2]).decode("utf-16-be")


class Trimmed(Struct, frozen=True):
    """A type of answers of which only the fields of the type are read."""

    shape: type


def decode(data: bytes, shape: type | Trimmed = dict) -> Json:
    """Decode an answer of this type, a TypedDict. Raises ValueError."""
    try:
        trimmed: Json = _decoder(shape.shape if isinstance(shape, Trimmed) else shape).decode(data)
        whole: Json = trimmed if isinstance(shape, Trimmed) else msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(str(error)) from None
    return whole


def parse(data: bytes, kind: type[T]) -> T:
    """Decode what this program wrote, as a Struct. Raises ValueError."""
    try:
        value: T = _decoder(kind).decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(str(error)) from None
    return value


@cache
def _make_decoder(shape: type) -> "msgspec.json.Decoder[Any]":
    return msgspec.json.Decoder(shape)


_first_use = threading.Lock()


def _decoder(shape: type) -> "msgspec.json.Decoder[Any]":
    """Return the decoder of a type.

    msgspec keeps what it knows of a type, and of those within it, from its first use on. A second
    thread that reads this while the first one writes it crashes the process.
    """
    with _first_use:
        return _make_decoder(shape)
