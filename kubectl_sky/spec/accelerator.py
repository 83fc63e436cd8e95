"""Parse accelerators: a count, a name, name:count, or several candidates."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from kubectl_sky.spec import quantity
from kubectl_sky.spec.document import Data

MAX_COUNT = 1024

_MEMORY = re.compile(r"[0-9]{1,6}[GMT]B\+?", re.IGNORECASE)
_NAME = re.compile(r"[A-Za-z0-9][-A-Za-z0-9_.+ ]{0,61}[A-Za-z0-9+]?")
_EXPECTED = 'a GPU is a count such as 1, a name such as V100, or both: "V100:2"'


@dataclass(frozen=True)
class Accelerator:
    """GPUs of one node; `name` is None for any GPU of the cluster."""

    name: str | None
    count: int


@dataclass(frozen=True)
class Asked:
    """A requested candidate, as the user wrote it: the count may be a fraction."""

    name: str | None
    count: Fraction

    @property
    def whole(self) -> Accelerator:
        """Return the candidate in whole GPUs: Kubernetes allocates no fractions."""
        return Accelerator(self.name, ceil(self.count))


def candidates(value: Data) -> tuple[Asked, ...]:
    """Parse the candidates of `accelerators`.

    Forms: 1, "V100", "V100:2", "{V100:2, A100}", {V100: 2}, {"V100:2": null}, or a list of these.
    Raises ValueError with a message for the user.
    """
    requests = tuple(_one(text) for text in _texts(value))
    if not requests:
        raise ValueError(_EXPECTED)
    return requests


def _texts(value: Data) -> Iterator[str]:
    if isinstance(value, dict):
        for name, count in value.items():
            yield str(name) if count is None else f"{name}:{count}"
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item) if isinstance(item, dict) else (str(item),)
    elif isinstance(value, str) and value.strip().startswith("{"):
        for item in value.strip().strip("{}").split(","):
            yield item.strip(" '\"")
    else:
        yield str(value)


def _one(text: str) -> Asked:
    """Parse one candidate.

    SkyPilot's memory form (`80GB+`, `nvidia:80GB:2`) is kept as a name.
    """
    text = text.strip()
    head, colon, tail = text.rpartition(":")
    if quantity.number(text) is not None:
        return Asked(None, _counted(text))
    if not colon:
        return Asked(_named(text), Fraction(1))
    if quantity.number(tail) is None and _is_memory(tail):
        return Asked(_named(text), Fraction(1))
    return Asked(_named(head), _counted(tail))


def _is_memory(text: str) -> bool:
    return bool(_MEMORY.fullmatch(text))


def _named(text: str) -> str:
    name, *memory = text.split(":")
    if not _NAME.fullmatch(name) or not all(map(_is_memory, memory)):
        raise ValueError(_EXPECTED)
    return text


def _counted(text: str) -> Fraction:
    count = quantity.number(text)
    if count is None:
        raise ValueError(f"the count is a number, got {text[:20]!r}")
    if count <= 0:
        raise ValueError("the count has to be more than 0")
    if count > MAX_COUNT:
        raise ValueError(f"more than {MAX_COUNT} GPUs on one node; no machine has that")
    return count
