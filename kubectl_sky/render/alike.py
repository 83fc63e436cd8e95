"""Objects that differ in a few strings only, as a task's nodes do: read once, the strings put in.

To read a thousand Jobs as YAML takes half a second, and they are all but the same.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from kubectl_sky.render import writer

# A string in double quotes to the end of its line, which says what stands between them.
_PLAIN = re.compile(r'"([A-Za-z0-9 ./:_=,@%+-]*)"\Z')
_STRING = "tag:yaml.org,2002:str"
_Path = tuple[str | int, ...]


@dataclass(frozen=True)
class _Place:
    """Where in the value the string is that ends a line, and at which column it begins."""

    column: int
    path: _Path


class Reader:
    """Reads YAML as its loader does, and what is like the text before it without the loader."""

    def __init__(self) -> None:
        self._text = ""
        self._lines: list[str] = []
        self._value: Any = None
        self._places: dict[int, _Place] | None = None  # by line; None until they are asked for

    def read(self, text: str) -> Any:  # noqa: ANN401 -- YAML
        """Return the value of a text. Raises yaml.YAMLError."""
        lines = text.split("\n")
        changes = self._changes(lines)
        if changes is None:
            self._text, self._lines, self._places = text, lines, None
            self._value = yaml.load(text, Loader=yaml.CSafeLoader)
            return _copied(self._value)
        value = _copied(self._value)
        for (*path, last), string in changes:
            holder = value
            for step in path:
                holder = holder[step]
            holder[last] = string
        return value

    def _changes(self, lines: list[str]) -> list[tuple[_Path, str]] | None:
        """Return what other strings are where; None where more differs, or may."""
        if not self._lines or len(lines) != len(self._lines):
            return None
        if self._places is None:
            self._places = _places(self._text, self._lines)
        found = []
        for number, (line, known) in enumerate(zip(lines, self._lines, strict=True)):
            if line == known:
                continue
            place = self._places.get(number)
            string = _PLAIN.match(line, place.column) if place else None
            if not place or not string or line[: place.column] != known[: place.column]:
                return None
            found.append((place.path, string[1]))
        return found


def _places(text: str, lines: list[str]) -> dict[int, _Place]:
    """Return the strings that may change alone; none where one stands for others, too."""
    found: dict[int, _Place] = {}
    seen: set[int] = set()
    root = yaml.compose(text, Loader=yaml.CSafeLoader)
    if root is None or writer.BREAKS.search(text):
        return {}  # nothing there, or lines are counted in another way
    for path, node in _nodes(root, ()):
        if id(node) in seen:
            return {}
        seen.add(id(node))
        if path and isinstance(node, yaml.ScalarNode) and node.tag == _STRING:
            line, column = node.start_mark.line, node.start_mark.column
            string = _PLAIN.match(lines[line], column)
            if string and string[1] == node.value:
                found[line] = _Place(column, path)
    return found


def _nodes(node: yaml.Node, path: _Path | None) -> Iterator[tuple[_Path | None, yaml.Node]]:
    """Yield all nodes, values with the ways to them where those are clear."""
    yield path, node
    if isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            yield from _nodes(item, None if path is None else (*path, index))
    elif isinstance(node, yaml.MappingNode):
        names = {key.value for key, _ in node.value if key.tag == _STRING}
        clear = path is not None and len(names) == len(node.value)
        for key, value in node.value:
            yield from _nodes(key, None)
            yield from _nodes(value, (*path, key.value) if clear and path is not None else None)


def _copied(value: Any) -> Any:  # noqa: ANN401 -- YAML
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    return [_copied(item) for item in value] if isinstance(value, list) else value
