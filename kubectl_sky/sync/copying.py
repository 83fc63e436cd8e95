"""Files and folders as tar streams, to and from a node: what `cp` sends and what it keeps."""

import os
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

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


def unpack(stream: BinaryIO, folder: Path, names: tuple[str, str], note: Note) -> int:
    """Write what a tar holds to a folder; return how many files and folders. Raises UserError.

    `names` are what the tar calls it, and what it is to be called. Nothing is written outside it,
    whatever the tar says: such members, and devices, are left out with a note.
    """
    safe = getattr(tarfile, "data_filter", None)
    if safe is None:
        raise UserError("copying from a task needs Python 3.11.4 or newer")
    theirs, ours = names
    kept = 0

    def wanted(member: tarfile.TarInfo, _: str) -> tarfile.TarInfo | None:
        nonlocal kept
        first, slash, rest = member.name.partition("/")
        if first != theirs:
            note(f"left out: {member.name!r} is not what was asked for")
            return None
        renamed = member.replace(name=f"{ours}{slash}{rest}")
        if member.islnk() and member.linkname.partition("/")[0] == theirs:
            _, slash, rest = member.linkname.partition("/")
            renamed = renamed.replace(linkname=f"{ours}{slash}{rest}")
        try:
            found: tarfile.TarInfo | None = safe(renamed, str(folder))
            _below(renamed, folder / ours)
        except tarfile.FilterError as error:
            note(f"left out: {error}")
            return None
        kept += 1
        return found

    try:
        with tarfile.open(fileobj=stream, mode="r|") as tar:
            tar.extractall(folder, filter=wanted)
    except tarfile.TarError as error:
        raise UserError(f"what came is no whole tar: {error}", "copy it again") from None
    return kept


def _below(member: tarfile.TarInfo, place: Path) -> None:
    """Links have to stay in what is copied, not only in the folder where it goes."""
    if member.issym():
        target = os.path.realpath(place.parent / Path(member.name).parent / member.linkname)
        if os.path.commonpath([target, os.path.realpath(place)]) != os.path.realpath(place):
            raise tarfile.LinkOutsideDestinationError(member, target)
