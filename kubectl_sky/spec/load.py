"""Read YAML without executing, exhausting or forgetting anything: values with their places.

SkyPilot reads with PyYAML's SafeLoader; scalars mean the same here. Beyond it, this refuses, and
says where, what SafeLoader lets pass or fails on: duplicate keys, keys that are lists or maps,
alias bombs, recursive aliases, very deep nesting.
"""

import re
from collections.abc import Iterator
from dataclasses import replace

import yaml

from kubectl_sky.errors import InvalidFiles, Problem
from kubectl_sky.spec.compose import MAX_DEPTH, MAX_NODES, Composer, TooLarge
from kubectl_sky.spec.document import Document, Node, is_header, printable

__all__ = ["MAX_BYTES", "MAX_DEPTH", "MAX_NODES", "load"]

MAX_BYTES = 4 * 1024 * 1024

_SAYS = re.compile(r"\S")
_ANOTHER = re.compile(r"\n---(\s|$)")
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml's is 8 times as fast
_UNPRINTABLE = yaml.reader.Reader.NON_PRINTABLE
_USUAL = bytes([*b"\t\n\r", *range(0x20, 0x7F)])  # what most files consist of is seen faster
_UTF_16_OR_32 = (b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")


def load(
    text: bytes, file: str, example: str = "run: …", optional: bool = False
) -> tuple[Document, ...]:
    """Read the documents of a file's bytes; `file` is the name that problems give.

    `example` is a field as a document may have it; none has to be there where that is `optional`.
    Null documents beside others are skipped, as SkyPilot does. Raises InvalidFiles with every
    problem.
    """
    composer = Composer()
    decoded = _decoded(text, file)
    broken: list[Problem] = []
    try:
        roots = list(composer.documents(_events(decoded)))
        several = composer.number > 2
    except (yaml.YAMLError, TooLarge) as error:
        roots = []
        several = composer.number > 1 or _several(decoded)
        if isinstance(error, yaml.YAMLError):
            broken.append(
                replace(_syntax(error, decoded, file), document=composer.number * several)
            )
    problems = [
        Problem(file, *place, "", message, hint, document=number * several)
        for number, place, message, hint in composer.problems
    ] + broken
    documents = _documents(file, [root for root in roots if root.value is not None])
    nothing = all(root.value in (None, {}) for root in roots)
    if not problems and nothing and not optional:
        hint = "a task needs at least run: |"
        problems.append(Problem(file, 0, 0, "", "is empty: it has no task", hint))
    known = [root for root in roots if root.value is not None]
    problems += (
        replace(_no_mapping(file, root, example), document=number * several)
        for number, root in enumerate(known, 1)
        if not isinstance(root.value, dict)
    )
    if problems:
        raise InvalidFiles(sorted(problems))
    return documents


def _several(text: str) -> bool:
    """Say of text that cannot be read whether a document follows one that says something."""
    first = _SAYS.search(text)
    return bool(first and _ANOTHER.search(text, first.end()))


def _documents(file: str, roots: list[Node]) -> tuple[Document, ...]:
    """Return the documents, each with what it has to know of the others."""
    first = roots[0].value if roots else None
    headed = len(roots) > 1 and is_header(first)
    parallel = headed and isinstance(first, dict) and first.get("execution") == "parallel"
    title = first.get("name") if headed and isinstance(first, dict) else None
    named = [root.child("name") for root in roots[headed:]]
    names = tuple(name.value if name else None for name in named)
    return tuple(
        Document(
            file,
            root.value,
            root,
            index=index,
            count=len(roots),
            tasks=len(roots) - headed,
            names=names,
            parallel=parallel,
            title=title,
        )
        for index, root in enumerate(roots)
    )


def _events(text: str) -> Iterator[yaml.Event]:
    """Yield what yaml.parse does, without a generator's step for each."""
    return iter(_LOADER(text).get_event, None)


def _no_mapping(file: str, root: Node, example: str) -> Problem:
    kind = "a list" if isinstance(root.value, list) else f"the text {printable(root.text)!r}"
    message = f"expected fields such as `{example}`, got {kind}"
    return Problem(file, *root.place, "", message)


def _decoded(text: bytes, file: str) -> str:
    """Decode and check the characters; raise InvalidFiles."""
    if len(text) > MAX_BYTES:
        limit = MAX_BYTES // 1024 // 1024
        raise _invalid(file, "", 0, f"is larger than {limit} MiB", "is it a task file?")
    if text.startswith(_UTF_16_OR_32):
        raise _invalid(file, "", 0, "is encoded as UTF-16 or UTF-32", "save it as UTF-8")
    try:
        decoded = text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # `start` counts from after a byte order mark
        good = text.removeprefix(b"\xef\xbb\xbf")[: error.start].decode("utf-8")
        byte = error.object[error.start]
        message = f"is not UTF-8: byte 0x{byte:02x} at offset {error.start}"
        raise _invalid(file, good, len(good), message, "save it as UTF-8") from error
    bad = text.translate(None, _USUAL) and _UNPRINTABLE.search(decoded)
    if bad:
        name = f"U+{ord(bad.group()):04X}"
        message = f"holds the character {name}, which YAML does not allow"
        hint = "is it a text file?" if bad.group() == "\0" else 'write it as an escape in "quotes"'
        raise _invalid(file, decoded, bad.start(), message, hint)
    return decoded


def _invalid(file: str, text: str, offset: int, message: str, hint: str) -> InvalidFiles:
    line = text.count("\n", 0, offset) + 1 if text else 0
    column = offset - (text.rfind("\n", 0, offset) + 1) + 1 if text else 0
    return InvalidFiles([Problem(file, line, column, "", message, hint)])


# The parser's words, where they would not help, as the user's.
_SAID = (
    (r"found character '\\t'|found a tab|found character that cannot start any token",
     "a character that YAML does not allow here"),
    (r"could not find expected ':'", "expected `key: value`"),
    (r"mapping values are not allowed", "a `:` where no field can start"),
    (r"did not find expected '-' indicator", "expected another `- item` at this level"),
    (r"did not find expected key", "expected a field at this level"),
    (r"did not find expected ',' or '\]'", "expected `,` or `]`"),
    (r"did not find expected ',' or '\}'", "expected `,` or `}`"),
    (r"did not find expected node content", "expected a value"),
    (r"found unexpected end of stream", "a quote is not closed"),
    (r"found undefined tag handle", "an unknown tag"),
    (r"found unexpected document indicator", "a quote is not closed before `---`"),
)  # fmt: skip
_HINTS = {
    "a `:` where no field can start": "check the indentation, or quote a value that holds `: `",
    "expected `key: value`": "check the indentation",
    "expected a field at this level": "check the indentation and the quotes",
}


def _syntax(error: yaml.YAMLError, text: str, file: str) -> Problem:
    """Say in plain words what the parser stumbled over."""
    if not isinstance(error, yaml.MarkedYAMLError):
        return Problem(file, 0, 0, "", f"is not YAML: {printable(str(error), 100)}")
    mark = error.problem_mark or error.context_mark
    said = error.problem or error.context or "cannot be read"
    message = next(
        (ours for pattern, ours in _SAID if re.search(pattern, said)), printable(said, 100)
    )
    hint = _HINTS.get(message, "")
    line, column = (mark.line + 1, mark.column + 1) if mark else (0, 0)
    lines = text.splitlines()
    here = lines[line - 1] if 0 < line <= len(lines) else ""
    if "\t" in here[: len(here) - len(here.lstrip())]:
        column, message = here.index("\t") + 1, "a tab indents this line"
        hint = "YAML indents with spaces"
    elif here[column - 1 : column] in ("@", "`", "%"):
        message, hint = f"a value cannot start with {here[column - 1]!r}", "put it in quotes"
    elif "{{" in here:
        hint = "`{{…}}` looks like a template: fill it in first"
    return Problem(file, line, column, "", f"is not YAML: {message}", hint)
