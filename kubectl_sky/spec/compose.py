"""Compose events of the YAML parser into nodes, without recursion.

Depth and size are limited. Scalars are read by YAML 1.1, like PyYAML's SafeLoader and therefore
SkyPilot.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import yaml
from yaml.constructor import SafeConstructor

from kubectl_sky.spec.document import Data, Position, YamlNode, printable

MERGE = object()  # the key <<
MAX_NUMBER = 100  # characters
# The tag is not quoted: it may be a password that begins with !
_TAG_ERROR = "this tag is not allowed"

_PREFIX = "tag:yaml.org,2002:"
MAX_DEPTH = 100
MAX_NODES = 100_000  # with aliases expanded; a long task has a few hundred
MAX_DOCUMENTS = 500
_TEMPLATE = '"{{…}}" looks like a template: fill it in first'
Said = tuple[int, Position, str, str]  # document number, position, message, hint
_RESOLVERS: dict[str, list[tuple[str, Any]]] = yaml.SafeLoader.yaml_implicit_resolvers
_CONSTRUCTOR = SafeConstructor()
_READERS: dict[str, Callable[[yaml.ScalarNode], Any]] = {
    "int": _CONSTRUCTOR.construct_yaml_int,
    "float": _CONSTRUCTOR.construct_yaml_float,
    "bool": _CONSTRUCTOR.construct_yaml_bool,
    "timestamp": _CONSTRUCTOR.construct_yaml_timestamp,
}
_NAMES = {"int": "number", "float": "number", "bool": "boolean", "timestamp": "date"}


def scalar_value(text: str, tag: str | None, plain: bool) -> Data:
    """Return the value of a scalar; `plain` means without quotes and without a tag.

    Raises ValueError with a message for the user if it has no value.
    """
    if plain:
        resolvers = _RESOLVERS.get(text[:1], ())
        tag = next((tag for tag, pattern in resolvers if pattern.match(text)), "str")

    kind = (tag or "!").removeprefix(_PREFIX)
    if not plain and kind not in ("!", "str", "null", *_READERS):
        raise ValueError(f"{_TAG_ERROR}; write the value without it, or quote it if it is text")

    if kind == "null":
        return None
    if kind not in _READERS:
        return MERGE if kind == "merge" else text

    if len(text) > MAX_NUMBER:
        raise ValueError("number too long; quote it if it is text")
    try:  # SafeLoader's readers fail on some text that fits their pattern
        return _READERS[kind](yaml.ScalarNode(_PREFIX + kind, text))
    except (ValueError, KeyError, AttributeError, IndexError, OverflowError) as error:
        message = f"invalid {_NAMES[kind]}; quote it if it is text"
        raise ValueError(message) from error


class TooLarge(Exception):
    """Raised to stop reading a document; the composer has recorded the problem."""


class _Open:
    """A mapping or list that is being read; `key` is still without a value."""

    def __init__(self, node: YamlNode, anchor: str | None, mapping: bool) -> None:
        self.node = node
        self.anchor = anchor
        self.mapping = mapping
        self.key: YamlNode | None = None
        self.merges: list[tuple[YamlNode, Position]] = []


class Composer:
    """Build the nodes of a stream, and collect errors in `problems`."""

    def __init__(self, text: str = "") -> None:
        self.problems: list[Said] = []
        self._lines = text.splitlines()
        self.number = 1  # of the current document; empty documents do not count
        self.last_scalar: YamlNode | None = None
        self.anchored_keys: list[tuple[int, YamlNode]] = []  # each with its document's number

        self._complete = False  # whether the current document has its root
        self._stack: list[_Open] = []
        self._anchors: dict[str, YamlNode | None] = {}  # None: not complete yet

        self._handlers: dict[type, Callable[[Any], YamlNode | None]] = {
            yaml.ScalarEvent: self._scalar,
            yaml.AliasEvent: self._alias,
            yaml.MappingStartEvent: self._start,
            yaml.SequenceStartEvent: self._start,
            yaml.MappingEndEvent: self._end,
            yaml.SequenceEndEvent: self._end,
        }

    def documents(self, events: Iterable[yaml.Event]) -> Iterator[YamlNode]:
        """Yield the root of each document. Raises yaml.YAMLError for invalid YAML."""
        count = 0  # empty ones, too
        for event in events:
            handler = self._handlers.get(type(event))
            if handler is None:
                self._anchors.clear()  # anchors are valid within one document
                self.number += self._complete
                self._complete = False
                continue

            node = handler(event)
            if node is None:
                continue

            if self._stack:
                self._add(self._stack[-1], node)
            else:
                count += 1
                if count > MAX_DOCUMENTS:
                    self._say(node.position, f"the file has more than {MAX_DOCUMENTS} documents")
                    raise TooLarge
                self._complete = node.value is not None
                yield node

    @property
    def open_collections(self) -> list[Position]:
        """The positions of the maps and lists that are not complete, outermost first."""
        return [item.node.position for item in self._stack]

    def _say(self, position: Position, message: str, hint: str = "") -> None:
        self.problems.append((self.number, position, message, hint))

    def _scalar(self, event: yaml.ScalarEvent) -> YamlNode:
        position = position_of(event.start_mark)
        try:
            value = scalar_value(event.value, event.tag, plain=event.implicit[0])
        except ValueError as error:
            self._say(position, str(error))
            value = event.value

        node = YamlNode(value, position, event.value)
        node.style = event.style or ""
        node.end = position_of(event.end_mark)
        if not node.style and node.end[0] > position[0]:
            node.lines = tuple(self._lines[position[0] - 1 : node.end[0]])
        if node.style == "|":
            node.indent = self._indent(node)

        self.last_scalar = node
        if event.anchor:
            self._anchors[event.anchor] = node
            node.anchored = True
        return node

    def _indent(self, node: YamlNode) -> int:
        """Return the indentation of a text with the style |, from its first line with words."""
        for number, line in enumerate(node.text.split("\n"), node.position[0]):
            if line.strip() and number < len(self._lines):
                return max(len(self._lines[number]) - len(line), 0)
        return 0

    def _alias(self, event: yaml.AliasEvent) -> YamlNode:
        position = position_of(event.start_mark)
        name = event.anchor or ""
        node = self._anchors.get(name)
        if node is None:
            if name in self._anchors:
                self._say(position, "this alias refers to itself")
            else:
                # The message leaves out the name: it may be a password that begins with *.
                hint = "quote it if it is text"
                self._say(position, "this alias has no anchor before it", hint)
            return YamlNode(None, position)
        return node

    def _start(self, event: yaml.MappingStartEvent | yaml.SequenceStartEvent) -> None:
        position = position_of(event.start_mark)
        mapping = isinstance(event, yaml.MappingStartEvent)
        if event.tag not in (None, "!", _PREFIX + ("map" if mapping else "seq")):
            self._say(position, _TAG_ERROR, "write it without a tag")
        if len(self._stack) >= MAX_DEPTH:
            self._say(position, f"nested more than {MAX_DEPTH} levels deep")
            raise TooLarge
        if event.anchor:
            self._anchors[event.anchor] = None
        node = YamlNode({}, position) if mapping else YamlNode([], position)
        self._stack.append(_Open(node, event.anchor, mapping))

    def _end(self, event: yaml.Event) -> YamlNode:
        closed = self._stack.pop()
        # The first merged map wins; the map's own keys win over all.
        for source, position in reversed(closed.merges):
            self._merge(closed.node, source, position)
        if closed.anchor:
            self._anchors[closed.anchor] = closed.node
        return closed.node

    def _add(self, parent: _Open, node: YamlNode) -> None:
        """Add a complete node to its parent: as an item, a key or a key's value."""
        if node.value is MERGE and not (parent.mapping and parent.key is None):
            node = YamlNode(node.text, node.position, node.text)  # << is text unless it is a key

        target = parent.node
        target.size += node.size
        if node.depth >= target.depth:
            target.depth = node.depth + 1

        if target.size > MAX_NODES or target.depth > MAX_DEPTH:
            size = f"{MAX_NODES:,} values, {MAX_NODES // 10_000} MB of text"
            message = f"more than {size} or {MAX_DEPTH} levels"
            self._say(target.position, message, "each use of an alias counts")
            raise TooLarge

        if not parent.mapping:
            target.children[len(target.value)] = node
            target.value.append(node.value)
        elif parent.key is None:
            parent.key = node
        else:
            key = parent.key
            parent.key = None
            self._put(parent, key, node)

    def _put(self, parent: _Open, key: YamlNode, node: YamlNode) -> None:
        position = key.position
        target = parent.node
        if key.anchored:
            self.anchored_keys.append((self.number, key))

        if type(key.value) in (dict, list):
            is_map = isinstance(key.value, dict)
            message = f"a key must be text, got a {'map' if is_map else 'list'}"
            hint = _TEMPLATE if is_map else ""
            self._say(position, message, hint)
        elif key.value is MERGE:
            if parent.merges:
                self._say(position, 'duplicate key "<<"', "merge a list: <<: [*one, *other]")
            parent.merges += [(item, position) for item in self._merged(node)]
        elif key.value in target.keys:
            line, column = target.keys[key.value]
            name = "" if key.anchored else f' "{printable(key.text)}"'  # it may be a secret's value
            message = f"duplicate key{name}, first set in line {line}"
            hint = "remove one of them"
            written = self._lines[line - 1][column - 1 :] if self._lines else key.text
            if not isinstance(key.value, str) and not written.startswith(key.text):
                message = f"YAML reads{name} as the key in line {line}"
                hint = "put both in quotes"
            self._say(position, message, hint)
        else:
            target.keys[key.value] = position
            target.children[key.value] = node
            target.value[key.value] = node.value

    def _merged(self, node: YamlNode) -> list[YamlNode]:
        """Return the maps that `<<` merges, the last first."""
        items = list(node.children.values()) if isinstance(node.value, list) else [node]
        for item in items:
            if not isinstance(item.value, dict):
                self._say(item.position, '"<<" can only merge maps')
        return [item for item in reversed(items) if isinstance(item.value, dict)]

    def _merge(self, target: YamlNode, merged: YamlNode, position: Position) -> None:
        for key, node in merged.children.items():
            if key not in target.children:
                target.keys[key] = position
                target.children[key] = node
                target.value[key] = node.value


def position_of(mark: Any) -> Position:
    return (mark.line + 1, mark.column + 1) if mark else (0, 0)
