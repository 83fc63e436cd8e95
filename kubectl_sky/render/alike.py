"""Parse rendered objects that differ in a few strings only, as a task's nodes do.

The first object is parsed as YAML; for the others, only the strings that differ are replaced.
Parsing a thousand Jobs takes half a second, and they are nearly identical.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from kubectl_sky.render import writer

# A double-quoted string at the end of a line, without escapes: its value is the quoted text.
_PLAIN = re.compile(r'"([A-Za-z0-9 ./:_=,@%+-]*)"\Z')
_STRING = "tag:yaml.org,2002:str"
_Path = tuple[str | int, ...]


@dataclass(frozen=True)
class _Place:
    """The start column of a string that ends its line, and its path in the value."""

    column: int
    path: _Path


class Reader:
    """Parse YAML, without the loader if only strings differ from the last loaded text."""

    def __init__(self) -> None:
        self._text = ""
        self._lines: list[str] = []
        self._value: Any = None
        self._places: dict[int, _Place] | None = None  # by line number; None until first needed

    def read(self, text: str) -> Any:  # noqa: ANN401 -- YAML
        """Return the value of a YAML text. Raises yaml.YAMLError."""
        lines = text.split("\n")
        changes = self._changes(lines)
        if changes is None:
            self._text, self._lines, self._places = text, lines, None
            self._value = yaml.load(text, Loader=yaml.CSafeLoader)
            return _copied(self._value)
        value = _copied(self._value)
        for (*path, last), string in changes:
            parent = value
            for step in path:
                parent = parent[step]
            parent[last] = string
        return value

    def _changes(self, lines: list[str]) -> list[tuple[_Path, str]] | None:
        """Return the changed strings with their paths; None if more differs, or may."""
        if not self._lines or len(lines) != len(self._lines):
            return None
        if self._places is None:
            self._places = _places(self._text, self._lines)
        changes = []
        for number, (line, previous) in enumerate(zip(lines, self._lines, strict=True)):
            if line == previous:
                continue
            position = self._places.get(number)
            string = _PLAIN.match(line, position.column) if position else None
            if not position or not string or line[: position.column] != previous[: position.column]:
                return None
            changes.append((position.path, string[1]))
        return changes


def _places(text: str, lines: list[str]) -> dict[int, _Place]:
    """Return the replaceable strings by line; none if the text has YAML aliases."""
    positions: dict[int, _Place] = {}
    visited: set[int] = set()
    root = yaml.compose(text, Loader=yaml.CSafeLoader)
    if root is None or writer.BREAKS.search(text):
        return {}  # empty, or YAML counts its lines differently
    for path, node in _nodes(root, ()):
        if id(node) in visited:
            return {}
        visited.add(id(node))
        if path and isinstance(node, yaml.ScalarNode) and node.tag == _STRING:
            line, column = node.start_mark.line, node.start_mark.column
            string = _PLAIN.match(lines[line], column)
            if string and string[1] == node.value:
                positions[line] = _Place(column, path)
    return positions


def _nodes(node: yaml.Node, path: _Path | None) -> Iterator[tuple[_Path | None, yaml.Node]]:
    """Yield all nodes with their paths; None for keys and for ambiguous paths."""
    yield path, node
    if isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            yield from _nodes(item, None if path is None else (*path, index))
    elif isinstance(node, yaml.MappingNode):
        names = {key.value for key, _ in node.value if key.tag == _STRING}
        has_path = path is not None and len(names) == len(node.value)
        for key, value in node.value:
            yield from _nodes(key, None)
            yield from _nodes(value, (*path, key.value) if has_path and path is not None else None)


def _copied(value: Any) -> Any:  # noqa: ANN401 -- YAML
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    return [_copied(item) for item in value] if isinstance(value, list) else value
