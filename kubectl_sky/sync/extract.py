"""Extract an untrusted tar stream to a temporary folder, then move it.

Symbolic links are created last, when all folders exist: nothing is ever written through one. This
is why `tarfile` only reads: its filters follow links on the disk, and Python 3.11.2 has none.
"""

import json
import os
import shutil
import tarfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO, Self, cast

from kubectl_sky.errors import UserError

_MAX_MEMBERS = 200_000  # as many files as an upload may have
_MAX_HEADER_BYTES = 64 << 10  # of a member, with long names and pax records
_MAX_TRAILING_BYTES = 1 << 20  # after the end: some programs pad the last block
_MAX_LINK_CHARACTERS = 16 << 20  # of the symbolic links, which are in memory until the end
_MAX_DEPTH = 100  # nested folders
_MAX_NOTES = 10
_MAX_SHOWN = 200  # characters shown of a name
_BUFFER_BYTES = 64 << 10


class _Skipped(Exception):
    """Raised to skip a member, with the reason; caught in this module."""


class _Notes:
    """Report skipped members: the first few, then the number of the remaining ones."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note = note
        self._count = 0

    def skip(self, name: str, why: str) -> None:
        self._count += 1
        if self._count <= _MAX_NOTES:
            shown = os.fsencode(name).decode(errors="replace")[:_MAX_SHOWN]
            self._note(f"skipped {json.dumps(shown, ensure_ascii=False)}: {why}")

    def finish(self) -> None:
        if self._count > _MAX_NOTES:
            self._note(f"skipped {self._count - _MAX_NOTES:,} more")


class _Meter:
    """A stream of which only `allowed` bytes are read; endless headers would fill the memory."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.allowed = _MAX_HEADER_BYTES

    def read(self, size: int) -> bytes:
        data = self._stream.read(size)
        self.allowed -= len(data)
        if self.allowed < -_BUFFER_BYTES:
            raise tarfile.ReadError("a header is too large")
        return data


class _Member(tarfile.TarInfo):
    @classmethod
    def fromtarfile(cls, tarfile_: tarfile.TarFile) -> Self:
        """Read a header. Without this, tarfile takes an invalid one for the end of the stream."""
        try:
            return super().fromtarfile(tarfile_)
        except tarfile.HeaderError as error:
            if type(error).__name__ == "EOFHeaderError":
                raise
            raise tarfile.ReadError(str(error)) from None


def extract(
    stream: BinaryIO,
    target: Path,
    note: Callable[[str], None],
    check: Callable[[bool], None] = lambda is_file: None,
    *,
    max_members: int = _MAX_MEMBERS,
) -> None:
    """Extract the file or folder in a tar to `target`. Raises UserError, and what `check` raises.

    `check` is called at the beginning, with whether it is a file.
    The tar holds `.` or a single file. An existing file is replaced atomically, and an existing
    folder is merged. If one is a folder and the other is not, the existing one stays.
    """
    notes = _Notes(note)
    parent = target if target.is_dir() and not target.is_symlink() else target.parent

    try:
        with TemporaryDirectory(prefix=".kubectl-sky-", dir=parent) as temporary:
            new = Path(temporary, "new")
            _fill(stream, new, notes, check, max_members)
            if len(stream.read(_MAX_TRAILING_BYTES)) == _MAX_TRAILING_BYTES:
                raise tarfile.ReadError("data follows its end")
            _move(new, target, notes)
    except (tarfile.TarError, EOFError, ValueError, RecursionError, _Skipped) as error:
        raise UserError(f"not a complete tar stream: {str(error)[:_MAX_SHOWN]}") from None
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UserError(f"cannot write {target}: {reason}") from None
    notes.finish()


def _fill(
    stream: BinaryIO,
    root: Path,
    notes: _Notes,
    check: Callable[[bool], None],
    max_members: int,
) -> None:
    meter = _Meter(stream)
    links = dict[Path, str]()
    link_characters = 0

    with tarfile.open(
        fileobj=cast(BinaryIO, meter),
        mode="r|",
        bufsize=_BUFFER_BYTES,
        tarinfo=_Member,
        encoding="utf-8",
        errors="surrogateescape",
    ) as tar:
        for count in range(max_members + 1):
            member = tar.next()
            if member is None:
                break
            tar.members.clear()  # type: ignore[attr-defined]  # or all of them stay in memory
            _check_size(member, root)
            meter.allowed = member.size + _MAX_HEADER_BYTES

            if count == 0:
                check(member.isreg())
                _begin(tar, member, root)
                continue
            try:
                _add(tar, member, root, links)
            except _Skipped as reason:
                notes.skip(member.name, str(reason))
            link_characters += len(member.name + member.linkname) if member.issym() else 0
            if link_characters > _MAX_LINK_CHARACTERS:
                raise UserError("the tar stream has too many symbolic links")
        else:
            raise UserError(f"the tar stream has more than {max_members:,} entries")

    for path, text in links.items():
        try:
            path.symlink_to(text)
        except FileExistsError:
            notes.skip(str(path.relative_to(root)), "another member has this path")


