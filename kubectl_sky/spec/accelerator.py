"""Parse accelerators: a count, a name, name:count, or several candidates."""

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from kubectl_sky.spec import quantity
from kubectl_sky.spec.document import Data, Path

MAX_COUNT = 1024
# The models of plan/accelerators.py and other common names, to suggest one for a misspelt name.
MODELS = (
    *("GB300", "GB200", "B300", "B200", "B100", "GH200", "H200", "H100-MEGA", "H100", "H100-80GB"),
    *("A100-80GB", "A100-40GB", "A100", "A10G", "A10", "A16", "A30", "A40", "A2", "RTXPRO6000"),
    *("RTX6000-Ada", "RTX6000", "RTX5090", "RTX4090", "RTX3090", "L40S", "L40", "L20", "L4"),
    *("A6000", "A5000", "A4000", "V100-32GB", "V100", "P100", "P40", "P4000", "P4", "T4g", "T4"),
    *("K80", "M60", "MI355X", "MI325X", "MI300X", "MI250X", "MI250", "MI210", "MI100"),
    *("Trainium2", "Trainium", "Inferentia2", "Inferentia", "H20", "H800", "A800", "RTX3080"),
)

_MEMORY = re.compile(r"[0-9]{1,6}[GMT]B\+?", re.IGNORECASE)
_NAME = re.compile(r"[A-Za-z0-9][-A-Za-z0-9_.+ ]{0,61}[A-Za-z0-9+]?")
_EXPECTED = 'expected a count such as 1, a name such as V100, or both: "V100:2"'


@dataclass(frozen=True)
class Accelerator:
    """GPUs of one node; `name` is None for any GPU of the cluster."""

    name: str | None
    count: int


@dataclass(frozen=True)
class RequestedAccelerator:
    """A requested candidate, as the user wrote it: the count may be a fraction."""

    name: str | None
    count: Fraction

    @property
    def rounded(self) -> Accelerator:
        """Return the candidate in whole GPUs: Kubernetes allocates no fractions."""
        return Accelerator(self.name, ceil(self.count))


class InvalidAccelerator(ValueError):
    """The text of an accelerator is invalid; `keys` lead to it from the field."""

    def __init__(self, message: str, text: str, keys: Path = ()) -> None:
        super().__init__(message)
        self.text = text
        self.keys = keys


def candidates(value: Data) -> tuple[RequestedAccelerator, ...]:
    """Parse the candidates of `accelerators`.

    Forms: 1, "V100", "V100:2", "{V100:2, A100}", {V100: 2}, {"V100:2": null}, or a list of these.
    Raises InvalidAccelerator with a message for the user.
    """
    return tuple(candidate for _, _, candidate in entries(value))


def entries(value: Data) -> Iterator[tuple[Path, str, RequestedAccelerator]]:
    """Yield the candidates of `accelerators`: the keys that lead to each, its text and meaning.

    Raises InvalidAccelerator.
    """
    count = 0
    for keys, text in _candidate_texts(value):
        count += 1
        try:
            yield keys, text, _parse_candidate(text)
        except ValueError as error:
            raise InvalidAccelerator(str(error), text, keys) from None
    if not count:
        raise InvalidAccelerator(_EXPECTED, "")


def _candidate_texts(value: Data) -> Iterator[tuple[Path, str]]:
    if isinstance(value, dict):
        for name, count in value.items():
            yield (name,), str(name) if count is None else f"{name}:{count}"
    elif isinstance(value, list):
        for index, item in enumerate(value):
            texts = _candidate_texts(item) if isinstance(item, dict) else [((), str(item))]
            yield from (((index, *keys), text) for keys, text in texts)
    elif isinstance(value, str) and value.strip().startswith("{"):
        for item in value.strip().strip("{}").split(","):
            yield (), item.strip(" '\"")
    else:
        yield (), str(value)


def suggestion(name: str) -> str:
    """Return the known model that a name misspells; "" if there is none.

    Only names with the same digits are compared: A10 is no misspelt A100.
    """
    simplified_name = _simplified(name)
    names = {_simplified(model): model for model in MODELS}
    if simplified_name in names:
        model = names[simplified_name]
        return "" if model.upper() == name.upper() else model
    digits = re.sub(r"\D", "", simplified_name)
    alike = [text for text in names if re.sub(r"\D", "", text) == digits]
    matches = difflib.get_close_matches(simplified_name, alike, n=1, cutoff=0.7) if digits else []
    return names[matches[0]] if matches else ""


def _simplified(name: str) -> str:
    """Return a name without the differences that people overlook: O and 0, I and 1."""
    return re.sub(r"[-_ ]", "", name.upper()).replace("O", "0").replace("I", "1")


def _parse_candidate(text: str) -> RequestedAccelerator:
    """Parse one candidate.

    SkyPilot's memory form (`80GB+`, `nvidia:80GB:2`) is kept as a name.
    """
    text = text.strip()
    head, colon, tail = text.rpartition(":")
    if quantity.number(text) is not None:
        return RequestedAccelerator(None, _checked_count(text))
    if not colon:
        return RequestedAccelerator(_checked_name(text), Fraction(1))
    if quantity.number(tail) is None and _is_memory(tail):
        return RequestedAccelerator(_checked_name(text), Fraction(1))
    return RequestedAccelerator(_checked_name(head.rstrip()), _checked_count(tail))


def _is_memory(text: str) -> bool:
    return bool(_MEMORY.fullmatch(text))


def _checked_name(text: str) -> str:
    name, *memory = text.split(":")
    if not _NAME.fullmatch(name) or not all(map(_is_memory, memory)):
        raise ValueError(_EXPECTED)
    return text


def _checked_count(text: str) -> Fraction:
    count = quantity.number(text)
    if count is None:
        raise ValueError("the count must be a number")
    if count <= 0:
        raise ValueError("the count must be more than 0")
    if count > MAX_COUNT:
        raise ValueError(f"more than {MAX_COUNT} GPUs per node are not supported")
    return count
