"""Amounts of resources as Kubernetes writes them: `500m`, `1536Mi`, `1e3`."""

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import ceil

from kubectl_sky_practice.state import Json

_FORM = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))([numkMGTPE]?|[KMGTPE]i|[eE][+-]?\d{1,2})")
_ONE = 10**9  # everything is counted in nanos, the finest there is
_DECIMAL = {suffix.strip(): 1000**power for power, suffix in enumerate("num kMGTPE")}
_BINARY = {f"{suffix}i": _ONE * 1024**power for power, suffix in enumerate("KMGTPE", 1)}


@dataclass(frozen=True)
class Quantity:
    """An amount; `form` says how to write it: decimal, binary ("i") or as an exponent ("e")."""

    nanos: int
    form: str = ""

    @property
    def value(self) -> Fraction:
        return Fraction(self.nanos, _ONE)

    def __add__(self, other: "Quantity") -> "Quantity":
        form = self.form if self.nanos else other.form
        return Quantity(self.nanos + other.nanos, form)

    def __sub__(self, other: "Quantity") -> "Quantity":
        form = self.form if self.nanos else other.form
        return Quantity(self.nanos - other.nanos, form)

    def __str__(self) -> str:
        whole = self.nanos % _ONE == 0
        binary = self.form == "i" and whole and abs(self.nanos) >= 1024 * _ONE
        for suffix, unit in reversed((_BINARY if binary else _DECIMAL).items()):
            if self.nanos and self.nanos % unit == 0:
                power = len(str(unit)) - len(str(_ONE))
                exponent = f"e{power}" * bool(power)
                return f"{self.nanos // unit}{exponent if self.form == 'e' else suffix}"
        return str(self.nanos // _ONE)  # nothing, or bytes


@lru_cache(maxsize=4096)
def parse(text: str | float) -> Quantity:
    """Read an amount; finer than a nano is rounded up. Raises ValueError."""
    match = _FORM.fullmatch(str(text))
    if not match:
        raise ValueError(text)
    number = Fraction(match[1].rstrip("."))
    suffix = match[2]
    if suffix[:1] in ("e", "E") and len(suffix) > 1 and suffix != "Ei":
        return Quantity(ceil(number * _ONE * Fraction(10) ** int(suffix[1:])), "e")
    return Quantity(ceil(number * (_BINARY | _DECIMAL)[suffix]), "i" * suffix.endswith("i"))


ZERO = Quantity(0)


def total(amounts: dict[str, Quantity], more: dict[str, Quantity]) -> dict[str, Quantity]:
    return amounts | {name: amounts.get(name, ZERO) + amount for name, amount in more.items()}


def amounts(values: dict[str, str | float] | None) -> dict[str, Quantity]:
    return {name: parse(amount) for name, amount in (values or {}).items()}


def needs(spec: Json, part: str = "requests") -> dict[str, Quantity]:
    """Return what a pod needs at most at any time of its life: `requests` or `limits`."""
    needed: dict[str, Quantity] = {}
    first: list[dict[str, Quantity]] = []

    for container in spec.get("initContainers") or ():
        amount_by_name = amounts(container["resources"].get(part))
        if container.get("restartPolicy") == "Always":  # runs beside all that follow
            needed = total(needed, amount_by_name)
            first.append(needed)
        else:
            first.append(total(needed, amount_by_name))

    for container in spec["containers"]:
        needed = total(needed, amounts(container["resources"].get(part)))
    for amount_by_name in first:
        for name, amount in amount_by_name.items():
            needed[name] = max(needed.get(name, ZERO), amount, key=lambda quantity: quantity.nanos)
    return total(needed, amounts(spec.get("overhead")))
