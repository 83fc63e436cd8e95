"""Files of the user's cache: nobody else reads them, each is whole, and the oldest make room."""

import hashlib
import os
import time
from contextlib import suppress
from pathlib import Path


class Kept:
    """Bytes by name in a folder of their own, of which only the newest so many stay.

    Where the folder cannot be used nothing is known, and nothing fails.
    """

    def __init__(self, folder: Path, many: int) -> None:
        self._folder = folder
        self._many = many

    def read(self, name: str) -> bytes | None:
        """Return what was written, unless something has happened to it."""
        with suppress(OSError):
            digest, data = _split((self._folder / name).read_bytes())
            if digest == _digest(data):
                return data
        return None

    def write(self, name: str, data: bytes) -> None:
        """Remember bytes."""
        with suppress(OSError):
            store(self._folder / name, _digest(data), data)
            prune(self._folder, self._many)


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def _split(kept: bytes) -> tuple[bytes, bytes]:
    size = hashlib.sha256().digest_size
    return kept[:size], kept[size:]


def store(path: Path, *parts: bytes) -> None:
    """Write a whole file or none; another process may do so meanwhile. Raises OSError."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = path.with_name(f"{path.name}.{os.getpid()}")
    new.unlink(missing_ok=True)
    try:
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.writelines(parts)
        os.replace(new, path)
    finally:
        new.unlink(missing_ok=True)


def prune(folder: Path, many: int, most: int | None = None, seconds: float | None = None) -> None:
    """Keep the newest files: so many, of so many bytes in all, and none older than that."""
    inside = []
    with os.scandir(folder) as found:
        for one in found:
            with suppress(FileNotFoundError):  # another process has made room
                if one.is_file(follow_symlinks=False):
                    inside.append((one.stat(), one.path))
    total = 0
    for number, (status, path) in enumerate(sorted(inside, key=_age)):
        total += status.st_size
        old = seconds is not None and status.st_mtime < time.time() - seconds
        if number >= many or old or (most is not None and total > most):
            with suppress(OSError):
                os.unlink(path)


def _age(item: tuple[os.stat_result, str]) -> int:
    return -item[0].st_mtime_ns
