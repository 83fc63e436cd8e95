"""Read the headers of an untrusted tar stream, within limits."""

import tarfile
from collections.abc import Iterator
from typing import BinaryIO

from msgspec import Struct

from kubectl_sky.errors import UserError

BLOCK = 64 * 1024
_MAX_SIZE = 1 << 62  # bytes of a file; base-256 fields allow more
_LONG = {tarfile.GNUTYPE_LONGNAME: "path", tarfile.GNUTYPE_LONGLINK: "linkpath"}
_PAX = (tarfile.XHDTYPE, tarfile.SOLARIS_XHDTYPE)
_EXTENDED = (*_LONG, *_PAX, tarfile.XGLTYPE)


class Limits(Struct, frozen=True):
    """Limits of a tar stream: number of headers, and bytes of one extended header."""

    headers: int = 200_000  # as many files as an upload may have
    extended: int = 1 << 20


class Member(Struct, frozen=True):
    """A tar entry, with its names unchanged. `size` is 0 except for files."""

    name: bytes
    kind: bytes
    link: bytes
    size: int
    mode: int
    mtime: float

    @property
    def is_file(self) -> bool:
        """Whether the member is a regular file."""
        return self.kind in tarfile.REGULAR_TYPES

    @property
    def is_folder(self) -> bool:
        """Whether the member is a directory."""
        return self.kind == tarfile.DIRTYPE

    @property
    def is_symlink(self) -> bool:
        """Whether the member is a symbolic link."""
        return self.kind == tarfile.SYMTYPE

    @property
    def is_hard_link(self) -> bool:
        """Whether the member is a hard link to an earlier file."""
        return self.kind == tarfile.LNKTYPE


class TarStream:
    """Iterate over the members of a tar in ustar, GNU or pax format.

    The content of a member is read or skipped before the next member. Every method raises
    UserError if the tar is incomplete or exceeds the limits.
    """

    def __init__(self, stream: BinaryIO, limits: Limits) -> None:
        self._stream = stream
        self._limits = limits
        self._remaining = 0  # unread bytes of the current member
        self._padding = 0

    def __iter__(self) -> Iterator[Member]:
        extended: dict[str, bytes] = {}
        for count, block in enumerate(self._headers()):
            if count >= self._limits.headers:
                raise UserError(
                    f"the tar stream has more than {self._limits.headers:,} entries",
                    "copy fewer files at a time, or pack them into one file in the task",
                )
            info = _parse(block)
            if info.type in _EXTENDED:
                extended |= self._extended(info)
                continue
            member = _member(info, extended)
            extended = {}
            self._expect(member.size)
            yield member

    def content(self) -> Iterator[bytes]:
        """Yield the content of the current member."""
        while self._remaining:
            data = self._stream.read(min(self._remaining, BLOCK))
            if not data:
                raise broken("it ends within a file")
            self._remaining -= len(data)
            yield data

    def _headers(self) -> Iterator[bytes]:
        """Yield the header blocks, up to the first empty block."""
        while (block := self._exactly(tarfile.BLOCKSIZE)).strip(b"\0"):
            yield block
            for _ in self.content():
                pass
            self._exactly(self._padding)

    def _expect(self, size: int) -> None:
        self._remaining, self._padding = size, -size % tarfile.BLOCKSIZE

    def _extended(self, info: tarfile.TarInfo) -> dict[str, bytes]:
        """Read an extended header, which describes the next member."""
        if not 0 <= info.size <= self._limits.extended:
            raise UserError(
                f"the tar stream has a header of more than {self._limits.extended:,} bytes"
            )
        self._expect(info.size)
        data = b"".join(self.content())
        if info.type in _LONG:
            return {_LONG[info.type]: data.partition(b"\0")[0]}
        return _records(data) if info.type in _PAX else {}

    def _exactly(self, size: int) -> bytes:
        data = self._stream.read(size)
        if len(data) < size:
            raise broken("it ends too early")
        return data


def broken(reason: str) -> UserError:
    """Return the error for an invalid or incomplete tar."""
    return UserError(f"not a complete tar stream: {reason}", "copy it again")


def _parse(block: bytes) -> tarfile.TarInfo:
    try:
        return tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except (tarfile.TarError, ValueError) as error:
        raise broken(str(error)) from None


def _member(info: tarfile.TarInfo, extended: dict[str, bytes]) -> Member:
    if info.type == tarfile.GNUTYPE_SPARSE or any(
        key.startswith("GNU.sparse.") for key in extended
    ):
        raise UserError("sparse files in a tar stream are not supported")
    has_content = info.isreg() or info.type not in tarfile.SUPPORTED_TYPES
    size = _number(extended["size"]) if "size" in extended else info.size
    if not 0 <= size <= _MAX_SIZE:
        raise broken("a size is invalid")
    return Member(
        name=extended.get("path") or _encoded(info.name),
        kind=info.type,
        link=extended.get("linkpath") or _encoded(info.linkname),
        size=size if has_content else 0,
        mode=info.mode,
        mtime=info.mtime,
    )


def _encoded(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


def _records(data: bytes) -> dict[str, bytes]:
    """Read pax records, each `LENGTH KEY=VALUE` and a newline."""
    records: dict[str, bytes] = {}
    start = 0
    while start < len(data):
        digits = data[start : start + 20].partition(b" ")[0]
        end = start + _number(digits)
        key, equals, value = data[start + len(digits) + 1 : end - 1].partition(b"=")
        if not equals or end > len(data) or data[end - 1 : end] != b"\n":
            raise broken("a pax header is invalid")
        records[key.decode(errors="replace")] = value
        start = end
    return records


def _number(digits: bytes) -> int:
    if not digits.isdigit() or len(digits) > 20:
        raise broken("a pax header is invalid")
    return int(digits)
