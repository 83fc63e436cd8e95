"""Amounts of resources as Kubernetes writes them: `500m`, `1536Mi`, `1e3`."""

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from kubectl_sky.practice.state import Json

_FORM = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))([numkMGTPE]?|[KMGTPE]i|[eE][+-]?\d+)")
_DECIMAL = {suffix: Fraction(1000) ** power for power, suffix in enumerate("num kMGTPE", -3)}
_DECIMAL[""] = _DECIMAL.pop(" ")
_BINARY = {f"{suffix}i": Fraction(1024) ** power for power, suffix in enumerate("KMGTPE", 1)}
_NANO = _DECIMAL["n"]


@dataclass(frozen=True)
class Quantity:
    """An amount; `form` says how to write it: decimal, binary ("i") or as an exponent ("e")."""

    value: Fraction
    form: str = ""

    def __add__(self, other: "Quantity") -> "Quantity":
        return Quantity(self.value + other.value, self.form if self.value else other.form)

    def __sub__(self, other: "Quantity") -> "Quantity":
        return Quantity(self.value - other.value, self.form if self.value else other.form)

    def __str__(self) -> str:
        value, exponent = self.value, self.form == "e"
        if self.form == "i" and abs(value) >= 1024 and value.denominator == 1:
            units = _BINARY
        else:
            units = _DECIMAL
        for suffix, unit in sorted(units.items(), key=lambda item: -item[1]):
            if value and (value / unit).denominator == 1:
                power = len(str(unit.numerator)) - len(str(unit.denominator))
                return f"{value / unit}" + (f"e{power}" * bool(power) if exponent else suffix)
        return str(value)


@lru_cache(maxsize=4096)
def parse(text: str | float) -> Quantity:
    """Read an amount; finer than a nano is rounded up. Raises ValueError."""
    found = _FORM.fullmatch(str(text))
    if not found:
        raise ValueError(text)
    number, suffix = Fraction(found[1].rstrip(".")), found[2]
    if suffix[:1] in ("e", "E") and len(suffix) > 1 and suffix != "Ei":
        value, form = number * Fraction(10) ** int(suffix[1:]), "e"
    else:
        value, form = number * (_BINARY | _DECIMAL)[suffix], "i" * suffix.endswith("i")
    return Quantity(-(-value // _NANO) * _NANO, form)


ZERO = Quantity(Fraction(0))


def total(amounts: dict[str, Quantity], more: dict[str, Quantity]) -> dict[str, Quantity]:
    """Return the sums by resource."""
    return amounts | {name: amounts.get(name, ZERO) + amount for name, amount in more.items()}


def amounts(found: dict[str, str | float] | None) -> dict[str, Quantity]:
    """Read amounts by resource."""
    return {name: parse(amount) for name, amount in (found or {}).items()}


def needs(spec: Json, part: str = "requests") -> dict[str, Quantity]:
    """Return what a pod needs at most at any time of its life: `requests` or `limits`."""
    found: dict[str, Quantity] = {}
    first: list[dict[str, Quantity]] = []
    for container in spec.get("initContainers") or ():
        asked = amounts(container["resources"].get(part))
        if container.get("restartPolicy") == "Always":  # runs beside all that follow
            found = total(found, asked)
            first.append(found)
        else:
            first.append(total(found, asked))
    for container in spec["containers"]:
        found = total(found, amounts(container["resources"].get(part)))
    for asked in first:
        for name, amount in asked.items():
            found[name] = max(found.get(name, ZERO), amount, key=lambda one: one.value)
    return total(found, amounts(spec.get("overhead")))
