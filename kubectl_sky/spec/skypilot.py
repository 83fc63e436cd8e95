"""How SkyPilot 0.14 reads values: each function returns whether it accepts one.

Tested against 0.14.1; tests/spec/verdicts.tsv holds SkyPilot's own answers.
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
    """Accept a number, optionally with `+`."""
    return _positive(str(value).removesuffix("+"))


def memory(value: Data) -> bool:
    """Accept a number of GB or one with a two-letter unit, optionally with `+` or `x`."""
    text = str(value).removesuffix("+")
    if text.endswith("x"):
        return not str(value).endswith("+") and _positive(text.removesuffix("x"))
    return _positive(text) or (text[-2:].lower() in _UNITS and _positive(text[:-2]))


def disk(value: Data) -> bool:
    """Accept a whole number of GB, also in another unit."""
    if isinstance(value, int):
        return value > 0
    match = _WHOLE.fullmatch(str(value))
    if not match:
        return False
    size = Fraction(int(match[1]) * _UNITS.get((match[2] or "gb").lower(), 0), 1024**3)
    return size > 0 and size.denominator == 1


def volume_size(value: Data) -> bool:
    """Accept one gibibyte or more."""
    match = _WHOLE.fullmatch(str(value))
    return match is not None and int(match[1]) * _UNITS[(match[2] or "gb").lower()] >= 1024**3


def dropped_disk(value: Data) -> bool:
    """Accept any size in a field that SkyPilot ignores: only its form is checked."""
    return isinstance(value, int) or bool(_WHOLE.fullmatch(str(value)))


def accelerators(value: Data) -> bool:
    """Accept text, a map to counts or null, or a list of texts."""
    if isinstance(value, dict):
        return all(map(_gpu_entry, value.items()))
    items = value if isinstance(value, list) else [value]
    return all(isinstance(item, str) and _gpu(item) for item in items)


def candidate_accelerators(value: Data) -> bool:
    """Accept one accelerator only, as within any_of and ordered."""
    if isinstance(value, dict):
        return len(value) < 2 and None not in value.values() and accelerators(value)
    return isinstance(value, str) and accelerators(value)


def labels(value: Data) -> bool:
    """Accept text as values only."""
    return not isinstance(value, dict) or all(isinstance(text, str) for text in value.values())


def cloud(value: Data) -> bool:
    """Reject `k8s`: SkyPilot accepts only `kubernetes` here."""
    return str(value).lower() != "k8s"


def autostop(value: Data) -> bool:
    """Reject seconds: the smallest unit is the minute."""
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
    is_memory = [bool(_GPU_MEMORY.fullmatch(part)) for part in parts]
    if len(parts) == 1:
        return True
    if len(parts) == 2:
        return _integer(parts[1]) if is_memory[0] else is_memory[1] or _positive(parts[1])
    return len(parts) == 3 and is_memory[1] and _integer(parts[2])


def substitutes(value: Data, variables: Mapping[str, str]) -> bool:
    """Accept a field that is valid JSON after SkyPilot substitutes variables in it."""
    try:
        serialized = json.dumps(value)
    except (TypeError, ValueError):
        return False
    filled = _REFERENCE.sub(lambda match: variables.get(match[1], match[0]), serialized)
    try:
        json.loads(filled)
    except ValueError:
        return False
    return True


def _positive(text: str) -> bool:
    try:
        return not float(text) <= 0  # NaN passes
    except ValueError:
        return False


def _integer(text: str) -> bool:
    try:
        return int(text) > 0
    except ValueError:
        return False
