"""Ports as the user writes them: 8080, "8080-8090", "80,443", or a list of these."""

import re
from collections.abc import Iterator

from kubectl_sky.errors import Problem
from kubectl_sky.spec.document import Data, Document, printable

MAX_PORT = 65535

_RANGE = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?", re.ASCII)
_EXPECTED = 'expected a port such as 8080, or a range such as "8080-8090"'


def ranges(value: Data) -> list[tuple[int, int]]:
    """Return the first and last port of each range. Raises ValueError for the user."""
    if value is None:
        return []
    items = value if isinstance(value, list) else [value]
    texts = [text.strip() for item in items for text in str(item).split(",")]
    return [_range(text) for text in texts if text]


def _range(text: str) -> tuple[int, int]:
    found = _RANGE.fullmatch(text)
    if not found:
        raise ValueError(f"{_EXPECTED}, got '{printable(text)}'")
    first, last = int(found[1]), int(found[2] or found[1])
    if not 1 <= first <= MAX_PORT or not 1 <= last <= MAX_PORT:
        raise ValueError(f"a port is from 1 to {MAX_PORT}, got '{text}'")
    if last < first:
        raise ValueError(f"the range ends before it begins: '{text}'")
    return first, last


def _ports(document: Document) -> Iterator[Problem]:
    for path in document.candidates():
        value = document.get(*path, "ports")
        items = value if isinstance(value, list) else [value]
        for index, item in enumerate(items):
            if isinstance(item, bool) or not isinstance(item, str | int | float):
                continue  # the schema's to tell
            try:
                ranges(item)
            except ValueError as error:
                where = (*path, "ports", index) if isinstance(value, list) else (*path, "ports")
                yield document.problem(where, str(error))


RULES = (_ports,)
