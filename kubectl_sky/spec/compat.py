"""What is valid here and SkyPilot 0.14 refuses: its reading of a file is narrower in these rules.

Only differences that are known are in the table; what both refuse, validate tells.
"""

import re
from collections.abc import Callable, Iterator
from fractions import Fraction

from kubectl_sky.errors import Problem
from kubectl_sky.spec import quantity
from kubectl_sky.spec.document import Data, Document

_CPUS = re.compile(r"[0-9.]+([eE][-+]?[0-9]+)?\+?")
_MEMORY = re.compile(r"[0-9.]+([kmgtp][bi])?\+?", re.IGNORECASE)


def differences(document: Document) -> list[Problem]:
    """Return why SkyPilot would refuse a document in which validate finds no error."""
    return sorted(found for rule in _RULES for found in rule(document))


def _volume(document: Document) -> Iterator[Problem]:
    if document.is_volume:
        yield document.problem((), "a volume is no task", "sky volumes apply takes it")


def _envs(document: Document) -> Iterator[Problem]:
    if isinstance(document.data, dict) and document.data.get("envs", {}) is None:
        message = "envs has nothing under it, at which SkyPilot fails"
        yield document.problem(("envs",), message, "leave it out", key=True)


def _resources(document: Document) -> Iterator[Problem]:
    for path in document.candidates():
        for field, (refused, message, hint) in _FIELDS.items():
            value = document.get(*path, field)
            if value is not None and refused(value):
                yield document.problem((*path, field), message, hint)


def _cpus(value: Data) -> bool:
    return isinstance(value, str) and not _CPUS.fullmatch(value)


def _memory(value: Data) -> bool:
    return isinstance(value, str) and not _MEMORY.fullmatch(value)


def _disk(value: Data) -> bool:
    """SkyPilot takes whole GB only."""
    try:
        size: Fraction = quantity.quantity(quantity.storage(value))
    except ValueError:
        return False
    return size % quantity.GIB != 0


def _number(value: Data) -> bool:
    return isinstance(value, int | float)


# Fields of resources: whether SkyPilot refuses the value, what it says, and what both take.
_FIELDS: dict[str, tuple[Callable[[Data], bool], str, str]] = {
    "cpus": (_cpus, "SkyPilot reads no Kubernetes quantity here", "such as 0.5 or 4+"),
    "memory": (_memory, "SkyPilot does not know this unit", "such as 8, 16GB or 512Mi"),
    "disk_size": (_disk, "SkyPilot takes whole GB only", "such as 256 or 1TB"),
    "accelerators": (_number, "SkyPilot needs the GPU's name", "such as V100:2"),
    "gpus": (_number, "SkyPilot needs the GPU's name", "such as V100:2"),
}
_RULES: tuple[Callable[[Document], Iterator[Problem]], ...] = (_volume, _envs, _resources)
