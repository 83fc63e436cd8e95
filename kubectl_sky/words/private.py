"""Folders and files that only this user can change: caches, state and settings.

Everything that outlives a command is opened here. A folder or file that another user owns or can
write to is never read or written, because that user controls its contents.
"""

import errno
import grp
import os
import pwd
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC  # a FIFO must not block
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_ROOT = 0
_WRITABLE = "other users can write to it"


class Unsafe(PermissionError):
    """Another user controls a folder or file; `reason` describes how."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(errno.EPERM, reason, str(path))
        self.path = path
        self.reason = reason
        self.writable = reason == _WRITABLE


class Folder:
    """A folder below `home` that only this user can write to; so is `home`.

    The parents of `home` may belong to any user and may be symbolic links. From `home` on, links
    are not followed. Folders are created with mode 0700 and files with 0600, whatever the umask.
    Methods raise OSError, of which `Unsafe` is a subclass.
    """

    def __init__(self, home: Path, *below: str) -> None:
        self._home = home
        self._below = below
        self.path = home.joinpath(*below)

    def create(self) -> Path:
        """Create the folder if it does not exist, check it, and return its path."""
        with self._opened(create=True):
            return self.path

    def check(self) -> None:
        """Raise Unsafe if another user controls the folder; a missing folder is safe."""
        with suppress(FileNotFoundError), self._opened():
            pass

    def read(self, name: str, limit: int = -1) -> bytes:
        """Return the first `limit` bytes of a file, or all of it."""
        with self._opened() as folder:
            return _read(
                os.open(name, _READ | os.O_NOFOLLOW, dir_fd=folder), self.path / name, limit
            )

    def write(self, name: str, *parts: bytes) -> None:
        """Write a file atomically, even while another process writes the same file."""
        with self._opened(create=True) as folder:
            _replace(folder, name, parts)

    def touch(self, name: str) -> None:
        """Set the modification time of a file to now: `prune` removes the oldest first."""
        with self._opened() as folder:
            os.utime(name, dir_fd=folder, follow_symlinks=False)

    def names(self) -> list[str]:
        """Return the names of the files, sorted; none if the folder cannot be read."""
        with suppress(OSError), self._opened() as folder:
            return sorted(os.listdir(folder))  # noqa: PTH208 -- takes a descriptor
        return []

    def prune(self, count: int, size: int | None = None, seconds: float | None = None) -> None:
        """Remove all but the newest files.

        Keeps at most `count` files of `size` bytes in all, and none older than `seconds`.
        """
        with self._opened() as folder:
            total = 0
            for number, (status, name) in enumerate(_newest_first(folder)):
                total += status.st_size
                old = seconds is not None and status.st_mtime < time.time() - seconds
                if number >= count or old or (size is not None and total > size):
                    with suppress(OSError):
                        os.unlink(name, dir_fd=folder)

    @contextmanager
    def _opened(self, create: bool = False) -> Iterator[int]:
        """Yield a descriptor of the folder, so that its path is not resolved again."""
        if create:
            _make(self._home.parent)
        descriptor = os.open(self._home.parent, _FOLDER)
        path = self._home.parent
        try:
            for name in (self._home.name, *self._below):
                path = path / name
                parent, descriptor = descriptor, _enter(descriptor, name, path, create)
                os.close(parent)
            yield descriptor
        finally:
            os.close(descriptor)


def read(path: Path, limit: int = -1) -> bytes:
    """Return the bytes of a file that the user names; links are followed.

    Raises OSError. Raises Unsafe unless the file belongs to the user or root, and no other user can
    write to it.
    """
    return _read(os.open(path, _READ), path, limit)


def replace(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Replace a file atomically. Raises OSError.

    By default, only this user can read the file.
    The umask applies to any other `mode`, as for every new file.
    """
    folder = os.open(path.parent, _FOLDER)
    try:
        _replace(folder, path.name, (data,), mode)
    finally:
        os.close(folder)


def _replace(folder: int, name: str, parts: Iterable[bytes], mode: int = 0o600) -> None:
    """Write a temporary file and rename it; `mkstemp` does not support descriptors."""
    temporary = f".{name}.{os.urandom(8).hex()}"
    descriptor = os.open(temporary, _NEW, mode, dir_fd=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.writelines(parts)
        os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    finally:
        with suppress(OSError):  # renamed
            os.unlink(temporary, dir_fd=folder)


def _enter(folder: int, name: str, path: Path, create: bool) -> int:
    """Open a folder within another folder; the caller closes it."""
    if create:
        with suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=folder)
    try:
        descriptor = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=folder)
    except OSError as error:
        if stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            raise Unsafe(path, "is a symbolic link") from error
        raise
    try:
        _check(os.fstat(descriptor), path)
    except Unsafe:
        os.close(descriptor)
        raise
    return descriptor


def _make(path: Path) -> None:
    """Create a folder and its parents.

    `Path.mkdir` would create the parents with the mode that the umask gives.
    """
    if not path.is_dir():
        _make(path.parent)
        with suppress(FileExistsError):
            path.mkdir(mode=0o700)


def _read(descriptor: int, path: Path, limit: int) -> bytes:
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        _check(status, path)
        return file.read(limit)


def _check(status: os.stat_result, path: Path) -> None:
    """Raise Unsafe if another user has control; root can change everything anyway."""
    if status.st_uid not in (os.geteuid(), _ROOT):
        raise Unsafe(path, f"belongs to another user (uid {status.st_uid})")
    if status.st_mode & stat.S_IWOTH or _group_writes(status):
        raise Unsafe(path, _WRITABLE)


def _group_writes(status: os.stat_result) -> bool:
    """Report whether a group with other members than this user can write.

    Systems that give each user a group of the same name have a umask of 002.
    """
    if not status.st_mode & stat.S_IWGRP:
        return False
    try:
        group, user = grp.getgrgid(status.st_gid), pwd.getpwuid(os.geteuid())
    except KeyError:
        return True
    private_group = group.gr_name == user.pw_name and status.st_gid == user.pw_gid
    return not private_group or any(member != user.pw_name for member in group.gr_mem)


def _newest_first(folder: int) -> list[tuple[os.stat_result, str]]:
    files = []
    with os.scandir(folder) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):  # removed by another process
                if entry.is_file(follow_symlinks=False):
                    files.append((entry.stat(follow_symlinks=False), entry.name))
    return sorted(files, key=lambda file: -file[0].st_mtime_ns)
