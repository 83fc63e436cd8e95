"""Decide which files are ignored: by .skyignore if any, else by git's rules.

Patterns are parsed as git does (dir.c and wildmatch.c). Everything is bytes, as in git: `?` is one
byte, and names need not be UTF-8. All `*` but the last take the first place that fits, in groups
that are never tried again: no pattern of a stranger takes exponential time. The `pathspec` 1.1
package differs from git on 41 of 144 pattern lists.
"""

import itertools
import os
import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from kubectl_sky.errors import UserError
from kubectl_sky.sync import git
from kubectl_sky.words import bounded

SKYIGNORE = b".skyignore"
GITIGNORE = b".gitignore"
_MAX_BYTES = 1024 * 1024
MAX_RULES = 200  # of all ignore files of a folder; 7,500 take 50 ms for each path
MAX_LINE = 4096  # bytes; no path is longer
_MAX_GROUP = 64 * 1024  # bytes of one expression
_STAR = b"[^/]*"
_FOLDERS = b"(?:.*?/)?"
_ALL = b".*"
_WILDCARDS = (_FOLDERS, _ALL), (_STAR,)

# The characters of `[[:name:]]`, without the slash, which no bracket expression matches.
_CLASSES = {
    b"alnum": rb"0-9A-Za-z",
    b"alpha": rb"A-Za-z",
    b"blank": rb" \t",
    b"cntrl": rb"\x00-\x1f\x7f",
    b"digit": rb"0-9",
    b"graph": rb"!-.0-~",
    b"lower": rb"a-z",
    b"print": rb" -.0-~",
    b"punct": rb"!-.:-@\[-`{-~",
    b"space": rb" \t\n\r\f\v",
    b"upper": rb"A-Z",
    b"xdigit": rb"0-9A-Fa-f",
}
_DOT = re.compile(rb"^(!?)\./", re.MULTILINE)
_SLASH = ord("/")
_SPECIAL = re.compile(rb"[*?\[\\]")
_RANGE = re.compile(rb"-(\\?[^\]])", re.DOTALL)


class LineTooLong(Exception):
    """Raised for a line longer than any path; the argument is the line number."""


class _NeverMatches(Exception):
    """Raised for a pattern that git accepts but that matches nothing."""


class _Pattern(Struct, frozen=True):
    """A line of an ignore file, as an expression for whole paths, or `by_name` for last parts."""

    negated: bool  # the line starts with !
    folders_only: bool
    by_name: bool
    expression: bytes


class Rule:
    """Consecutive patterns with the same sign, so that their order does not matter."""

    def __init__(self, patterns: Sequence[_Pattern]) -> None:
        self._patterns = patterns  # compiled when first used: not if there are too many rules
        self.negated = patterns[0].negated

    @cached_property
    def _any(self) -> re.Pattern[bytes] | None:
        return _compile([pattern for pattern in self._patterns if not pattern.folders_only])

    @cached_property
    def _folder(self) -> re.Pattern[bytes] | None:
        return _compile([pattern for pattern in self._patterns if pattern.folders_only])

    def matches(self, path: bytes, folder: bool) -> bool:
        if self._any and self._any.fullmatch(path):
            return True
        return bool(folder and self._folder and self._folder.fullmatch(path))