def _check_size(member: tarfile.TarInfo, root: Path) -> None:
    space = shutil.disk_usage(root.parent)
    if member.size < 0 or member.issparse():
        raise UserError("sparse files in a tar stream are not supported")
    if space.total and member.size > space.free:
        shown = repr(member.name[:_MAX_SHOWN])
        raise UserError(
            f"{shown} has {member.size:,} bytes, but only {space.free:,} bytes are free"
        )


def _begin(tar: tarfile.TarFile, member: tarfile.TarInfo, root: Path) -> None:
    parts = _split(member.name)
    if member.isreg() and len(parts) == 1:
        _write(tar, member, root)
    elif member.isdir() and not parts:
        root.mkdir()
    else:
        raise tarfile.ReadError(f"it begins with {member.name!r}")


def _add(tar: tarfile.TarFile, member: tarfile.TarInfo, root: Path, links: dict[Path, str]) -> None:
    parts = _split(member.name)
    if not parts or not root.is_dir():
        raise _Skipped("it was not requested")
    path = root.joinpath(*parts)

    try:
        (path if member.isdir() else path.parent).mkdir(parents=True, exist_ok=True)
        if member.isreg():
            _write(tar, member, path)
        elif member.islnk():
            _link(root.joinpath(*_split(member.linkname)), path)
        elif member.issym():
            if not _points_inside(len(parts), member.linkname):
                raise _Skipped("it is a link that points outside of the copied files")
            links[path] = member.linkname
        elif not member.isdir():
            raise _Skipped("it is neither a file nor a folder")
    except (FileExistsError, NotADirectoryError):
        raise _Skipped("another member has this path") from None


def _split(name: str) -> list[str]:
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if name.startswith("/") or ".." in parts or "\0" in name:
        raise _Skipped("its path points outside of the copied files")
    if len(parts) > _MAX_DEPTH:
        raise _Skipped("its path is too long")
    return parts


def _write(tar: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> None:
    mode = 0o600 | member.mode & (0o755 if member.mode & 0o100 else 0o644)
    source = tar.extractfile(member)
    assert source  # of a regular file
    with open(path, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
        shutil.copyfileobj(source, file)
    with suppress(OverflowError, ValueError, OSError):
        os.utime(path, (member.mtime, member.mtime))


def _link(original: Path, path: Path) -> None:
    try:
        os.link(original, path)
    except (FileNotFoundError, PermissionError):  # a folder, or a file system without hard links
        raise _Skipped("it is a hard link to a file that was not copied") from None


def _points_inside(depth: int, text: str) -> bool:
    """Check by its text alone whether a link at a depth points inside the tree.

    `..` is allowed only at the start: after a name, which may be a link itself, it could escape.
    """
    parts = [part for part in text.split("/") if part not in ("", ".")]
    ups = next((at for at, part in enumerate(parts) if part != ".."), len(parts))
    is_relative = text and not text.startswith("/") and "\0" not in text
    return bool(is_relative) and ups < depth and ".." not in parts[ups:]


def _move(new: Path, target: Path, notes: _Notes) -> None:
    is_folder = _is_folder(target)
    if is_folder and _is_folder(new):
        _merge(new, target, notes)
    elif is_folder or (_is_folder(new) and os.path.lexists(target)):
        what = "a folder" if is_folder else "not a folder"
        raise UserError(f"{target} exists and is {what}", "choose another target")
    else:
        os.replace(new, target)


def _merge(source: Path, target: Path, notes: _Notes) -> None:
    """Merge a folder into another one; replace links there, never follow them."""
    for name in os.listdir(source):
        new = source / name
        old = target / name
        if _is_folder(new) and _is_folder(old):
            _merge(new, old, notes)
        elif _is_folder(old) or (_is_folder(new) and os.path.lexists(old)):
            what = "a folder" if _is_folder(old) else "not a folder"
            notes.skip(name, f"it exists here and is {what}")
        else:
            os.replace(new, old)


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()
