"""Pack files and folders into a tar stream: what `cp` sends to a node."""

import os
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

from kubectl_sky.errors import UserError

Note = Callable[[str], None]

_BLOCK = 64 * 1024
_END = b"\0" * 2 * tarfile.BLOCKSIZE


def packed(source: Path, name: str, note: Note) -> Iterator[bytes]:
    """Yield a tar of a file or folder, which is called `name` in it. Raises UserError.

    Links stay links; sockets, pipes and devices are left out, with a note.
    """
    folder = source.parent
    with tarfile.TarFile(os.devnull, "w", format=tarfile.GNU_FORMAT) as tar:
        for path in _walked(source):
            inside = Path(name, *path.relative_to(source).parts)
            info = tar.gettarinfo(path, str(inside))
            if info is None or not (info.isreg() or info.isdir() or info.issym()):
                note(f"left out, as it is neither file nor folder: {path.relative_to(folder)}")
                continue
            info.uid = info.gid = 0
            info.uname = info.gname = ""
            yield info.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")
            if info.isreg():
                yield from _content(path, info.size)
    yield _END


def _walked(source: Path) -> Iterator[Path]:
    """Every path once; nothing is followed, and a file with two names is sent twice."""
    yield source
    if source.is_dir() and not source.is_symlink():
        for one in sorted(source.iterdir()):
            yield from _walked(one)


def _content(path: Path, size: int) -> Iterator[bytes]:
    left = size
    with path.open("rb") as file:
        while left:
            block = file.read(min(left, _BLOCK))
            if not block:
                raise UserError(f"{path} became shorter while it was read", "copy it again")
            left -= len(block)
            yield block
    yield b"\0" * (-size % tarfile.BLOCKSIZE)
