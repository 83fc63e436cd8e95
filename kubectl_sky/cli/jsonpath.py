"""kubectl's templates of JSONPath: `{.tasks[*].task_id}`, `{range .tasks[*]}{.name} {end}`."""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

import jsonpath

from kubectl_sky.errors import UserError
from kubectl_sky.values import dataclass

# A part in braces, in which text in quotes may hold braces; else text.
_PART = re.compile(r"""\{((?:[^{}"']|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')*)\}|([^{}]+)""")


@dataclass(frozen=True)
class _Part:
    """A part of a template: text, a path, or a range with the parts that it repeats."""

    text: str = ""
    path: str = ""
    body: "tuple[_Part, ...] | None" = None


def written(value: object, template: str) -> str:
    """Write what a template says of a value. Raises UserError for what is no template."""
    parts = _parts(template if "{" in template else f"{{{template}}}")
    return "".join(_write(value, value, parts))


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
            yield " ".join(_text(item) for item in _found(root, value, part.path))
        else:
            yield part.text


def _found(root: Any, value: Any, path: str) -> list[object]:  # noqa: ANN401 -- any JSON
    """Return what a path finds: from `$` in the whole, else in the item at hand."""
    start = root if path.startswith("$") else value
    if path in ("@", "$", "."):
        return [start]
    path = path.removeprefix("@").removeprefix("$")
    try:
        return jsonpath.findall(f"${path if path[:1] in ('.', '[') else f'.{path}'}", start)
    except jsonpath.JSONPathError as error:
        what = str(error).splitlines()[0]
        raise UserError(f"jsonpath: {path}: {what}", "such as {.nodes[0].pod}") from error


def _text(item: object) -> str:
    return item if isinstance(item, str) else json.dumps(item, ensure_ascii=False)
