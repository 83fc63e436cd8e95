"""Extract an untrusted tar stream to a temporary folder, then move it.

Every name is opened relative to the descriptor of its folder, without following links. The stream
can therefore not write outside the temporary folder.
"""

import json
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import takewhile
from pathlib import Path
from typing import BinaryIO

from kubectl_sky.errors import UserError
from kubectl_sky.sync.tarstream import Limits, Member, TarStream, broken

Note = Callable[[str], None]
Parts = tuple[bytes, ...]

_DIRECTORY = os.O_DIRECTORY | os.O_CLOEXEC
_OPEN_FOLDER = os.O_RDONLY | _DIRECTORY | os.O_NOFOLLOW
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_EXTRACTED = b"new"  # name of the extracted tree in the temporary folder
_MAX_DEPTH = 100  # nested folders
_MAX_PATH = 4096  # bytes of a path or a link target
_MAX_NAME = 255
_MAX_LINK_MEMORY = 16 << 20  # bytes of symbolic links, which are created at the end
_MAX_NOTES = 10
_MAX_SHOWN = 200  # characters shown of a name in a note
_MAX_TRAILING = 1 << 20  # bytes after the end of the tar: some programs pad the last block


class _Skipped(Exception):
    """Raised to skip a member, with the reason; caught in this module."""


class Notes:
    """Report skipped members: the first few, then the number of the remaining ones."""

    def __init__(self, note: Note) -> None:
        self._note = note
        self._count = 0

    def skipped(self, name: bytes, why: str) -> None:
        """Report that a member was skipped."""
        self._count += 1
        if self._count <= _MAX_NOTES:
            shown = json.dumps(name.decode(errors="replace")[:_MAX_SHOWN], ensure_ascii=False)
            self._note(f"skipped {shown}: {why}")

    def finish(self) -> None:
        """Report how many more members were skipped."""
        if self._count > _MAX_NOTES:
            self._note(f"skipped {self._count - _MAX_NOTES:,} more")


def extract(stream: BinaryIO, target: Path, note: Note, limits: Limits | None = None) -> None:
    """Extract the file or folder in a tar to `target`. Raises UserError.

    The tar holds `.` or a single file. An existing file is replaced atomically, and an existing
    folder is merged. If one is a folder and the other is not, the existing one stays.
    """
    notes = Notes(note)
    parent = target if target.is_dir() and not target.is_symlink() else target.parent
    try:
        folder = os.open(parent, os.O_RDONLY | _DIRECTORY)
        try:
            with _temporary(folder) as temporary:
                _Tree(temporary, notes).fill(stream, limits or Limits())
                _move(temporary, target, notes)
        finally:
            os.close(folder)
    except OSError as error:
        raise UserError(
            f"cannot write {target}: {(error.strerror or str(error)).lower()}"
        ) from None
    notes.finish()


@contextmanager
def _temporary(folder: int) -> Iterator[int]:
    """Create a temporary folder with mode 0700, and remove it with its content."""
    name = f".kubectl-sky-{secrets.token_hex(8)}"
    os.mkdir(name, 0o700, dir_fd=folder)
    try:
        with _opened(os.fsencode(name), folder) as temporary:
            yield temporary
    finally:
        shutil.rmtree(name, ignore_errors=True, dir_fd=folder)


@contextmanager
def _opened(name: bytes, folder: int | None = None) -> Iterator[int]:
    descriptor = os.open(name, _OPEN_FOLDER, dir_fd=folder)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


