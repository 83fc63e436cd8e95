"""Encode requests and decode answers; decode only the needed fields of lists.

Half of a long list is managedFields, and a quarter is pod templates. If the caller passes a shape
(a TypedDict), other fields are skipped and never become Python objects.
"""

import json
import re
from functools import lru_cache
from typing import Any, Generic, TypeVar

import msgspec.json

Json = dict[str, Any]
Item = TypeVar("Item")

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


class _List(msgspec.Struct, Generic[Item]):
    metadata: Json
    items: list[Item] | None = None  # some servers write null for an empty list


def decode(data: bytes, shape: type | None = None) -> Json:
    """Decode an object, or a list whose items have this shape. Raises ValueError."""
    if not data:
        return {}
    try:
        if shape is not None:
            answer = _decoder(shape).decode(data)
            return {"metadata": answer.metadata, "items": answer.items}
        body = json.loads(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(str(error)) from None
    if not isinstance(body, dict):
        raise ValueError("not a JSON object")
    return body


@lru_cache
def _decoder(shape: type) -> "msgspec.json.Decoder[_List[Any]]":
    return msgspec.json.Decoder(_List[shape])  # type: ignore[valid-type]
