"""Parse ports as users write them: 8080, "8080-8090", "80,443", or a list."""

import re
from collections.abc import Iterator

from kubectl_sky.errors import Problem
from kubectl_sky.spec.document import Data, Document, printable

MAX_PORT = 65535
MAX_PORTS = 100  # per task: each is an entry of its Service and a rule on every cluster node

_RANGE = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?", re.ASCII)
_EXPECTED = 'expected a port such as 8080, or a range such as "8080-8090"'


def ranges(value: Data) -> list[tuple[int, int]]:
    """Return the first and last port of each range.

    Raises ValueError with a message for the user.
    """
    if value is None:
        return []
    items = value if isinstance(value, list) else [value]
    texts = [text.strip() for item in items for text in str(item).split(",")]
    return [_range(text) for text in texts if text]


def numbers(value: Data) -> tuple[int, ...]:
    """Return the ports, sorted and without duplicates.

    Raises ValueError with a message for the user.
    """
    ports: list[int] = []
    for first, last in sorted(ranges(value)):
        ports += range(max(first, ports[-1] + 1 if ports else 0), last + 1)
    return tuple(ports)


def _range(text: str) -> tuple[int, int]:
    match = _RANGE.fullmatch(text)
    if not match:
        raise ValueError(f"{_EXPECTED}, got '{printable(text)}'")
    first, last = int(match[1]), int(match[2] or match[1])
    if not 1 <= first <= MAX_PORT or not 1 <= last <= MAX_PORT:
        raise ValueError(f"a port is from 1 to {MAX_PORT}, got '{text}'")
    if last < first:
        raise ValueError(f"the range ends before it begins: '{text}'")
    return first, last


def _ports(document: Document) -> Iterator[Problem]:
    for path, values in document.resources.maps:
        value = values.get("ports")
        items = value if isinstance(value, list) else [value]
        for index, item in enumerate(items):
            if isinstance(item, bool) or not isinstance(item, str | int | float):
                continue  # the schema reports it
            try:
                ranges(item)
            except ValueError as error:
                field_path = (
                    (*path, "ports", index) if isinstance(value, list) else (*path, "ports")
                )
                yield document.problem(field_path, str(error))


def _many(document: Document) -> Iterator[Problem]:
    for path, values in document.resources.maps:
        try:
            count = len(numbers(values.get("ports")))
        except ValueError:
            continue  # already reported
        if count > MAX_PORTS:
            message = f"{count:,} ports; a task's Service has at most {MAX_PORTS}"
            hint = "name those that others connect to"
            yield document.problem((*path, "ports"), message, hint)


RULES = ((frozenset({"ports"}), (_ports, _many)),)
