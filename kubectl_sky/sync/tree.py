"""List the files to upload from a file or folder, in a reproducible order."""

import os
import stat
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

from msgspec import Struct

from kubectl_sky.sync import ignore
from kubectl_sky.sync.ignore import Rules
from kubectl_sky.words import bounded

KINDS = {
    stat.S_IFSOCK: "a socket",
    stat.S_IFIFO: "a pipe",
    stat.S_IFBLK: "a device",
    stat.S_IFCHR: "a device",
}
MAX_DEPTH = 200  # nested folders
_EXCLUDE = "exclude it with .skyignore"


class Entry(Struct, frozen=True):
    """A file, folder or link: its name in the archive, its local path and its status."""

    name: bytes
    path: bytes
    status: os.stat_result
    target: bytes = b""

    @property
    def size(self) -> int:
        """Size of a regular file in bytes; 0 for anything else."""
        return self.status.st_size if stat.S_ISREG(self.status.st_mode) else 0


class Refusal(Struct, frozen=True):
    """An entry that cannot be uploaded: its printable name, the reason and a hint."""

    name: str
    reason: str
    hint: str


class Source:
    """A local file or folder. A file is stored under `name` in its archive."""

    def __init__(self, path: Path, name: str = "", with_parents: bool = False) -> None:
        self.path = path.resolve()
        self._name = os.fsencode(name or self.path.name)
        self._root = os.fsencode(self.path)
        self._with_parents = with_parents

    @property
    def identity(self) -> tuple[bytes, bytes, bool]:
        return self._root, self._name, self._with_parents

    @property
    def note(self) -> str:
        """Why the tracked files are not known, if git's rules apply; may be empty."""
        return self._rules[0].index.note if self.path.is_dir() else ""

    @cached_property
    def _rules(self) -> tuple[Rules, bytes]:
        """The rules, and the path of the folder for them."""
        return ignore.rules(self.path, self._with_parents)

    def entries(self) -> Iterator[Entry | Refusal]:
        """Yield all entries, each folder before its content. Raises OSError."""
        if not self.path.is_dir():
            yield _entry(self._name, self._root, self._root)
            return
        rules, path = self._rules
        yield from self._folder(self._root, b"", path, rules)

    def _folder(
        self, files: bytes, name: bytes, path: bytes, rules: Rules
    ) -> Iterator[Entry | Refusal]:
        """Yield the entries of a folder: `name` in the archive, `path` for the rules."""
        if name.count(b"/") >= MAX_DEPTH:
            yield Refusal(show(name[-80:]), f"is more than {MAX_DEPTH} folders deep", _EXCLUDE)
            return

        try:
            with os.scandir(files) as scan:
                items = sorted(scan, key=lambda item: item.name)
            has_file = any(item.name == rules.name and item.is_file() for item in items)
            rules = rules.in_folder(path, files, has_file)
        except OSError as error:
            yield _unreadable(name or b".", error)
            return

        for item in items:
            entry_name = _join(name, item.name)
            rule_path = _join(path, item.name)
            folder = item.is_dir(follow_symlinks=False)

            if rules.ignores(rule_path, folder):
                continue
            yield _entry(entry_name, item.path, self._root)
            if folder:
                yield from self._folder(item.path, entry_name, rule_path, rules)


def show(name: bytes) -> str:
    """Return a printable name: on one line, without control characters."""
    text = name.decode(errors="backslashreplace")
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def _join(folder: bytes, name: bytes) -> bytes:
    return folder + b"/" + name if folder else name


def _entry(name: bytes, path: bytes, root: bytes) -> Entry | Refusal:
    try:
        status = os.lstat(path)
        if stat.S_ISLNK(status.st_mode):
            return _link(Entry(name, path, status, os.readlink(path)), root)
    except OSError as error:
        return _unreadable(name, error)
    kind = KINDS.get(stat.S_IFMT(status.st_mode))
    if kind:
        return Refusal(show(name), f"is {kind}, which cannot be uploaded", _EXCLUDE)
    return Entry(name, path, status)


def _link(entry: Entry, root: bytes) -> Entry | Refusal:
    """Accept relative links inside the source; refuse links that break on nodes."""
    folder = os.path.realpath(os.path.dirname(entry.path))
    destination = os.path.normpath(os.path.join(folder, entry.target))
    inside = destination == root or destination.startswith(root.rstrip(b"/") + b"/")
    if inside and not os.path.isabs(entry.target):
        return entry
    reason = f"is a link to {show(entry.target)}, which is not uploaded with it"
    if inside:
        reason = f"is a link to {show(entry.target)}, which the nodes have elsewhere"
        return Refusal(show(entry.name), reason, "make it a relative link")
    hint = f"copy its target, or {_EXCLUDE} and create it in setup"
    return Refusal(show(entry.name), reason, hint)


def _unreadable(name: bytes, error: OSError) -> Refusal:
    return Refusal(show(name), f"cannot be read: {bounded.reason(error)}", _EXCLUDE)
