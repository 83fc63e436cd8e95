"""Folders and files of this user on Windows.

Windows protects the files of a user's profile by access lists, so neither owners nor modes are
checked here, and folders are opened by their paths. The interface is that of `private_posix`.
"""

import os
import time
from contextlib import suppress
from pathlib import Path

from kubectl_sky.unsafe import Unsafe


class Folder:
    """A folder below `home`, which is in the user's profile. Methods raise OSError."""

    def __init__(self, home: Path, *below: str) -> None:
        self.path = home.joinpath(*below)

    def create(self) -> Path:
        """Create the folder if it does not exist, and return its path."""
        self.path.mkdir(parents=True, exist_ok=True)
        return self.path

    def check(self) -> None:
        """Raise Unsafe if the folder is a link to another one; a missing folder is safe."""
        if self.path.is_symlink():
            raise Unsafe(self.path, "is a symbolic link")

    def read(self, name: str, limit: int = -1) -> bytes:
        """Return the first `limit` bytes of a file, or all of it."""
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
            return sorted(path.name for path in self.path.iterdir())
        return []

    def prune(self, count: int, size: int | None = None, seconds: float | None = None) -> None:
        """Remove all but the newest files.

        Keeps at most `count` files of `size` bytes in all, and none older than `seconds`.
        """
        files = [(path.stat(), path) for path in self.path.iterdir() if path.is_file()]
        total = 0
        for number, (status, path) in enumerate(sorted(files, key=lambda item: -item[0].st_mtime)):
            total += status.st_size
            old = seconds is not None and status.st_mtime < time.time() - seconds
            if number >= count or old or (size is not None and total > size):
                with suppress(OSError):  # another process has it open
                    path.unlink()


def read(path: Path, limit: int = -1) -> bytes:
    """Return the bytes of a file. Raises OSError."""
    with path.open("rb") as file:
        return file.read(limit)


def replace(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Replace a file atomically. Raises OSError; Windows has no `mode`."""
    temporary = path.with_name(f".{path.name}.{os.urandom(8).hex()}")
    try:
        with temporary.open("xb") as file:
            file.write(data)
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