def read(text: bytes) -> tuple[Rule, ...]:
    """Return the rules of an ignore file, in order. Raises LineTooLong."""
    lines = text.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    patterns = []
    for number, line in enumerate(lines, 1):
        if len(line) > MAX_LINE:
            raise LineTooLong(number)
        pattern = None if line.startswith(b"#") else _pattern(line.removesuffix(b"\r"))
        patterns += [pattern] if pattern else []
    # A rule has consecutive patterns with the same sign, up to the limit of an expression.
    sizes = itertools.accumulate(len(pattern.expression) for pattern in patterns)
    keyed = zip(patterns, sizes, strict=True)
    groups = itertools.groupby(keyed, lambda item: (item[0].negated, item[1] // _MAX_GROUP))
    return tuple(Rule([pattern for pattern, _ in group]) for _, group in groups)


def _compile(patterns: Sequence[_Pattern]) -> re.Pattern[bytes] | None:
    if not patterns:
        return None
    by_name = b"|".join(pattern.expression for pattern in patterns if pattern.by_name)
    expressions = [pattern.expression for pattern in patterns if not pattern.by_name]
    if by_name:
        expressions.append(b"(?>(?:.*/)?)(?:" + by_name + b")")
    return re.compile(b"|".join(expressions), re.DOTALL)


def _pattern(line: bytes) -> _Pattern | None:
    line = line.partition(b"\0")[0]
    body = line.rstrip(b" ")
    backslashes = len(body) - len(body.rstrip(b"\\"))
    body = line[: len(body) + backslashes % 2]  # a space after a backslash stays

    negated = body.startswith(b"!")
    body = body[1:] if negated else body
    folders_only = body.endswith(b"/")
    body = body[:-1] if folders_only else body
    by_name = b"/" not in body  # matches the last part of a path at any depth

    if not body.removeprefix(b"/"):
        return None

    try:
        expression = _join(list(_expression(body.removeprefix(b"/"), by_name)))
    except _NeverMatches:
        return None
    return _Pattern(negated, folders_only, by_name, expression)


def _join(parts: Sequence[bytes], wildcards: tuple[tuple[bytes, ...], ...] = _WILDCARDS) -> bytes:
    """Join the parts of a pattern so that matching does not backtrack from one wildcard to another.

    All wildcards but the last take the shortest text that fits, which leaves the most for the rest:
    first those that match slashes, and between them, where the slashes are fixed, the others.
    """
    if not wildcards:
        return b"".join(parts)
    places = [at for at, part in enumerate(parts) if part in wildcards[0]]
    before = parts[: places[0]] if places else parts
    expression = _join(before, wildcards[1:])
    for at, end in itertools.pairwise([*places, len(parts)]):
        rest = _join(parts[at + 1 : end], wildcards[1:])
        is_last = end == len(parts)
        expression += parts[at] + rest if is_last else b"(?>" + parts[at] + b"?" + rest + b")"
    return expression


def _expression(body: bytes, by_name: bool) -> Iterator[bytes]:
    """Translate a pattern part by part; `*` and `?` do not match slashes, `**` does."""
    special = _SPECIAL.search(body)
    literal = special.start() if special else len(body)  # git compares this prefix literally
    position = 0

    while position < len(body):
        char = body[position : position + 1]
        if char == b"*":
            end = position + len(body[position:]) - len(body[position:].lstrip(b"*"))
            part, position = _stars(body, position, end, literal, by_name)
        elif char == b"[":
            part, position = _set(body, position + 1)
        elif char == b"\\":
            if position + 1 == len(body):
                raise _NeverMatches
            part = re.escape(body[position + 1 : position + 2])
            position = position + 2
        else:
            part = b"[^/]" if char == b"?" else re.escape(char)
            position = position + 1
        yield part


def _stars(body: bytes, at: int, end: int, literal: int, by_name: bool) -> tuple[bytes, int]:
    """Translate one or more `*`; two between slashes match any number of folders."""
    begins = at in (0, literal) or body[at - 1 : at] == b"/"
    ends = end == len(body) or body.startswith((b"/", b"\\/"), end)
    if end - at == 1 or by_name or not (begins and ends):
        return _STAR, end
    if body.startswith(b"/", end):
        return _FOLDERS, end + 1
    return _ALL, end


def _set(body: bytes, at: int) -> tuple[bytes, int]:
    """Translate `[…]`; a leading `]` is literal, an unclosed `[` never matches."""
    negated = body[at : at + 1] in (b"!", b"^")
    at += negated
    items = []
    previous = b""
    first = True

    while first or body[at : at + 1] != b"]":
        first = False
        item, previous, at = _item(body, at, previous)
        items.append(item)

    content = b"".join(items)
    if negated:
        return b"[^/" + content + b"]", at + 1
    if not content:
        raise _NeverMatches
    return b"[" + content + b"]", at + 1


def _item(body: bytes, at: int, previous: bytes) -> tuple[bytes, bytes, int]:
    """Translate a bracket item; return it, a possible range start, the next index."""
    char = body[at : at + 1]
    range_match = _RANGE.match(body, at) if previous else None

    if range_match:
        last = range_match[1][-1:]
        if range_match[1] == b"\\":
            raise _NeverMatches
        return _span(previous[0], last[0]), b"", range_match.end()

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
    return _span(char[0], char[0]), char, at + 1


def _span(first: int, last: int) -> bytes:
    """Return a character range without the slash; empty if `last` is before `first`."""
    parts = (first, min(last, _SLASH - 1)), (max(first, _SLASH + 1), last)
    return b"".join(b"\\x%02x-\\x%02x" % part for part in parts if part[0] <= part[1])


_GIT_FOLDER = read(b".git")  # changes with every git status; include it with !.git


class Rules(Struct, frozen=True):
    """The ignore files that apply to one folder, its own first.

    `base` is the folder's path relative to the root, `name` the name of the ignore files. Tracked
    paths are not ignored. `ignored` means that the folder itself is.
    """

    name: bytes
    patterns: tuple[Rule, ...] = _GIT_FOLDER
    base: bytes = b""
    parent: "Rules | None" = None
    index: git.Index = git.Index()
    ignored: bool = False

    def ignores(self, path: bytes, folder: bool) -> bool:
        """Check whether a path is ignored; an ignored folder is ignored with its content."""
        return path not in self.index.paths and self._matches(path, folder)

    def _matches(self, path: bytes, folder: bool) -> bool:
        if self.ignored:
            return True
        rules: Rules | None = self
        while rules:
            relative = path[len(rules.base) :]
            for rule in reversed(rules.patterns):
                if rule.matches(relative, folder):
                    return not rule.negated
            rules = rules.parent
        return False

    def in_folder(self, path: bytes, files: os.PathLike[bytes] | bytes, has_file: bool) -> "Rules":
        """Return the rules of a subfolder; `files` is its local path."""
        if path in self.index.paths and not self.ignored and self._matches(path, folder=True):
            return replace(self, ignored=True)  # git tracks some of its files all the same
        if not has_file or self.ignored:
            return self
        prefix = path + b"/" if path else b""
        return self.with_file(os.path.join(files, self.name), prefix)

    def with_file(self, path: bytes, base: bytes) -> "Rules":
        """Add the rules of an ignore file. Raises UserError for one that is too large."""
        added = Rules(self.name, _read(path), base, self, self.index)
        rules: Rules | None = added
        count = 0
        while rules:
            count += len(rules.patterns)
            rules = rules.parent
        if count > MAX_RULES:
            raise UserError(
                f"{os.fsdecode(path)}: lines with and without ! alternate more than"
                f" {MAX_RULES} times, with the files of parent folders",
                "put lines with ! next to each other",
            )
        return added


def rules(folder: Path, with_parents: bool) -> tuple[Rules, bytes]:
    """Return the rules that apply to a folder, and its path relative to their root.

    `with_parents` includes the ignore files of parent folders up to the repository's root, unless
    they ignore the folder itself, which the user has explicitly given.
    """
    if (folder / os.fsdecode(SKYIGNORE)).is_file():
        return Rules(SKYIGNORE), b""
    root = _repository(folder) if with_parents else folder
    parent_rules = _of_git(root)
    path = b""
    for part in folder.relative_to(root).parts:
        files = os.fsencode(root / os.fsdecode(path))
        parent_rules = parent_rules.in_folder(
            path, files, os.path.isfile(os.path.join(files, GITIGNORE))
        )
        path = path + b"/" * bool(path) + os.fsencode(part)
        if parent_rules.ignores(path, folder=True):
            return _of_git(folder), b""
    return parent_rules, path


def _repository(folder: Path) -> Path:
    parents = (folder, *folder.parents)
    return next((parent for parent in parents if (parent / ".git").exists()), folder)


def _of_git(root: Path) -> Rules:
    """Return what git knows besides the ignore files of folders."""
    repository = _repository(root)
    if not (repository / ".git").exists():
        return Rules(GITIGNORE)
    rules = Rules(GITIGNORE, index=git.read_index(repository, root))
    if root != repository:
        return rules
    for file in (git.user_ignore_file(), root / ".git" / "info" / "exclude"):
        if file.is_file():
            rules = rules.with_file(os.fsencode(file), b"")
    return rules


def _read(path: bytes) -> tuple[Rule, ...]:
    """Return the rules of an ignore file. Raises UserError for one that is too large."""
    name = os.fsdecode(path)
    try:
        text = bounded.read(path, _MAX_BYTES)
        # ./x is /x in SkyPilot's ignore files, and nothing in git's.
        return read(_DOT.sub(rb"\1/", text) if path.endswith(SKYIGNORE) else text)
    except LineTooLong as error:
        message = f"{name}:{error}:1: the pattern is longer than {MAX_LINE:,} bytes"
        raise UserError(message) from None
    except OSError as error:
        raise UserError(f"{name}: {bounded.reason(error)}") from error
