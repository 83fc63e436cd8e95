"""Encode requests, and decode answers of the expected types."""

import json
import re
from typing import Any, TypeVar, overload

import msgspec.json
from msgspec import Struct

from kubectl_sky.words.decoding import decoder

Json = dict[str, Any]
T = TypeVar("T")

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


class Whole(Struct, frozen=True):
    """The whole answer as a mapping, which a type has checked: for those who write objects."""

    shape: type = dict


WHOLE = Whole()


@overload
def decode(data: bytes, shape: type[T]) -> T: ...
@overload
def decode(data: bytes, shape: Whole = WHOLE) -> Json: ...
def decode(data: bytes, shape: type[T] | Whole = WHOLE) -> T | Json:
    """Decode an answer, or what this program wrote. Raises ValueError for another type."""
    try:
        value: T = decoder(shape.shape if isinstance(shape, Whole) else shape).decode(data)
        if not isinstance(shape, Whole):
            return value
        whole: Json = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(str(error)) from None
    return whole
