"""Read values of Slurm's options: times, sizes, counts, GPUs and arrays."""

import re

from msgspec import Struct

_UNITS = {"": 1, "K": 0, "M": 1, "G": 1024, "T": 1024 * 1024}  # in MiB; K is rounded up
_MAX_NUMBERS = 100_000  # of an array, in all its parts with steps
_MAX_NAMES = 10_000  # of a list, in all its ranges
_MAX_NAME = 253  # characters of a cluster node's name
_TIME = re.compile(r"(?:(?P<days>\d{1,9})-)?(?P<rest>\d{1,9}(?::\d{1,9}){0,2})")
_MEMORY = re.compile(r"(\d{1,12}(?:\.\d{1,12})?)([KMGT]?)(?:i?B)?", re.IGNORECASE)


def seconds(text: str) -> int | None:
    """Return a time limit in seconds; None for no limit. Raises ValueError.

    Forms: minutes, m:s, h:m:s, d-h, d-h:m, d-h:m:s; 0, UNLIMITED and INFINITE are no limit.
    """
    if text.upper() in ("UNLIMITED", "INFINITE", "-1"):
        return None
    match = _TIME.fullmatch(text)
    if not match:
        raise ValueError("expected a time such as 90, 30:00, 12:00:00 or 1-12:00:00")
    numbers = [int(part) for part in match["rest"].split(":")]
    if match["days"] is not None:
        hours, minutes, rest = [*numbers, 0, 0][:3]
        total = ((int(match["days"]) * 24 + hours) * 60 + minutes) * 60 + rest
    elif len(numbers) == 3:
        total = (numbers[0] * 60 + numbers[1]) * 60 + numbers[2]
    else:
        total = numbers[0] * 60 + (numbers[1] if numbers[1:] else 0)
    return total or None


def duration(total: int) -> str:
    """Write seconds as in a task file: 1d12h, 90m."""
    text = ""
    for unit, size in (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1)):
        count, total = divmod(total, size)
        text += f"{count}{unit}" if count else ""
    return text


def mebibytes(text: str) -> int:
    """Return a size in MiB, which is also its unit by default. Raises ValueError."""
    match = _MEMORY.fullmatch(text)
    if not match:
        raise ValueError("expected a size such as 64G or 4000M")
    factor = _UNITS[match[2].upper()]
    amount = float(match[1])
    return max(1, round(amount * factor)) if factor else max(1, round(amount / 1024))


def memory(size: int) -> int | str:
    """Write MiB as in a task file: a number of GiB, or text such as 500Mi."""
    return size // 1024 if size % 1024 == 0 else f"{size}Mi"


def count(text: str) -> int:
    """Return a positive number; of a range such as 2-4 the first one. Raises ValueError."""
    match = re.fullmatch(r"([1-9]\d{0,5})(?:[-:]\d+)?", text)
    if not match:
        raise ValueError("expected a number such as 4")
    return int(match[1])


class Gpus(Struct, frozen=True):
    """A number of GPUs of a type, if one is given."""

    type: str
    number: int


def gpus(text: str) -> Gpus | None:
    """Return GPUs such as 4 or a100:4; None for 0. Raises ValueError."""
    name, colon, number = text.partition("(")[0].rpartition(":")  # such as 2(S:0)
    if not colon and not number.isdigit():
        name = text
        number = "1"
    if not re.fullmatch(r"\d{1,4}", number):
        raise ValueError("expected GPUs such as 4 or a100:4")
    return Gpus(name, int(number)) if int(number) else None


def numbers(text: str) -> str:
    """Return the numbers of an array in the form of a task file: steps are listed.

    Raises ValueError.
    """
    ranges, percent, limit = text.partition("%")
    parts = []
    total = 0
    for part in ranges.strip("[]").split(","):
        match = re.fullmatch(r"\s*(\d{1,7})(?:-(\d{1,7})(?::(\d{1,7}))?)?\s*", part)
        if not match or (match[3] and not int(match[3])):
            raise ValueError("expected numbers such as 0-9, 1,3,5, 0-20:5 or 0-99%10")
        first, last, step = match.groups()
        if not step or step == "1":
            parts.append(first if last is None else f"{first}-{last}")
            continue
        listed = range(int(first), int(last) + 1, int(step))
        total += len(listed)
        if total > _MAX_NUMBERS:
            raise ValueError(f"more than {_MAX_NUMBERS:,} numbers")
        parts += map(str, listed)
    return ",".join(parts) + (f"%{limit.strip()}" if percent else "")


def names(text: str) -> list[str]:
    """Return the names of a list such as n[01-03],m7. Raises ValueError."""
    listed = []
    for part in re.findall(r"(?:\[[^\[\]]*\]|[^,\[])+", text):
        match = re.fullmatch(r"([^\[]*)\[([^\]]*)\](.*)", part)
        if not match or len(match[1]) + len(match[3]) > _MAX_NAME:
            listed.append(part.strip())
            continue
        for group in match[2].split(","):
            first, _, last = group.partition("-")
            ends = (first, last or first)
            if not all(end.isdecimal() and len(end) < 7 for end in ends):
                listed.append(part)
                break
            span = range(int(ends[0]), int(ends[1]) + 1)
            if len(listed) + len(span) > _MAX_NAMES:
                raise ValueError(f"more than {_MAX_NAMES:,} names")
            listed += [f"{match[1]}{number:0{len(first)}}{match[3]}" for number in span]
    return listed
