"""Convert the user's sizes to Kubernetes quantities, exactly, without floats."""

import re
from fractions import Fraction
from functools import lru_cache

_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60}
_DECIMAL = {"k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15, "E": 10**18}
_CPU_UNITS = {"m": Fraction(1, 1000), "": Fraction(1)}
_SMALL = {"n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000), "": Fraction(1)}
_KUBERNETES: dict[str, Fraction | int] = {**_SMALL, **_DECIMAL, **_BINARY}
# SkyPilot's units, in upper or lower case; all are powers of two.
_SKYPILOT = {
    unit: 1024**power
    for power, letter in enumerate("kmgtp", 1)
    for unit in (f"{letter}b", f"{letter}i")
}

_NUMBER = re.compile(r"([+-]?)([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE]([+-]?[0-9]{1,2}))?", re.ASCII)
_MAX_LENGTH = 40
MAX_CPUS = 100_000
MAX_BYTES = 2**60  # one exbibyte; Kubernetes counts bytes in 63 bits
GIB = 2**30
SKYPILOT_CPUS = 2  # the default if a task requests none


def cpus(value: str | int | float) -> str:
    """Parse CPUs such as 4, 0.5, "4", "4+" or "500m"; return "4" or "500m".

    "4+" is SkyPilot's "at least 4"; see `is_minimum`. Raises ValueError with a message for the
    user.
    """
    amount, unit = _split(_text(value))
    count = _positive(
        amount, _CPU_UNITS.get(unit), 'CPUs are a number such as 2, 0.5, "4+" or "500m"'
    )
    if count > MAX_CPUS:
        raise ValueError(f"more than {MAX_CPUS:,} CPUs")
    thousandths = count * 1000
    if thousandths.denominator != 1:
        raise ValueError("CPUs have at most three decimal places in Kubernetes")
    if count.denominator == 1:
        return str(count.numerator)
    return f"{thousandths.numerator}m"


def memory(value: str | int | float, of_cpus: str | int | float | None = None) -> str:
    """Parse memory; return a Kubernetes quantity such as "8Gi".

    A number is GiB. SkyPilot's units ("16GB") are powers of two; Kubernetes' units are also
    accepted. "8+" is SkyPilot's "at least 8"; see `is_minimum`. "4x" is 4 GiB for each of
    `of_cpus`, or for each of SkyPilot's default of 2 CPUs. Raises ValueError with a message for the
    user.
    """
    text = _text(value)
    expected = 'memory is GiB such as 8, or has a unit: "16GB", "512Mi"'
    if not text.endswith("x"):
        return _bytes(text, expected)
    amount, unit = _split(text)
    cpu_count = quantity(cpus(SKYPILOT_CPUS if of_cpus is None else of_cpus))
    factor = GIB * cpu_count if unit == "x" else None
    return _round(_positive(amount, factor, expected))


def is_minimum(value: str | int | float | None) -> bool:
    """Report whether a size is SkyPilot's "at least", such as "4+": a request without a limit."""
    return str(value).endswith("+")


def storage(value: str | int | float) -> str:
    """Parse the size of a volume ("10" is GiB); return a quantity such as "10Gi".

    Raises ValueError with a message for the user.
    """
    return _bytes(str(value), 'a size is GiB such as 10, or has a unit: "10Gi", "1Ti"')


def quantity(text: str) -> Fraction:
    """Return a Kubernetes quantity as a number, so "1000m" equals "1".

    Raises ValueError for what is not a quantity.
    """
    amount, unit = _split(text)
    if amount is None or unit not in _KUBERNETES:
        raise ValueError(f'"{text[:_MAX_LENGTH]}" is not a Kubernetes quantity')
    return amount * _KUBERNETES[unit]


def multiple(size: str, factor: Fraction, step: Fraction) -> str:
    """Return a quantity times a factor, rounded up to whole steps.

    `step` is a thousandth for CPUs, else 1.
    """
    count = quantity(size) * factor / step
    steps = -(-count.numerator // count.denominator)
    if step != 1 and steps % 1000:
        return f"{steps}m"
    return str(steps // 1000) if step != 1 else _canonical(steps)


def number(text: str) -> Fraction | None:
    amount, unit = _split(text)
    return None if unit else amount


def _text(value: str | int | float) -> str:
    """Return the value as text, without SkyPilot's `+`."""
    return str(value).removesuffix("+")


def _bytes(text: str, expected: str) -> str:
    amount, unit = _split(text)
    if re.fullmatch("[KMGTPE]IB", unit.strip().upper()):
        known = unit.strip()[0].upper() + "i"
        number = text[: text.rindex(unit.strip())].strip()
        raise ValueError(f'the unit is {known} in Kubernetes: write "{number}{known}"')
    factor = _BINARY.get(unit) or _DECIMAL.get(unit) or _SKYPILOT.get(unit.strip().lower())
    if not unit:
        factor = GIB
    return _round(_positive(amount, factor, expected))


def _round(size: Fraction) -> str:
    if size > MAX_BYTES:
        raise ValueError("more than an exbibyte")
    if size < 1:
        raise ValueError("less than a byte")
    return _canonical(-(-size.numerator // size.denominator))


def _positive(amount: Fraction | None, factor: Fraction | int | None, expected: str) -> Fraction:
    if amount is None or factor is None:
        raise ValueError(expected)
    if amount <= 0:
        raise ValueError("must be more than 0")
    return amount * factor


@lru_cache(maxsize=1024)
def _split(text: str) -> tuple[Fraction | None, str]:
    """Split text into number and unit; None if it does not start with a number."""
    text = text.strip(" ")
    match = _NUMBER.match(text) if len(text) <= _MAX_LENGTH else None
    if not match:
        return None, ""
    amount = Fraction(match[2].removesuffix(".")) * Fraction(10) ** int(match[3] or 0)
    if match[1] == "-":
        amount = -amount
    return amount, text[match.end() :]


def _canonical(size: int) -> str:
    """Return bytes in the shortest form: 8589934592 is "8Gi", 4000000000 is "4G"."""
    units = {**_BINARY, **_DECIMAL, "": 1}
    texts = [f"{size // factor}{unit}" for unit, factor in units.items() if size % factor == 0]
    return min(texts, key=len)
