"""Answers of the API server as values; of lists only what somebody needs.

Half of a long list is who owns which field, and a quarter the pods' templates: where the caller
names a shape, a TypedDict, what it does not have is passed over and never becomes an object.
"""

import json
from functools import lru_cache
from typing import Any, Generic, TypeVar

import msgspec.json

Json = dict[str, Any]
Item = TypeVar("Item")


class _List(msgspec.Struct, Generic[Item]):
    metadata: Json
    items: list[Item] | None = None  # some servers write null for none


def decoded(data: bytes, shape: type | None = None) -> Json:
    """Decode an object, or a list whose items have this shape. Raises ValueError."""
    if not data:
        return {}
    if shape is None:
        found = json.loads(data)
        if not isinstance(found, dict):
            raise ValueError("no JSON object")
        return found
    try:
        read = _decoder(shape).decode(data)
    except msgspec.DecodeError as error:
        raise ValueError(str(error)) from None
    return {"metadata": read.metadata, "items": read.items}


@lru_cache
def _decoder(shape: type) -> "msgspec.json.Decoder[_List[Any]]":
    return msgspec.json.Decoder(_List[shape])  # type: ignore[valid-type]
