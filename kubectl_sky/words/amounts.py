"""Durations and sizes as people write them, to propose the form that is accepted.

`1 hour 30 min` and `01:30:00` are 1h30m, `4 cores` is 4, and `16g` is 16G.
"""

import re
from collections.abc import Callable, Sequence
from fractions import Fraction

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_WORDS = {
    "s": "s sec secs second seconds",
    "m": "m min mins minute minutes",
    "h": "h hr hrs hour hours",
    "d": "d day days",
    "w": "w wk week weeks",
}
_LETTERS = {word: letter for letter, words in _WORDS.items() for word in words.split()}
_NUMBER = r"([0-9]{1,9}(?:[.,][0-9]{1,3})?)"
_PART = re.compile(rf"{_NUMBER}\s*({'|'.join(sorted(_LETTERS, key=len, reverse=True))})[\s,]*")
_CLOCK = re.compile(r"(?:([0-9]{1,4})-)?([0-9]{1,4}):([0-9]{2})(?::([0-9]{2}))?")
_SIZE = re.compile(rf"{_NUMBER}[\s-]*([A-Za-z]{{0,10}})")
_RANGE = re.compile(r"(?:>=?|at least|min)\s*([0-9.]{1,9})|([0-9.]{1,9})\s*(?:-|\.\.|to)\s*[0-9.]+")
OF_CPUS = ("c", "core", "cores", "cpu", "cpus", "vcpu", "vcpus", "thread", "threads")
_MAX_LENGTH = 40


def duration(text: str) -> str:
    """Return a duration such as 1h30m for a text that means one; "" if it means none."""
    lower = text.strip().lower()
    if len(lower) > _MAX_LENGTH:
        return ""
    clock = _CLOCK.fullmatch(lower)
    if clock:
        days, hours, minutes, seconds = (int(number or 0) for number in clock.groups())
        return _join(days * 86_400 + hours * 3600 + minutes * 60 + seconds)

    parts = _PART.findall(lower)
    if not parts or _PART.sub("", lower):
        return ""
    total = sum(Fraction(number.replace(",", ".")) * _seconds(word) for number, word in parts)
    return _join(int(total))


def _seconds(word: str) -> int:
    return _UNITS[_LETTERS[word]]


def _join(seconds: int) -> str:
    """Return seconds as a duration; "" for none."""
    text = ""
    for letter in "dhms":
        count, seconds = divmod(seconds, _UNITS[letter])
        text += f"{count}{letter}" if count else ""
    return text


def size(text: str, read: Callable[[str], object], words: Sequence[str] = ()) -> str:
    """Return the form that `read` takes for a text that means a size; "" if there is none.

    `read` raises ValueError. The `words` mean no unit, such as cores.
    """
    lower = text.strip().lower()
    if len(lower) > _MAX_LENGTH:
        return ""
    minimum = _RANGE.fullmatch(lower)
    match = _SIZE.fullmatch(lower)
    forms: list[str] = []
    if minimum:
        forms = [f"{minimum[1] or minimum[2]}+"]
    elif match:
        number = match[1].replace(",", ".")
        unit = match[2]
        binary = "i" if unit[1:2] == "i" else ""
        forms = [number] if unit in ("", *words) else [f"{number}{unit[:1].upper()}{binary}"]
    for form in forms:
        try:
            read(form)
        except ValueError:
            continue
        return "" if form == text else form
    return ""
