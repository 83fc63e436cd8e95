"""Values that know where they come from, so that what is written can say it beside them."""

from collections.abc import Iterable, Mapping
from typing import Self


class Text(str):
    """Text with its origin: `task.yaml:7:3 resources.cpus`, `default`."""

    __slots__ = ("origin",)
    origin: str

    def __new__(cls, text: str, origin: str) -> Self:
        """Make it; no origin at all is an empty one."""
        made = super().__new__(cls, text)
        made.origin = origin
        return made


class Number(int):
    """A whole number with its origin."""

    origin: str

    def __new__(cls, number: int, origin: str) -> Self:
        """Make it."""
        made = super().__new__(cls, number)
        made.origin = origin
        return made


def texts(values: Mapping[str, str], origins: Mapping[str, str]) -> dict[str, str]:
    """Return the mapping with an origin at each value that has one."""
    return {
        key: Text(value, origins[key]) if origins.get(key) else value
        for key, value in values.items()
    }


def each(values: Iterable[str], origin: str) -> tuple[str, ...]:
    """Return the values, all of one origin."""
    return tuple(Text(value, origin) if origin else value for value in values)


def text(value: str | None, origin: str) -> str | None:
    """Return the value with its origin, if there are both."""
    return Text(value, origin) if value is not None and origin else value
