"""kubectl's templates of JSONPath: `{.tasks[*].task_id}`, `{range .tasks[*]}{.name} {end}`."""

import itertools
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jsonpath

from kubectl_sky.errors import UserError

# A part in braces, in which text in quotes may hold braces; else text.
_PART = re.compile(r"""\{((?:[^{}"']|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')*)\}|([^{}]+)""")
_MAX_TEMPLATE = 4096  # characters
_MAX_ITEMS = 1_000_000  # parts that a template may write
_HINT = "such as {.nodes[0].pod}"


class _Environment(jsonpath.JSONPathEnvironment):
    """JSONPath without regular expressions, as kubectl's: Python's may take exponential time."""

    def setup_function_extensions(self) -> None:
        super().setup_function_extensions()
        for name in ("match", "search"):
            del self.function_extensions[name]

    def compare(self, left: object, operator: str, right: object) -> bool:
        if operator == "=~":
            raise jsonpath.JSONPathTypeError("regular expressions are not supported", token=None)
        return super().compare(left, operator, right)


_ENVIRONMENT = _Environment()


@dataclass(frozen=True)
class _Part:
    """A part of a template: text, a path, or a range with the parts that it repeats."""

    text: str = ""
    path: str = ""
    body: "tuple[_Part, ...] | None" = None


def written(value: object, template: str) -> str:
    """Write what a template says of a value. Raises UserError for what is no template."""
    if len(template) > _MAX_TEMPLATE:
        raise UserError(f"jsonpath: longer than {_MAX_TEMPLATE:,} characters", _HINT)
    try:
        parts = _parts(template if "{" in template else f"{{{template}}}")
        texts = list(itertools.islice(_write(value, value, parts), _MAX_ITEMS + 1))
    except RecursionError:
        raise UserError("jsonpath: too many nested parts", _HINT) from None
    if len(texts) > _MAX_ITEMS:
        raise UserError(f"jsonpath: writes more than {_MAX_ITEMS:,} values", _HINT)
    return "".join(texts)


def _parts(template: str) -> tuple[_Part, ...]:
    open_: list[tuple[str, list[_Part]]] = [("", [])]
    at = 0
    for match in _PART.finditer(template):
        if match.start() != at:
            break
        at = match.end()
        inside, text = match[1], match[2]
        if text is not None:
            open_[-1][1].append(_Part(text=text))
        elif inside.startswith("range "):
            open_.append((inside.removeprefix("range ").strip(), []))
        elif inside == "end" and len(open_) > 1:
            path, body = open_.pop()
            open_[-1][1].append(_Part(path=path, body=tuple(body)))
        else:
            open_[-1][1].append(_literal(inside) or _Part(path=inside.strip()))
    if at != len(template) or len(open_) > 1:
        raise UserError(
            f"jsonpath: {template[at:] or template}: a brace or {{range}} is not closed",
            "write it as for kubectl: -o jsonpath='{.status}'",
        )
    return tuple(open_[0][1])


def _literal(inside: str) -> _Part | None:
    """A text in quotes, in which a newline may be written as in JSON."""
    text = inside.strip()
    if len(text) < 2 or text[0] not in "\"'" or text[-1] != text[0]:
        return None
    try:
        return _Part(text=str(json.loads(f'"{text[1:-1]}"')))
    except ValueError:
        return _Part(text=text[1:-1])


def _write(root: object, value: object, parts: Sequence[_Part]) -> Iterator[str]:
    for part in parts:
        if part.body is not None:
            for item in _found(root, value, part.path):
                yield from _write(root, item, part.body)
        elif part.path:
            for index, item in enumerate(_found(root, value, part.path)):
                yield f" {_text(item)}" if index else _text(item)
        else:
            yield part.text


def _found(root: Any, value: Any, path: str) -> Iterator[object]:  # noqa: ANN401 -- any JSON
    """Return what a path finds: from `$` in the whole, else in the item at hand."""
    start = root if path.startswith("$") else value
    if path in ("@", "$", "."):
        yield start
        return
    path = path.removeprefix("@").removeprefix("$")
    try:
        path = path if path[:1] in (".", "[") else f".{path}"
        for match in _ENVIRONMENT.finditer(f"${path}", start):
            yield match.obj
    except jsonpath.JSONPathError as error:
        what = str(error).splitlines()[0]
        raise UserError(f"jsonpath: {path}: {what}", _HINT) from error


def _text(item: object) -> str:
    return item if isinstance(item, str) else json.dumps(item, ensure_ascii=False)
