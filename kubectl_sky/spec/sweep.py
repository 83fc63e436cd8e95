"""A sweep: an array of tasks that differ in the values of some variables."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any

from msgspec import DecodeError, Struct
from msgspec.json import decode

from kubectl_sky.spec.document import printable
from kubectl_sky.spec.variables import is_name

MAX_VALUES = 1000  # of all variables: the object and its pods have them
_RANGE = re.compile(r"(-?[0-9]{1,9})\.\.(-?[0-9]{1,9})", re.ASCII)
_LIKE_RANGE = re.compile(r"-?[0-9][0-9.]*\.\..*", re.ASCII)
_NUMBER = r"[-+]?\.?[0-9][-+0-9.eE]*"
_NUMBERS = re.compile(rf"{_NUMBER}(?:\s+{_NUMBER})+", re.ASCII)
_EXAMPLE = "write it as [0.1, 0.01], 0.1,0.01 or 1..3"


class Sweep(Struct, frozen=True):
    """The values of each variable; each index has one combination. The last one varies fastest."""

    variables: Mapping[str, tuple[str, ...]]

    @property
    def count(self) -> int:
        return math.prod(map(len, self.variables.values()))

    def values(self, index: int) -> dict[str, str]:
        """Return the value of each variable at an index, from 0."""
        chosen = {}
        for name, values in reversed(tuple(self.variables.items())):
            index, position = divmod(index, len(values))
            chosen[name] = values[position]
        return {name: chosen[name] for name in self.variables}

    def title(self, index: int) -> str:
        """Return what distinguishes an index: `LR=0.1 SEED=2`."""
        return " ".join(f"{name}={value}" for name, value in self.values(index).items())

    def flags(self, indexes: Sequence[int]) -> list[str]:
        """Return the flags that stand for exactly these indexes; empty if none do."""
        chosen = [self.values(index) for index in indexes]
        values = {
            name: tuple(dict.fromkeys(combination[name] for combination in chosen))
            for name in self.variables
        }
        subset = Sweep(values)
        texts = {name: ",".join(values[name]) for name in values}
        try:
            is_exact = subset.count == len(chosen) and parse_sweep(texts) == subset
        except ValueError:  # a value of a list that a flag cannot have
            is_exact = False
        if not is_exact:
            return []
        return [word for name in texts for word in ("--sweep", f"{name}={texts[name]}")]

    @property
    def text(self) -> str:
        """The text of the annotation that keeps it."""
        return json.dumps(self.variables, ensure_ascii=False, separators=(",", ":"))


@lru_cache(maxsize=256)  # each node of an array has the same
def read_sweep(text: str) -> Sweep | None:
    """Return the sweep of an annotation; None without one, or if it is damaged."""
    try:
        variables = decode(text, type=dict[str, tuple[str, ...]]) if text else {}
    except (DecodeError, ValueError):
        return None
    return Sweep(variables) if variables and all(variables.values()) else None


def parse_sweep(fields: Mapping[Any, Any]) -> Sweep:
    """Parse a map of variables with lists, `0.1,0.01` or `1..3`. Raises ValueError."""
    variables = {str(name): _values(str(name), value) for name, value in fields.items()}
    for name in variables:
        if not is_name(name):
            raise ValueError(
                f'"{printable(name)}" is not the name of a variable; write NAME=VALUE,VALUE'
            )
    sweep = Sweep(variables)
    if (total := sum(map(len, variables.values()))) > MAX_VALUES:
        raise ValueError(f"{total:,} values are too many; a sweep has at most {MAX_VALUES:,}")
    return sweep


def _values(name: str, value: object) -> tuple[str, ...]:
    """Return the values of a variable in order."""
    if isinstance(value, list):
        values = tuple(str(item) for item in value)
    else:
        parts = [part.strip() for part in str(value).split(",")]
        if spaced := next(filter(_NUMBERS.fullmatch, parts), None):
            raise ValueError(f"{printable(spaced)} are several numbers; {_EXAMPLE}")
        values = tuple(chain.from_iterable(_expand(part) for part in parts))
    if not all(values):
        raise ValueError(f"{printable(name)} has an empty value; {_EXAMPLE}")
    if len(set(values)) < len(values):
        raise ValueError(f"{printable(name)} has a value twice; name each value once")
    return values


def _expand(part: str) -> tuple[str, ...]:
    match = _RANGE.fullmatch(part)
    if not match and _LIKE_RANGE.fullmatch(part):
        raise ValueError(f"{printable(part)} is no range of whole numbers; {_EXAMPLE}")
    if not match:
        return (part,)
    first = int(match[1])
    last = int(match[2])
    if last < first:
        raise ValueError(f"{part} ends before it begins; write {last}..{first}")
    if last - first >= MAX_VALUES:
        raise ValueError(f"{part} has too many values; a sweep has at most {MAX_VALUES:,}")
    return tuple(map(str, range(first, last + 1)))