class _Tree:
    """Write members below the descriptor of a temporary folder."""

    def __init__(self, temporary: int, notes: Notes) -> None:
        self._temporary = temporary
        self._notes = notes
        self._open: list[tuple[bytes, int]] = []  # from the root down to the current folder
        self._links: list[tuple[Parts, bytes]] = []
        self._link_memory = 0

    def fill(self, stream: BinaryIO, limits: Limits) -> None:
        """Extract the whole stream."""
        tar = TarStream(stream, limits)
        try:
            root: Member | None = None
            for member in tar:
                root = root or member
                try:
                    self._add(tar, root, member)
                except _Skipped as reason:
                    self._notes.skipped(member.name, str(reason))
            if root is None:
                raise broken("it is empty")
            for parts, text in self._links:
                self._link(parts, text)
        finally:
            self._close_below(0)
        if len(stream.read(_MAX_TRAILING)) == _MAX_TRAILING:
            raise broken("data follows its end")

    def _add(self, tar: TarStream, root: Member, member: Member) -> None:
        parts = _parts(member.name)
        if member is root:
            single_file = len(parts) == 1 and member.is_file
            if not single_file and not (member.is_folder and not parts):
                raise broken(f"it begins with {_shown(member.name)}")
        elif root.is_file or not parts:
            raise _Skipped("it was not requested")
        path: Parts = (_EXTRACTED, *(parts if root.is_folder else ()))
        if member.is_folder:
            self._enter(path)
        elif member.is_file:
            self._file(tar, path, member)
        elif member.is_symlink:
            self._defer_link(path, member.link)
        elif member.is_hard_link:
            self._hard_link(path, (_EXTRACTED, *_parts(member.link)))
        else:
            raise _Skipped("it is neither a file nor a folder")

    def _enter(self, path: Parts, create: bool = True) -> int:
        """Return the descriptor of a folder, open until the next call."""
        current = [name for name, _ in self._open]
        common = len(
            list(takewhile(lambda pair: pair[0] == pair[1], zip(current, path, strict=False)))
        )
        self._close_below(common)
        for name in path[common:]:
            folder = self._open[-1][1] if self._open else self._temporary
            if create:
                with suppress(FileExistsError):
                    os.mkdir(name, dir_fd=folder)
            try:
                self._open.append((name, os.open(name, _OPEN_FOLDER, dir_fd=folder)))
            except (NotADirectoryError, FileNotFoundError):
                raise _Skipped("a part of its path is not a folder") from None
        return self._open[-1][1] if self._open else self._temporary

    def _close_below(self, depth: int) -> None:
        while len(self._open) > depth:
            os.close(self._open.pop()[1])

    def _file(self, tar: TarStream, path: Parts, member: Member) -> None:
        folder = self._enter(path[:-1])
        space = os.fstatvfs(folder)
        free = space.f_bavail * space.f_frsize
        if space.f_blocks and member.size > free:
            raise UserError(
                f"{_shown(member.name)} has {member.size:,} bytes, but only {free:,} bytes are free"
            )
        try:
            descriptor = os.open(path[-1], _CREATE, _mode(member.mode), dir_fd=folder)
        except FileExistsError:
            raise _Skipped("it occurs more than once") from None
        with open(descriptor, "wb", buffering=0) as file:
            for block in tar.content():
                _write(file.fileno(), block)
            with suppress(OverflowError, ValueError, OSError):
                os.utime(file.fileno(), (member.mtime, member.mtime))

    def _hard_link(self, path: Parts, original: Parts) -> None:
        """Create a hard link to a regular file of this tree."""
        with suppress(FileNotFoundError):
            source = os.dup(self._enter(original[:-1], create=False))
            try:
                status = os.stat(original[-1], dir_fd=source, follow_symlinks=False)
                if stat.S_ISREG(status.st_mode):
                    os.link(
                        original[-1],
                        path[-1],
                        src_dir_fd=source,
                        dst_dir_fd=self._enter(path[:-1]),
                        follow_symlinks=False,
                    )
                    return
            except FileExistsError:
                raise _Skipped("it occurs more than once") from None
            except PermissionError:
                raise _Skipped("hard links are not supported here") from None
            finally:
                os.close(source)
        raise _Skipped("it is a hard link to a file that was not copied")

    def _defer_link(self, path: Parts, text: bytes) -> None:
        """Save a symbolic link, to be created at the end, if it points inside the tree."""
        if not _inside(path[1:], text):
            raise _Skipped("it is a link that points outside of the copied files")
        self._link_memory += len(text) + sum(map(len, path)) + 200  # memory of the Python objects
        if self._link_memory > _MAX_LINK_MEMORY:
            raise UserError("the tar stream has too many symbolic links")
        self._links.append((path, text))

    def _link(self, path: Parts, text: bytes) -> None:
        try:
            os.symlink(text, path[-1], dir_fd=self._enter(path[:-1]))
        except FileExistsError:
            self._notes.skipped(path[-1], "it occurs more than once")
        except _Skipped as reason:
            self._notes.skipped(path[-1], str(reason))


