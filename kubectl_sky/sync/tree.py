"""What of a file or folder is taken, in an order that depends on nothing but its content."""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kubectl_sky.sync import ignore
from kubectl_sky.sync.ignore import Rules

_KINDS = {
    stat.S_IFSOCK: "a socket",
    stat.S_IFIFO: "a pipe",
    stat.S_IFBLK: "a device",
    stat.S_IFCHR: "a device",
}
MAX_DEPTH = 200  # folders within folders
_LEAVE_OUT = "leave it out by .skyignore"


@dataclass(frozen=True)
class Entry:
    """A file, folder or link: its name in the archive, where it is, and what the system says."""

    name: bytes
    path: bytes
    status: os.stat_result
    target: bytes = b""

    @property
    def size(self) -> int:
        """Bytes of a file; nothing for anything else."""
        return self.status.st_size if stat.S_ISREG(self.status.st_mode) else 0


@dataclass(frozen=True)
class Refusal:
    """Something that cannot be sent: its name as it may be printed, why not, and what to do."""

    name: str
    reason: str
    hint: str


class Source:
    """A file or folder of this machine. A file is called `name` in its archive."""

    def __init__(self, path: Path, name: str = "", with_parents: bool = False) -> None:
        self.path = path.resolve()
        self._name = os.fsencode(name or self.path.name)
        self._root = os.fsencode(self.path)
        self._with_parents = with_parents

    @property
    def identity(self) -> tuple[bytes, bytes, bool]:
        """What tells it from other sources."""
        return self._root, self._name, self._with_parents

    def entries(self) -> Iterator[Entry | Refusal]:
        """Yield all that is taken, folders before what is in them. Raises OSError for the whole."""
        if not self.path.is_dir():
            yield _entry(self._name, self._root, self._root)
            return
        rules, path = ignore.rules(self.path, self._with_parents)
        yield from self._folder(self._root, b"", path, rules)

    def _folder(
        self, files: bytes, name: bytes, path: bytes, rules: Rules
    ) -> Iterator[Entry | Refusal]:
        """Yield what is in a folder: its `name` in the archive, its `path` for the rules."""
        if name.count(b"/") >= MAX_DEPTH:
            yield Refusal(shown(name[-80:]), f"is more than {MAX_DEPTH} folders deep", _LEAVE_OUT)
            return
        try:
            with os.scandir(files) as found:
                inside = sorted(found, key=lambda item: item.name)
            has_file = any(item.name == rules.name and item.is_file() for item in inside)
            rules = rules.within(path, files, has_file)
        except OSError as error:
            yield _unreadable(name or b".", error)
            return
        for item in inside:
            own, seen = _join(name, item.name), _join(path, item.name)
            folder = item.is_dir(follow_symlinks=False)
            if rules.leave_out(seen, folder):
                continue
            yield _entry(own, item.path, self._root)
            if folder:
                yield from self._folder(item.path, own, seen, rules)


def shown(name: bytes) -> str:
    """Return a name as it may be printed: on one line, without control characters."""
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
    kind = _KINDS.get(stat.S_IFMT(status.st_mode))
    if kind:
        return Refusal(shown(name), f"is {kind}, which cannot be sent", _LEAVE_OUT)
    return Entry(name, path, status)


def _link(entry: Entry, root: bytes) -> Entry | Refusal:
    """Take a link as a link, as long as it means something on the nodes too."""
    folder = os.path.realpath(os.path.dirname(entry.path))
    end = os.path.normpath(os.path.join(folder, entry.target))
    inside = end == root or end.startswith(root.rstrip(b"/") + b"/")
    if inside and not entry.target.startswith(b"/"):
        return entry
    reason = f"is a link to {shown(entry.target)}, which is not sent with it"
    if inside:
        reason = f"is a link to {shown(entry.target)}, which the nodes have elsewhere"
        return Refusal(shown(entry.name), reason, "make it a relative link")
    return Refusal(shown(entry.name), reason, f"{_LEAVE_OUT}, or copy what it leads to")


def _unreadable(name: bytes, error: OSError) -> Refusal:
    reason = (error.strerror or str(error)).lower()
    return Refusal(shown(name), f"cannot be read: {reason}", _LEAVE_OUT)
