"""Sizes as the user writes them become Kubernetes quantities; exact, without floats."""

import re
from fractions import Fraction
from functools import lru_cache

_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60}
_DECIMAL = {"k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15, "E": 10**18}
_CPU_UNITS = {"m": Fraction(1, 1000), "": Fraction(1)}
_SMALL = {"n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000), "": Fraction(1)}
_KUBERNETES: dict[str, Fraction | int] = {**_SMALL, **_DECIMAL, **_BINARY}
# SkyPilot's units, in any case: all are powers of two.
_SKYPILOT = {
    unit: 1024**power
    for power, letter in enumerate("kmgtp", 1)
    for unit in (f"{letter}b", f"{letter}i")
}

_NUMBER = re.compile(r"([+-]?)([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE]([+-]?[0-9]{1,2}))?", re.ASCII)
_MAX_LENGTH = 40
MAX_CPUS = 100_000
MAX_BYTES = 2**60  # an exbibyte; Kubernetes counts bytes in 63 bits
GIB = 2**30
SKYPILOT_CPUS = 2  # where a task asks for none


def cpus(value: str | int | float) -> str:
    """Read CPUs: 4, 0.5, "4", "4+", "500m". Raises ValueError with a message for the user.

    "4+" is SkyPilot's "at least 4", which on Kubernetes asks for 4. Returns "4" or "500m".
    """
    found, unit = _split(_text(value))
    count = _positive(
        found, _CPU_UNITS.get(unit), 'CPUs are a number such as 2, 0.5, "4+" or "500m"'
    )
    if count > MAX_CPUS:
        raise ValueError(f"more than {MAX_CPUS:,} CPUs; no machine has that")
    thousandths = count * 1000
    if thousandths.denominator != 1:
        raise ValueError("Kubernetes counts CPUs in thousandths, no finer")
    if count.denominator == 1:
        return str(count.numerator)
    return f"{thousandths.numerator}m"


def memory(value: str | int | float, of_cpus: str | int | float | None = None) -> str:
    """Read memory: a number is GiB, SkyPilot's units ("16GB") are powers of two, Kubernetes' too.

    "8+" is SkyPilot's "at least 8", which on Kubernetes asks for 8; "4x" is 4 GiB for each of
    `of_cpus`, or of SkyPilot's 2. Raises ValueError with a message for the user. Returns "8Gi".
    """
    text = _text(value)
    expected = 'memory is GiB such as 8, or has a unit: "16GB", "512Mi"'
    if not text.endswith("x"):
        return _bytes(text, expected)
    found, unit = _split(text)
    count = quantity(cpus(SKYPILOT_CPUS if of_cpus is None else of_cpus))
    return _rounded(_positive(found, GIB * count if unit == "x" else None, expected))


def storage(value: str | int | float) -> str:
    """Read the size of a volume: "10" is GiB. Raises ValueError; returns "10Gi"."""
    return _bytes(str(value), 'a size is GiB such as 10, or has a unit: "10Gi", "1Ti"')


def quantity(text: str) -> Fraction:
    """Return a Kubernetes quantity as a number, so that "1000m" equals "1". Raises ValueError."""
    found, unit = _split(text)
    if found is None or unit not in _KUBERNETES:
        raise ValueError(f"{text[:_MAX_LENGTH]!r} is no Kubernetes quantity")
    return found * _KUBERNETES[unit]


def multiple(size: str, factor: Fraction, step: Fraction) -> str:
    """Return a quantity times a factor, rounded up to whole steps: thousandths for CPUs, else 1."""
    count = quantity(size) * factor / step
    whole = -(-count.numerator // count.denominator)
    if step != 1 and whole % 1000:
        return f"{whole}m"
    return str(whole // 1000) if step != 1 else _canonical(whole)


def number(text: str) -> Fraction | None:
    """Return a plain number, exactly; None for what is none."""
    found, unit = _split(text)
    return None if unit else found


def _text(value: str | int | float) -> str:
    """Return the value without SkyPilot's `+`."""
    return str(value).removesuffix("+")


def _bytes(text: str, expected: str) -> str:
    found, unit = _split(text)
    return _rounded(_positive(found, _factor(unit), expected))


def _rounded(size: Fraction) -> str:
    if size > MAX_BYTES:
        raise ValueError("more than an exbibyte; no machine has that")
    if size < 1:
        raise ValueError("less than a byte")
    return _canonical(-(-size.numerator // size.denominator))


def _factor(unit: str) -> int | None:
    """Return the bytes of a unit as Kubernetes writes it, else of SkyPilot's, else None."""
    if unit == "":
        return GIB
    return _BINARY.get(unit) or _DECIMAL.get(unit) or _SKYPILOT.get(unit.strip().lower())


def _positive(found: Fraction | None, factor: Fraction | int | None, expected: str) -> Fraction:
    if found is None or factor is None:
        raise ValueError(expected)
    if found <= 0:
        raise ValueError("has to be more than 0")
    return found * factor


@lru_cache(maxsize=1024)
def _split(text: str) -> tuple[Fraction | None, str]:
    """Split into number and unit; no number for what starts with none."""
    text = text.strip(" ")
    match = _NUMBER.match(text) if len(text) <= _MAX_LENGTH else None
    if not match:
        return None, ""
    found = Fraction(match[2].removesuffix(".")) * Fraction(10) ** int(match[3] or 0)
    return (-found if match[1] == "-" else found), text[match.end() :]


def _canonical(size: int) -> str:
    """Return bytes as shortly as they can be written: 8589934592 is "8Gi", 4000000000 is "4G"."""
    units = {**_BINARY, **_DECIMAL, "": 1}
    texts = [f"{size // factor}{unit}" for unit, factor in units.items() if size % factor == 0]
    return min(texts, key=len)
