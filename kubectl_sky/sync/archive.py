"""A tar of files whose bytes depend on nothing but names, modes and content."""

import hashlib
import os
import stat
import tarfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Self

from kubectl_sky.facts import Archive
from kubectl_sky.sync.known import Seen
from kubectl_sky.sync.tree import Entry, Refusal, Source, shown

MAX_REFUSALS = 10  # enough to see what is wrong

_CHUNK = 1 << 20
_LEVEL = 2  # a sixth more bytes than gzip's usual 6, in a third of the time
_TIME = 946_684_800  # 2000: zip files, and so wheels, know no time before 1980
_KINDS = {
    stat.S_IFREG: tarfile.REGTYPE,
    stat.S_IFDIR: tarfile.DIRTYPE,
    stat.S_IFLNK: tarfile.SYMTYPE,
}


class Unsendable(Exception):
    """Files that cannot be sent, with the reason of each."""

    def __init__(self, *refusals: Refusal) -> None:
        super().__init__("; ".join(f"{one.name} {one.reason}" for one in refusals))
        self.refusals = refusals

    @classmethod
    def whole(cls, reason: str, hint: str = "") -> Self:
        """The file or folder itself cannot be sent."""
        return cls(Refusal("", reason, hint))


@dataclass(frozen=True)
class Limits:
    """How much is sent: files, folders and links, and GiB of the files."""

    files: int = 200_000
    gib: int = 4

    def exceeded(self, entries: int, size: int) -> tuple[str, str] | None:
        """Return what is too much, and the setting that allows more."""
        if size > self.gib << 30:
            return f"{self.gib} GiB", "max_gib"
        return (f"{self.files:,} files", "max_files") if entries > self.files else None


USUAL = Limits()


def measure(
    source: Source, limits: Limits = USUAL, notice: Callable[[Entry], None] | None = None
) -> Seen:
    """Look at everything without reading it. Raises Unsendable, also when it is too much.

    `notice` is called with each file, folder and link.
    """
    entries, refused, seen = 0, list[Refusal](), Seen()
    largest: dict[bytes, int] = {}
    for found in source.entries():
        if isinstance(found, Refusal):
            refused.append(found)
            if len(refused) == MAX_REFUSALS:
                break
            continue
        entries += 1
        seen.add(found)
        if notice:
            notice(found)
        top = found.name.partition(b"/")[0]
        largest[top] = largest.get(top, 0) + found.size
        exceeded = limits.exceeded(entries, seen.size)
        if exceeded:
            raise Unsendable(_too_much(*exceeded, largest))
    if refused:
        raise Unsendable(*refused)
    return seen


def pack(
    source: Source,
    keep: int,
    on_bytes: Callable[[int], object] | None = None,
    seen: Seen | None = None,
) -> Archive:
    """Read everything once; the archive keeps its data while that is within `keep` bytes.

    Memory is bounded by `keep`. `seen` is told what was read. Raises Unsendable when something
    cannot be read, or changes meanwhile.
    """
    seen = seen or Seen()
    digest, kept = hashlib.sha256(), bytearray()
    squeezer = compressor() if keep else None
    for chunk in chunks(source, seen):
        digest.update(chunk)
        if squeezer:
            kept += squeezer.compress(chunk)
            if len(kept) > keep:
                squeezer, kept = None, bytearray()
        if on_bytes:
            on_bytes(len(chunk))
    if squeezer:
        kept += squeezer.flush()
    data = bytes(kept) if squeezer and len(kept) <= keep else b""
    return Archive(source.path.is_dir(), digest.hexdigest(), seen.files, seen.size, data)


def compressor() -> "zlib._Compress":
    """Return a gzip compressor; its output has neither names nor times in it."""
    return zlib.compressobj(_LEVEL, wbits=31)


def chunks(source: Source, seen: Seen | None = None) -> Iterator[bytes]:
    """Yield the tar, some of it at a time; `seen` is told what is in it. Raises Unsendable."""
    for found in source.entries():
        if isinstance(found, Refusal):
            raise Unsendable(found)
        if seen:
            seen.add(found)
        header = _header(found)
        if not stat.S_ISREG(found.status.st_mode):
            yield header
        elif found.size <= _CHUNK:
            yield b"".join((header, *_content(found)))
        else:
            yield header
            yield from _content(found)
    yield bytes(2 * tarfile.BLOCKSIZE)


def _header(entry: Entry) -> bytes:
    """Write GNU's form of a header, which has room for names of any length and any bytes."""
    kind = stat.S_IFMT(entry.status.st_mode)
    info = tarfile.TarInfo(os.fsdecode(entry.name))
    info.type = _KINDS[kind]
    info.mode = _mode(entry.status.st_mode)
    info.size = entry.size
    info.mtime = _TIME
    info.linkname = os.fsdecode(entry.target)
    return info.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")


def _mode(mode: int) -> int:
    """What may be done with it; a folder can be entered and filled by its owner."""
    return 0o777 if stat.S_ISLNK(mode) else mode & 0o777 | (0o700 if stat.S_ISDIR(mode) else 0)


def _content(entry: Entry) -> Iterator[bytes]:
    """Yield a file's bytes and what fills the last block; as many as its header has said."""
    left = entry.size
    try:
        with open(entry.path, "rb", buffering=0, opener=_not_linked) as file:
            while left and (chunk := file.read(min(left, _CHUNK))):
                left -= len(chunk)
                yield chunk
            now = os.fstat(file.fileno())
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise Unsendable(Refusal(shown(entry.name), f"cannot be read: {reason}", "")) from error
    if left or _seen(now) != _seen(entry.status):
        reason = "changed while it was being read"
        raise Unsendable(Refusal(shown(entry.name), reason, "try again when it is at rest"))
    yield bytes(-entry.size % tarfile.BLOCKSIZE)


def _not_linked(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0))


def _seen(status: os.stat_result) -> tuple[int, ...]:
    return status.st_ino, status.st_size, status.st_mtime_ns


def _too_much(much: str, setting: str, largest: dict[bytes, int]) -> Refusal:
    """Say what to leave out: the largest part of what was seen."""
    name = max(largest, key=lambda top: largest[top])
    hint = (
        f"leave out what the task does not need by .skyignore, such as {shown(name)}; volumes"
        f" carry data, and {setting} in settings.yaml is another limit"
    )
    return Refusal("", f"holds more than {much}, too much to send", hint)
