"""JSON of requests and answers; of long lists only the fields that the caller needs.

Half of a long list is managedFields, and a quarter the pods' templates: where the caller names a
shape, a TypedDict, other fields are skipped and never become objects.
"""

import json
import re
from functools import lru_cache
from typing import Any, Generic, TypeVar

import msgspec.json

Json = dict[str, Any]
Item = TypeVar("Item")

# Either two escapes for one character, or any other one, which is passed over as a whole.
_ESCAPE = re.compile(r"\\u(d[89ab][0-9a-f]{2})\\u(d[c-f][0-9a-f]{2})|\\.")


def encode(body: object) -> bytes:
    """Return a body as JSON in ASCII, except for characters that JSON escapes by two surrogates.

    The API server reads the body of an apply as YAML, which refuses surrogates and takes such
    characters, emoji for one, only as they are. All others stay escaped: YAML would take some of
    them for line breaks, and refuse others.
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
