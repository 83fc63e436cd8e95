"""Strings and numbers that carry their origin, so that output can show it."""

from collections.abc import Iterable, Mapping
from typing import Self


class TracedStr(str):
    """A string with its origin: `task.yaml:7:3 resources.cpus`, `default`."""

    __slots__ = ("origin",)
    origin: str

    def __new__(cls, text: str, origin: str) -> Self:
        """Create the string; an empty origin means unknown."""
        instance = super().__new__(cls, text)
        instance.origin = origin
        return instance


class TracedInt(int):
    """An integer with its origin."""

    origin: str

    def __new__(cls, number: int, origin: str) -> Self:
        """Create the number."""
        instance = super().__new__(cls, number)
        instance.origin = origin
        return instance


def trace_values(values: Mapping[str, str], origins: Mapping[str, str]) -> dict[str, str]:
    """Return the mapping with origins added to the values that have one."""
    return {
        key: TracedStr(value, origins[key]) if origins.get(key) else value
        for key, value in values.items()
    }


def trace_all(values: Iterable[str], origin: str) -> tuple[str, ...]:
    """Return the values, all with the same origin."""
    return tuple(TracedStr(value, origin) if origin else value for value in values)


def trace(value: str | None, origin: str) -> str | None:
    """Return the value with its origin, if both are set."""
    return TracedStr(value, origin) if value is not None and origin else value
