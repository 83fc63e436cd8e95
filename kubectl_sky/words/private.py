"""Folders and files of this user alone: caches, state and settings.

Everything that outlives a command is opened here. A folder or file that another user owns is never
read or written, because that user controls its contents.
"""

import errno
import os
import time
from contextlib import suppress
from pathlib import Path

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


class Unsafe(PermissionError):
    """Another user owns a folder or file; `reason` says so."""

    def __init__(self, path: Path, status: os.stat_result) -> None:
        self.path = path
        self.reason = f"belongs to another user (uid {status.st_uid})"
        super().__init__(errno.EPERM, self.reason, str(path))


class Folder:
    """A folder below `home`; no other user may own either.

    The parents of `home` may belong to any user. Folders are created with mode 0700 and files with
    0600, whatever the umask. Methods raise OSError, of which `Unsafe` is a subclass.
    """

    def __init__(self, home: Path, *below: str) -> None:
        self._folders = [home.joinpath(*below[:end]) for end in range(len(below) + 1)]
        self.path = self._folders[-1]

    def create(self) -> Path:
        """Create the folder if it does not exist, check it, and return its path."""
        for folder in (*reversed(self.path.parents), self.path):
            if not folder.is_dir():
                with suppress(FileExistsError):
                    folder.mkdir(mode=0o700)
            if folder in self._folders:
                _check(folder, folder.lstat())
        return self.path

    def check(self) -> None:
        """Raise Unsafe if another user owns the folder; a missing folder is safe."""
        for folder in self._folders:
            with suppress(FileNotFoundError):
                _check(folder, folder.lstat())

    def read(self, name: str, limit: int = -1) -> bytes:
        """Return the first `limit` bytes of a file, or all of it."""
        self.check()
        return read(self.path / name, limit)

    def write(self, name: str, *parts: bytes) -> None:
        """Write a file atomically, even while another process writes the same file."""
        replace(self.create() / name, b"".join(parts))

    def touch(self, name: str) -> None:
        """Set the modification time of a file to now: `prune` removes the oldest first."""
        os.utime(self.path / name)

    def names(self) -> list[str]:
        """Return the names of the files, sorted; none if the folder cannot be read."""
        with suppress(OSError):
            self.check()
            return sorted(path.name for path in self.path.iterdir())
        return []

    def prune(self, count: int, size: int | None = None, seconds: float | None = None) -> None:
        """Remove all but the newest files.

        Keeps at most `count` files of `size` bytes in all, and none older than `seconds`.
        """
        files = []
        for path in filter(Path.is_file, self.path.iterdir()):
            with suppress(FileNotFoundError):  # removed by another process
                files.append((path.lstat(), path))
        total = 0
        for number, (status, path) in enumerate(sorted(files, key=lambda it: -it[0].st_mtime_ns)):
            total += status.st_size
            old = seconds is not None and status.st_mtime < time.time() - seconds
            if number >= count or old or (size is not None and total > size):
                with suppress(OSError):
                    path.unlink()


def read(path: Path, limit: int = -1) -> bytes:
    """Return the bytes of a file. Raises OSError; Unsafe if another user owns the file."""
    with path.open("rb") as file:
        _check(path, os.fstat(file.fileno()))
        return file.read(limit)


def replace(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Replace a file atomically; the umask applies to its mode. Raises OSError."""
    temporary = path.with_name(f".{path.name}.{os.urandom(8).hex()}")
    try:
        with os.fdopen(os.open(temporary, _NEW, mode), "wb") as file:
            file.write(data)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _check(path: Path, status: os.stat_result) -> None:
    """Raise Unsafe if another user than root, who can change everything anyway, has control."""
    if status.st_uid not in (os.geteuid(), 0):
        raise Unsafe(path, status)
