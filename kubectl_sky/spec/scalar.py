"""Read YAML scalars by YAML 1.1, like PyYAML's SafeLoader and therefore SkyPilot."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import yaml
from yaml.constructor import SafeConstructor

from kubectl_sky.spec.document import Data


class _Merge:
    """The key `<<`."""


MERGE = _Merge()
MAX_NUMBER = 100  # characters
TAG = "this tag is not allowed"  # does not name the tag: it may be a password that begins with !
_SHORT = 40

_PREFIX = "tag:yaml.org,2002:"
_RESOLVERS: dict[str, list[tuple[str, Any]]] = yaml.SafeLoader.yaml_implicit_resolvers
_CONSTRUCTOR = SafeConstructor()
_READERS: dict[str, Callable[[yaml.ScalarNode], Any]] = {
    "int": _CONSTRUCTOR.construct_yaml_int,
    "float": _CONSTRUCTOR.construct_yaml_float,
    "bool": _CONSTRUCTOR.construct_yaml_bool,
    "timestamp": _CONSTRUCTOR.construct_yaml_timestamp,
}
_NAMES = {"int": "number", "float": "number", "bool": "boolean", "timestamp": "date"}


def value(text: str, tag: str | None, plain: bool) -> Data:
    """Return the value of a scalar; `plain` means without quotes and without a tag.

    Raises ValueError with a message for the user if it has no value.
    """
    return _remembered(text, tag, plain) if len(text) <= _SHORT else _value(text, tag, plain)


def _value(text: str, tag: str | None, plain: bool) -> Data:
    kind = _resolved(text) if plain else _kind(tag)
    if kind in _READERS:
        return _read(kind, text)
    if kind == "null":
        return None
    return MERGE if kind == "merge" else text


_remembered = lru_cache(maxsize=4096)(_value)  # all files use the same names


def _resolved(text: str) -> str:
    """Return the kind of a plain scalar."""
    for tag, pattern in _RESOLVERS.get(text[:1], []):
        if pattern.match(text):
            return tag.removeprefix(_PREFIX)
    return "str"


def _kind(tag: str | None) -> str:
    """Return the kind that a tag names."""
    kind = (tag or "!").removeprefix(_PREFIX)
    if kind not in ("!", "str", "null", *_READERS):
        raise ValueError(f"{TAG}; write the value without it, or quote it if it is text")
    return kind


def _read(kind: str, text: str) -> Data:
    """Read with SafeLoader's readers; they fail on some text that fits their pattern."""
    if len(text) > MAX_NUMBER:
        raise ValueError("number too long; quote it if it is text")
    try:
        return _READERS[kind](yaml.ScalarNode(_PREFIX + kind, text))
    except (ValueError, KeyError, AttributeError, IndexError, OverflowError) as error:
        message = f"invalid {_NAMES[kind]}; quote it if it is text"
        raise ValueError(message) from error