def _parts(name: bytes) -> Parts:
    """Split a name into parts relative to the root."""
    parts = tuple(part for part in name.split(b"/") if part not in (b"", b"."))
    if name.startswith(b"/") or b".." in parts or b"\0" in name:
        raise _Skipped("its path points outside of the copied files")
    if (
        len(name) > _MAX_PATH
        or len(parts) > _MAX_DEPTH
        or any(len(part) > _MAX_NAME for part in parts)
    ):
        raise _Skipped("its path is too long")
    return parts


def _inside(path: Parts, text: bytes) -> bool:
    """Check by its text alone whether a link points inside the tree.

    `..` is allowed only at the start: after a name, which may be a link itself, it could escape.
    """
    parts = [part for part in text.split(b"/") if part not in (b"", b".")]
    levels_up = len(list(takewhile(lambda part: part == b"..", parts)))
    return (
        bool(text)
        and not text.startswith(b"/")
        and b"\0" not in text
        and len(text) < _MAX_PATH
        and levels_up < len(path)
        and b".." not in parts[levels_up:]
    )


def _mode(mode: int) -> int:
    """Keep read and execute bits of group and others; the umask may remove more."""
    return 0o600 | mode & (0o755 if mode & 0o100 else 0o644)


def _write(descriptor: int, block: bytes) -> None:
    remaining = memoryview(block)
    while remaining:
        remaining = remaining[os.write(descriptor, remaining) :]


def _move(temporary: int, target: Path, notes: Notes) -> None:
    """Move the extracted file or folder to its target."""
    with suppress(FileNotFoundError):
        target_mode = os.lstat(target).st_mode
        new_mode = os.stat(_EXTRACTED, dir_fd=temporary, follow_symlinks=False).st_mode
        if stat.S_ISDIR(target_mode) and stat.S_ISDIR(new_mode):
            with _opened(_EXTRACTED, temporary) as source, _opened(os.fsencode(target)) as existing:
                _merge(source, existing, notes)
            return
        if stat.S_ISDIR(target_mode) or stat.S_ISDIR(new_mode):
            what = "a folder" if stat.S_ISDIR(target_mode) else "not a folder"
            raise UserError(f"{target} exists and is {what}", "choose another target")
    os.replace(_EXTRACTED, target, src_dir_fd=temporary)


def _merge(source: int, target: int, notes: Notes) -> None:
    """Merge a folder into another one; replace links there, never follow them."""
    for name in os.listdir(source):
        target_mode = None
        with suppress(FileNotFoundError):
            target_mode = os.stat(name, dir_fd=target, follow_symlinks=False).st_mode
        source_mode = os.stat(name, dir_fd=source, follow_symlinks=False).st_mode
        if target_mode is None or not (stat.S_ISDIR(target_mode) or stat.S_ISDIR(source_mode)):
            os.replace(name, name, src_dir_fd=source, dst_dir_fd=target)
        elif stat.S_ISDIR(target_mode) and stat.S_ISDIR(source_mode):
            path = os.fsencode(name)
            with _opened(path, source) as source_folder, _opened(path, target) as target_folder:
                _merge(source_folder, target_folder, notes)
        else:
            what = "a folder" if stat.S_ISDIR(target_mode) else "not a folder"
            notes.skipped(os.fsencode(name), f"it exists here and is {what}")


def _shown(name: bytes) -> str:
    return repr(name.decode(errors="replace")[:_MAX_SHOWN])
