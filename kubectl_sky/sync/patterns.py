"""Patterns of ignore files, read as git reads them (its dir.c and wildmatch.c).

Everything is bytes, as in git: `?` is one byte, and names need not be UTF-8.
"""

import re
from collections.abc import Iterator

from kubectl_sky.values import dataclass

_CLASSES = {
    b"alnum": rb"0-9A-Za-z",
    b"alpha": rb"A-Za-z",
    b"blank": rb" \t",
    b"cntrl": rb"\x00-\x1f\x7f",
    b"digit": rb"0-9",
    b"graph": rb"!-~",
    b"lower": rb"a-z",
    b"print": rb" -~",
    b"punct": rb"!-/:-@\[-`{-~",
    b"space": rb" \t\n\r\f\v",
    b"upper": rb"A-Z",
    b"xdigit": rb"0-9A-Fa-f",
}
_SPECIAL = re.compile(rb"[*?\[\\]")
_RANGE = re.compile(rb"-(\\?[^\]])", re.DOTALL)


class _NeverMatches(Exception):
    """A pattern that git reads and that fits nothing."""


@dataclass(frozen=True)
class Pattern:
    """One line of an ignore file. A path that it fits is left out, or taken after all."""

    taken: bool  # a line that begins with !
    folders_only: bool
    by_name: bool  # fits the last part of a path, at any depth
    expression: re.Pattern[bytes]

    def fits(self, path: bytes, folder: bool) -> bool:
        """Whether it fits a path below the ignore file's own folder."""
        if self.folders_only and not folder:
            return False
        text = path.rpartition(b"/")[2] if self.by_name else path
        return self.expression.fullmatch(text) is not None


def read(text: bytes) -> tuple[Pattern, ...]:
    """Return the patterns of an ignore file, in order."""
    lines = text.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    found = [_pattern(line.removesuffix(b"\r")) for line in lines if not line.startswith(b"#")]
    return tuple(pattern for pattern in found if pattern)


def _pattern(line: bytes) -> Pattern | None:
    body = _trimmed(line.partition(b"\0")[0])
    taken = body.startswith(b"!")
    body = body[1:] if taken else body
    folders_only = body.endswith(b"/")
    body = body[:-1] if folders_only else body
    by_name = b"/" not in body
    if not body.removeprefix(b"/"):
        return None
    try:
        expression = b"".join(_expression(body.removeprefix(b"/"), by_name))
    except _NeverMatches:
        return None
    return Pattern(taken, folders_only, by_name, re.compile(expression, re.DOTALL))


def _trimmed(line: bytes) -> bytes:
    """Return the line without the spaces at its end that no backslash protects."""
    kept = re.match(rb"(?:\\.|[^ \\]|\\\Z| +(?! *\Z))*", line, re.DOTALL)
    return kept[0] if kept else line


def _expression(body: bytes, by_name: bool) -> Iterator[bytes]:
    """Translate a pattern, part by part. A path's `*` and `?` stop at slashes, its `**` do not."""
    special = _SPECIAL.search(body)
    literal = special.start() if special else len(body)  # git compares this much beforehand
    at = 0
    while at < len(body):
        char = body[at : at + 1]
        if char == b"*":
            end = at + len(body[at:]) - len(body[at:].lstrip(b"*"))
            part, at = _stars(body, at, end, literal, by_name)
        elif char == b"[":
            part, at = _set(body, at + 1)
        elif char == b"\\":
            if at + 1 == len(body):
                raise _NeverMatches
            part, at = re.escape(body[at + 1 : at + 2]), at + 2
        else:
            part, at = b"[^/]" if char == b"?" else re.escape(char), at + 1
        yield part


def _stars(body: bytes, at: int, end: int, literal: int, by_name: bool) -> tuple[bytes, int]:
    """Translate `*`, or several; two between slashes are any number of folders."""
    begins = at in (0, literal) or body[at - 1 : at] == b"/"
    ends = end == len(body) or body.startswith((b"/", b"\\/"), end)
    if end - at == 1 or by_name or not (begins and ends):
        return b"[^/]*", end
    if body.startswith(b"/", end):
        return b"(?:.*/)?", end + 1
    return b".*", end


def _set(body: bytes, at: int) -> tuple[bytes, int]:
    """Translate `[…]`, whose first character is never its end; one without an end fits nothing."""
    negated = body[at : at + 1] in (b"!", b"^")
    at += negated
    items, previous, first = [], b"", True
    while first or body[at : at + 1] != b"]":
        first = False
        item, previous, at = _item(body, at, previous)
        items.append(item)
    inside = b"".join(items)
    if negated:
        return b"[^/" + inside + b"]", at + 1
    return (b"(?!/)[" + inside + b"]" if inside else b"(?!)"), at + 1


def _item(body: bytes, at: int, previous: bytes) -> tuple[bytes, bytes, int]:
    """Translate one item of a set; return it, what a range may begin with, and what follows."""
    char = body[at : at + 1]
    reach = _RANGE.match(body, at) if previous else None
    if reach:
        last = reach[1][-1:]
        if reach[1] == b"\\":
            raise _NeverMatches
        item = re.escape(previous) + b"-" + re.escape(last) if previous <= last else b""
        return item, b"", reach.end()
    if body.startswith(b"[:", at):
        name, closed, _ = body[at + 2 :].partition(b"]")
        if closed and name.endswith(b":"):
            if name[:-1] not in _CLASSES:
                raise _NeverMatches
            return _CLASSES[name[:-1]], b"", at + 3 + len(name)
    if char == b"\\":
        at += 1
        char = body[at : at + 1]
    if not char:
        raise _NeverMatches
    return re.escape(char), char, at + 1
