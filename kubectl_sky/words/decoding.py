"""Decode JSON, and convert what templates render, to values of a type."""

from collections.abc import Mapping
from functools import cache
from threading import Lock
from typing import Any, TypeVar

import msgspec
import msgspec.json

T = TypeVar("T")

_NOT_CREATED = {"uid": "", "creationTimestamp": "1970-01-01T00:00:00Z"}

_first_use = Lock()


def convert(value: object, shape: type[T]) -> T:
    """Return decoded JSON or YAML, or a Struct with more fields, as a value of a type.

    Raises ValueError.
    """
    decoder(shape)  # it fills msgspec's cache of the type
    try:
        return msgspec.convert(value, shape, from_attributes=True)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None


def read_manifest(manifest: Mapping[str, Any], shape: type[T]) -> T:
    """Return a manifest as the object that it describes, without a uid and a time of creation."""
    metadata = {**_NOT_CREATED, **manifest["metadata"]}
    return convert({**manifest, "metadata": metadata}, shape)


@cache
def _make_decoder(shape: type) -> "msgspec.json.Decoder[Any]":
    return msgspec.json.Decoder(shape)


def decoder(shape: type) -> "msgspec.json.Decoder[Any]":
    """Return the decoder of a type.

    msgspec keeps what it knows of a type, and of those within it, from its first use on. A second
    thread that reads this while the first one writes it crashes the process.
    """
    with _first_use:
        return _make_decoder(shape)
