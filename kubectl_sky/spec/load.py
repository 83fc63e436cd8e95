"""Load YAML without running code, within size limits, with positions of values.

SkyPilot uses PyYAML's SafeLoader; scalars have the same meaning here. This loader also rejects,
with a position, input that SafeLoader accepts or fails on: duplicate keys, keys that are lists or
maps, alias bombs, recursive aliases and very deep nesting.
"""

import re
from collections.abc import Iterator
from dataclasses import replace

import yaml

from kubectl_sky.errors import InvalidFiles, Problem
from kubectl_sky.spec.compose import MAX_DEPTH, MAX_NODES, Composer, TooLarge
from kubectl_sky.spec.document import Document, Node, is_header
from kubectl_sky.spec.syntax import explained

__all__ = ["MAX_BYTES", "MAX_DEPTH", "MAX_NODES", "load"]

MAX_BYTES = 4 * 1024 * 1024

_SAYS = re.compile(r"\S")
_ANOTHER = re.compile(r"\n---(\s|$)")
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml's loader is 8 times as fast
_UNPRINTABLE = yaml.reader.Reader.NON_PRINTABLE
_ASCII = bytes([*b"\t\n\r", *range(0x20, 0x7F)])  # fast path: most files have only these bytes
_UTF_16_OR_32 = (b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")


def load(
    text: bytes, file: str, example: str = "run: …", optional: bool = False
) -> tuple[Document, ...]:
    """Load the documents of a file; `file` is its name in problems.

    `example` is a field of such a document, for messages. If `optional`, the file may be empty.
    Null documents among others are skipped, as in SkyPilot. Raises InvalidFiles with all problems.
    """
    decoded = _decoded(text, file)
    composer = Composer(decoded)
    syntax_problems: list[Problem] = []
    try:
        roots = list(composer.documents(_events(decoded)))
        multiple = composer.number > 2
    except (yaml.YAMLError, TooLarge) as error:
        roots = []
        multiple = composer.number > 1 or _several(decoded)
        if isinstance(error, yaml.YAMLError):
            syntax_problems.append(
                replace(
                    explained(error, decoded, file, composer), document=composer.number * multiple
                )
            )
    problems = [
        Problem(file, *position, "", message, hint, document=number * multiple)
        for number, position, message, hint in composer.problems
    ] + syntax_problems
    documents = _documents(file, [root for root in roots if root.value is not None])
    is_empty = all(root.value in (None, {}) for root in roots)
    if not problems and is_empty and not optional:
        hint = "a task needs at least run or setup"
        problems.append(Problem(file, 0, 0, "", "the file is empty", hint))
    nonempty_roots = [root for root in roots if root.value is not None]
    if nonempty_roots and not any(isinstance(root.value, dict) for root in nonempty_roots):
        problems = []  # they quote keys, but this is no task file
    problems += (
        replace(_no_mapping(file, root, example), document=number * multiple)
        for number, root in enumerate(nonempty_roots, 1)
        if not isinstance(root.value, dict)
    )
    if problems:
        raise InvalidFiles(sorted(problems))
    return documents


def _several(text: str) -> bool:
    """Report whether invalid text has another document after one that is not empty."""
    content = _SAYS.search(text)
    return bool(content and _ANOTHER.search(text, content.end()))


def _documents(file: str, roots: list[Node]) -> tuple[Document, ...]:
    """Return the documents, each with the header's fields and the names of all tasks."""
    first = roots[0].value if roots else None
    has_header = len(roots) > 1 and is_header(first)
    parallel = has_header and isinstance(first, dict) and first.get("execution") == "parallel"
    title = first.get("name") if has_header and isinstance(first, dict) else None
    name_nodes = [root.child("name") for root in roots[has_header:]]
    names = tuple(node.value if node else None for node in name_nodes)
    return tuple(
        Document(
            file,
            root.value,
            root,
            index=index,
            count=len(roots),
            tasks=len(roots) - has_header,
            names=names,
            parallel=parallel,
            title=title,
        )
        for index, root in enumerate(roots)
    )


def _events(text: str) -> Iterator[yaml.Event]:
    """Yield the events of yaml.parse, without the cost of its generator."""
    return iter(_LOADER(text).get_event, None)


def _no_mapping(file: str, root: Node, example: str) -> Problem:
    # The message leaves out the text: a link may lead to a file that others must not read.
    kind = "a list" if isinstance(root.value, list) else "a text"
    message = f'expected fields such as "{example}", got {kind}'
    return Problem(file, *root.position, "", message)


def _decoded(text: bytes, file: str) -> str:
    """Decode the text and check its characters. Raises InvalidFiles."""
    if len(text) > MAX_BYTES:
        limit = MAX_BYTES // 1024 // 1024
        raise _invalid(file, "", 0, f"the file is larger than {limit} MiB", "is it a task file?")
    if text.startswith(_UTF_16_OR_32):
        raise _invalid(file, "", 0, "the file is encoded as UTF-16 or UTF-32", "save it as UTF-8")
    try:
        decoded = text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # `start` counts from after a byte order mark
        valid = text.removeprefix(b"\xef\xbb\xbf")[: error.start].decode("utf-8")
        byte = error.object[error.start]
        message = f"the file is not UTF-8: byte 0x{byte:02x} at offset {error.start}"
        raise _invalid(file, valid, len(valid), message, "save it as UTF-8") from error
    match = text.translate(None, _ASCII) and _UNPRINTABLE.search(decoded)
    if match:
        name = f"U+{ord(match.group()):04X}"
        message = f"YAML does not allow the character {name}"
        hint = (
            "is it a text file?" if match.group() == "\0" else 'write it as an escape in "quotes"'
        )
        raise _invalid(file, decoded, match.start(), message, hint)
    return decoded


def _invalid(file: str, text: str, offset: int, message: str, hint: str) -> InvalidFiles:
    line = text.count("\n", 0, offset) + 1 if text else 0
    column = offset - (text.rfind("\n", 0, offset) + 1) + 1 if text else 0
    return InvalidFiles([Problem(file, line, column, "", message, hint)])
