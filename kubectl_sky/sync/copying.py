"""Pack files and folders into the tar stream that `cp` sends to a node."""

import os
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

from kubectl_sky.errors import UserError

Note = Callable[[str], None]

_BLOCK = 64 * 1024
_END = b"\0" * 2 * tarfile.BLOCKSIZE


def packed(source: Path, name: str, note: Note) -> Iterator[bytes]:
    """Yield a tar of a file or folder, stored under `name`. Raises UserError.

    Links stay links; sockets, pipes and devices are skipped with a note.
    """
    folder = source.parent
    with tarfile.TarFile(os.devnull, "w", format=tarfile.GNU_FORMAT) as tar:
        for path in _walked(source):
            archive_path = Path(name, *path.relative_to(source).parts)
            info = tar.gettarinfo(path, str(archive_path))
            if info is None or not (info.isreg() or info.isdir() or info.issym()):
                note(f"skipped, neither a file nor a folder: {path.relative_to(folder)}")
                continue
            info.uid = info.gid = 0
            info.uname = info.gname = ""
            yield info.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")
            if info.isreg():
                yield from _content(path, info.size)
    yield _END


def _walked(source: Path) -> Iterator[Path]:
    """Yield every path once, without following links; hard links are sent as copies."""
    yield source
    if source.is_dir() and not source.is_symlink():
        for child in sorted(source.iterdir()):
            yield from _walked(child)


def _content(path: Path, size: int) -> Iterator[bytes]:
    remaining = size
    with path.open("rb") as file:
        while remaining:
            block = file.read(min(remaining, _BLOCK))
            if not block:
                raise UserError(f"{path} became shorter while it was read", "copy it again")
            remaining -= len(block)
            yield block
    yield b"\0" * (-size % tarfile.BLOCKSIZE)
