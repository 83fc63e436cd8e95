"""Change one value of a YAML text and keep the rest of it, with its comments.

What is written is read again: unless exactly the value has changed, the edit is refused.
"""

import re
from collections.abc import Sequence
from typing import Any

import yaml
from yaml.nodes import CollectionNode, MappingNode, Node

from kubectl_sky.spec.document import Data

Path = Sequence[str]


class EditRefused(ValueError):
    """The text cannot be edited safely; the message has the line."""


def put(text: str, path: Path, value: Data) -> str:
    """Return the text with a value set. Raises Refused."""
    data = _data(text)
    edited = _put(text, path, value)
    return _check(edited, _with(data, path, value), text, path)


def remove(text: str, path: Path) -> str:
    """Return the text without a value, and without maps that are empty then. Raises Refused."""
    data = _data(text)
    while len(path) > 1 and len(_get(data, path[:-1]) or ()) == 1:
        path = path[:-1]
    edited = _remove(text, path)
    return _check(edited, _without(data, path), text, path)


def _data(text: str) -> dict[str, Any]:
    return yaml.safe_load(text) or {}


def _get(data: Data, path: Path) -> Data:
    for step in path:
        data = data.get(step) if isinstance(data, dict) else None
    return data


def _with(data: Data, path: Path, value: Data) -> Data:
    if not path:
        return value
    below = data if isinstance(data, dict) else {}
    return {**below, path[0]: _with(below.get(path[0]), path[1:], value)}


def _without(data: dict[str, Any], path: Path) -> dict[str, Any]:
    if len(path) == 1:
        return {key: value for key, value in data.items() if key != path[0]}
    return {**data, path[0]: _without(data[path[0]], path[1:])}


def _check(edited: str, expected: Data, text: str, path: Path) -> str:
    try:
        changed = yaml.safe_load(edited) or {}
    except yaml.YAMLError:
        changed = None
    if changed != expected:
        raise _refusal(_nodes(text, path)[-1])
    return edited


def _refusal(node: tuple[Node, Node] | None) -> EditRefused:
    line = node[0].start_mark.line + 1 if node else 1
    return EditRefused(f"line {line} cannot be edited without losing something")


def _nodes(text: str, path: Path) -> list[tuple[Node, Node] | None]:
    node = yaml.compose(text, Loader=yaml.SafeLoader)
    pairs: list[tuple[Node, Node] | None] = []
    for step in path:
        pairs_of_node = node.value if isinstance(node, MappingNode) else []
        pair = next((pair for pair in pairs_of_node if pair[0].value == step), None)
        if pair is None:
            break
        pairs.append(pair)
        node = pair[1]
    return pairs or [None]


def _put(text: str, path: Path, value: Data) -> str:
    pairs = [pair for pair in _nodes(text, path) if pair]
    if not pairs:
        separator = "" if not text or text.endswith("\n") else "\n"
        return f"{text}{separator}{path[0]}: {inline(_nest(path[1:], value))}\n"
    key, node = pairs[-1]
    rest = path[len(pairs) :]
    if not rest:
        return _replace(text, key, node, inline(value))
    if isinstance(node, MappingNode) and not node.flow_style and node.value:
        first = node.value[0][0].start_mark
        line = f"{' ' * first.column}{rest[0]}: {inline(_nest(rest[1:], value))}\n"
        start = first.index - first.column
        return f"{text[:start]}{line}{text[start:]}"
    return _replace(text, key, node, inline(_with(_plain(node), rest, value)))


def _remove(text: str, path: Path) -> str:
    pairs = [pair for pair in _nodes(text, path) if pair]
    key, node = pairs[-1]
    if len(pairs) > 1:
        key_above, above = pairs[-2]
        if isinstance(above, MappingNode) and above.flow_style:
            data = _without(_plain(above), path[-1:])
            return _replace(text, key_above, above, inline(data))
    _refuse_comments(text, node.start_mark.index, node)
    start = key.start_mark.index - key.start_mark.column
    end = text.find("\n", _end(node))
    return text[:start] + (text[end + 1 :] if end >= 0 else "")


def _replace(text: str, key: Node, node: Node, new: str) -> str:
    """Replace a value; one that begins below its key moves up to it."""
    start = node.start_mark.index
    if node.start_mark.line > key.end_mark.line:
        start = text.index(":", key.end_mark.index) + 1
    _refuse_comments(text, start, node)
    space = "" if text[start - 1] == " " else " "
    return f"{text[:start]}{space}{new}{text[_end(node) :]}"


def _refuse_comments(text: str, start: int, node: Node) -> None:
    """Raise Refused if a value of several lines has comments."""
    body = text[start : _end(node)]
    if "\n" in body and re.search(r"(^|\s)#", body):
        raise _refusal((node, node))


def _end(node: Node) -> int:
    """Return where a value ends, without the comments and empty lines after it."""
    if isinstance(node, CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return _end(last[1] if isinstance(last, tuple) else last)
    end: int = node.end_mark.index
    return end


def _plain(node: Node) -> Any:
    return yaml.safe_load(yaml.serialize(node, Dumper=yaml.SafeDumper)) or {}


def _nest(path: Path, value: Data) -> Data:
    for step in reversed(path):
        value = {step: value}
    return value


def inline(value: Data) -> str:
    text: str = yaml.safe_dump(
        value, default_flow_style=True, allow_unicode=True, width=float("inf"), sort_keys=False
    )
    return text.removesuffix("\n").removesuffix("\n...").strip()
