"""How SkyPilot 0.14 reads single values: each function says whether it takes one.

Tried against 0.14.1; tests/spec/verdicts.tsv holds its own answers.
"""

import json
import re
from collections.abc import Mapping
from fractions import Fraction

from kubectl_sky.spec.document import Data

_UNITS = {
    f"{letter}{end}": 1024**power for power, letter in enumerate("kmgtp", 1) for end in ("b", "i")
}
_WHOLE = re.compile(r"([0-9]+)([kmgtp][bi]|[KMGTP][BI]|[KMGTP][bi])?")
_GPU_MEMORY = re.compile(r"[0-9]+[GMT]B\+?", re.IGNORECASE)
_REFERENCE = re.compile(r"\$\{?\b([a-zA-Z_][a-zA-Z0-9_]*)\b\}?")
_TIME = re.compile(r"[0-9]+[mhdwMHDW]?")


def cpus(value: Data) -> bool:
    """A number, or one with a `+`."""
    return _positive(str(value).removesuffix("+"))


def memory(value: Data) -> bool:
    """A number of GB, one with a unit of two letters, and a `+` or `x` after it."""
    text = str(value).removesuffix("+")
    if text.endswith("x"):
        return not str(value).endswith("+") and _positive(text.removesuffix("x"))
    return _positive(text) or (text[-2:].lower() in _UNITS and _positive(text[:-2]))


def disk(value: Data) -> bool:
    """A whole number of GB, also one that a unit makes whole."""
    if isinstance(value, int):
        return value > 0
    found = _WHOLE.fullmatch(str(value))
    if not found:
        return False
    size = Fraction(int(found[1]) * _UNITS.get((found[2] or "gb").lower(), 0), 1024**3)
    return size > 0 and size.denominator == 1


def volume_size(value: Data) -> bool:
    """A gibibyte or more."""
    found = _WHOLE.fullmatch(str(value))
    return found is not None and int(found[1]) * _UNITS[(found[2] or "gb").lower()] >= 1024**3


def dropped_disk(value: Data) -> bool:
    """What is written under a name that SkyPilot passes over: only its form counts."""
    return isinstance(value, int) or bool(_WHOLE.fullmatch(str(value)))


def accelerators(value: Data) -> bool:
    """Text, a map of counts or of nothing, or a list of texts."""
    if isinstance(value, dict):
        return all(map(_gpu_entry, value.items()))
    items = value if isinstance(value, list) else [value]
    return all(isinstance(item, str) and _gpu(item) for item in items)


def candidate_accelerators(value: Data) -> bool:
    """Within any_of and ordered one kind only."""
    if isinstance(value, dict):
        return len(value) < 2 and None not in value.values() and accelerators(value)
    return isinstance(value, str) and accelerators(value)


def labels(value: Data) -> bool:
    """Text each."""
    return not isinstance(value, dict) or all(isinstance(text, str) for text in value.values())


def cloud(value: Data) -> bool:
    """Kubernetes has its long name here only."""
    return str(value).lower() != "k8s"


def autostop(value: Data) -> bool:
    """Seconds are too fine for it."""
    return not isinstance(value, str) or bool(_TIME.fullmatch(value))


def _gpu_entry(entry: tuple[Data, Data]) -> bool:
    name, count = entry
    if count is None:
        return _gpu(str(name))
    return (
        isinstance(count, int | float) and not isinstance(count, bool) and _gpu(f"{name}:{count}")
    )


def _gpu(text: str) -> bool:
    parts = text.split(":")
    known = [bool(_GPU_MEMORY.fullmatch(part)) for part in parts]
    if len(parts) == 1:
        return True
    if len(parts) == 2:
        return _integer(parts[1]) if known[0] else known[1] or _positive(parts[1])
    return len(parts) == 3 and known[1] and _integer(parts[2])


def substitutes(value: Data, variables: Mapping[str, str]) -> bool:
    """Say whether variables can be put into a field: SkyPilot puts them into its JSON."""
    try:
        written = json.dumps(value)
    except (TypeError, ValueError):
        return False
    filled = _REFERENCE.sub(lambda found: variables.get(found[1], found[0]), written)
    try:
        json.loads(filled)
    except ValueError:
        return False
    return True


def _positive(text: str) -> bool:
    try:
        return not float(text) <= 0  # not a number passes
    except ValueError:
        return False


def _integer(text: str) -> bool:
    try:
        return int(text) > 0
    except ValueError:
        return False
