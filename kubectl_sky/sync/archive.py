"""Build a reproducible tar: its bytes depend only on names, modes and content."""

import hashlib
import os
import stat
import tarfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import Self

from msgspec import Struct

from kubectl_sky.errors import UserError
from kubectl_sky.sync.archive_cache import Snapshot
from kubectl_sky.sync.tree import KINDS, Entry, Refusal, Source, show
from kubectl_sky.words import bounded
from kubectl_sky.words.facts import Archive

MAX_REFUSALS = 10  # refusals to report before giving up
END = bytes(2 * tarfile.BLOCKSIZE)

PART_BYTES = 64 << 20
_CHUNK = 1 << 20
_LEVEL = 2  # a sixth larger than gzip's default 6, in a third of the time
_TIME = 946_684_800  # the year 2000: zip files (and wheels) cannot store times before 1980
_TYPES = {
    stat.S_IFREG: tarfile.REGTYPE,
    stat.S_IFDIR: tarfile.DIRTYPE,
    stat.S_IFLNK: tarfile.SYMTYPE,
}


class Unsendable(Exception):
    """Raised for files that cannot be uploaded, with the reason for each."""

    def __init__(self, *refusals: Refusal) -> None:
        super().__init__("; ".join(f"{refusal.name} {refusal.reason}" for refusal in refusals))
        self.refusals = refusals

    @classmethod
    def for_source(cls, reason: str, hint: str = "") -> Self:
        return cls(Refusal("", reason, hint))


class Limits(Struct, frozen=True):
    """Upload limits: number of files, folders and links, and GiB of content."""

    files: int = 200_000
    gib: int = 4

    def exceeded(self, entries: int, size: int) -> tuple[str, str] | None:
        """Return the exceeded limit and the setting that raises it, else None."""
        if size > self.gib << 30:
            return f"{self.gib} GiB", "max_gib"
        return (f"{self.files:,} files", "max_files") if entries > self.files else None


DEFAULT_LIMITS = Limits()


def measure(
    source: Source, limits: Limits = DEFAULT_LIMITS, on_entry: Callable[[Entry], None] | None = None
) -> Snapshot:
    """Count files and bytes without reading content, and check the limits.

    `on_entry` is called with each file, folder and link. Raises Unsendable, also over a limit.
    """
    entries = 0
    refusals = list[Refusal]()
    snapshot = Snapshot()
    largest: dict[bytes, int] = {}

    for entry in source.entries():
        if isinstance(entry, Refusal):
            refusals.append(entry)
            if len(refusals) == MAX_REFUSALS:
                break
            continue

        entries += 1
        snapshot.add(entry)
        if on_entry:
            on_entry(entry)

        top = entry.name.partition(b"/")[0]
        largest[top] = largest.get(top, 0) + entry.size

        if exceeded := limits.exceeded(entries, snapshot.size):
            limit, setting = exceeded
            name = max(largest, key=lambda candidate: largest[candidate])
            hint = (
                f"exclude what the task does not need with .skyignore, such as {show(name)},"
                f" use a volume for data, or raise {setting} in settings.yaml"
            )
            raise Unsendable.for_source(f"holds more than {limit}, too much to upload", hint)

    if refusals:
        raise Unsendable(*refusals)
    return snapshot


def pack(
    source: Source,
    max_data: int,
    on_bytes: Callable[[int], object] | None = None,
    snapshot: Snapshot | None = None,
) -> Archive:
    """Pack all files; the archive keeps its data if it has at most `max_data` bytes.

    Memory use is bounded by `max_data`. `snapshot` records the entries read. Raises Unsendable if
    a file cannot be read or changes during the read.
    """
    snapshot = snapshot or Snapshot()
    digest = hashlib.sha256()
    packed = bytearray()
    gzip = compressor() if max_data else None

    for chunk in chunks(source, snapshot):
        digest.update(chunk)
        if gzip:
            packed += gzip.compress(chunk)
            if len(packed) > max_data:
                gzip = None
                packed = bytearray()
        if on_bytes:
            on_bytes(len(chunk))

    if gzip:
        packed += gzip.flush()
    data = bytes(packed) if gzip and len(packed) <= max_data else b""
    return Archive(source.path.is_dir(), digest.hexdigest(), snapshot.files, snapshot.size, data)


def compressor() -> "zlib._Compress":
    """Return a gzip compressor whose output contains no file name and no time."""
    return zlib.compressobj(_LEVEL, wbits=31)


def chunks(source: Source, snapshot: Snapshot | None = None) -> Iterator[bytes]:
    """Yield the tar in chunks; `snapshot` records its entries. Raises Unsendable."""
    for entry in source.entries():
        if isinstance(entry, Refusal):
            raise Unsendable(entry)
        if snapshot:
            snapshot.add(entry)
        yield from member(entry)
    yield END


def member(entry: Entry, may_grow: bool = False) -> Iterator[bytes]:
    """Yield the header and the content of an entry, in GNU format: names may have any length.

    Raises Unsendable if a file cannot be read or changes; `may_grow` allows appended data.
    """
    header = _header(entry, entry.status.st_mode, entry.size)
    if not stat.S_ISREG(entry.status.st_mode):
        yield header
    elif entry.size <= _CHUNK:
        yield b"".join((header, *_content(entry, may_grow)))
    else:
        yield header
        yield from _content(entry, may_grow)


def _header(entry: Entry, mode: int, size: int) -> bytes:
    info = tarfile.TarInfo(os.fsdecode(entry.name))
    info.type = _TYPES[stat.S_IFMT(mode)]
    # The owner of a folder always gets full access.
    info.mode = 0o777 if stat.S_ISLNK(mode) else mode & 0o777 | 0o700 * stat.S_ISDIR(mode)
    info.size = size
    info.mtime = _TIME
    info.linkname = os.fsdecode(entry.target)
    return info.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")


def _content(entry: Entry, may_grow: bool) -> Iterator[bytes]:
    """Yield a file's bytes, exactly as many as its header says, and the padding."""
    remaining = entry.size
    with _open(entry) as file:
        while remaining and (chunk := file.read(min(remaining, _CHUNK))):
            remaining -= len(chunk)
            yield chunk
        status = os.fstat(file.fileno())

    if remaining or (not may_grow and _version(status) != _version(entry.status)):
        raise _changed(entry)
    yield bytes(-entry.size % tarfile.BLOCKSIZE)


@contextmanager
def _open(entry: Entry) -> Iterator[FileIO]:
    """Open a file that is no link. Raises Unsendable if it cannot be read."""
    try:
        descriptor = os.open(entry.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        with open(descriptor, "rb", buffering=0) as file:
            yield file
    except OSError as error:
        reason = f"cannot be read: {bounded.reason(error)}"
        raise Unsendable(Refusal(show(entry.name), reason, "")) from error


def _changed(entry: Entry) -> Unsendable:
    reason = "changed while it was being read"
    return Unsendable(Refusal(show(entry.name), reason, "try again when it no longer changes"))


def _version(status: os.stat_result) -> tuple[int, ...]:
    return status.st_ino, status.st_size, status.st_mtime_ns


Note = Callable[[str], None]


class Part(Struct, frozen=True):
    """A part of a copy that can be sent again: a tar, or bytes of a file from an offset on.

    `file` is the file's path in the tars; empty for a tar. A part that `seals` its file is the last
    one of a file that its owner may not write.
    """

    entries: tuple[Entry, ...]
    file: str = ""
    offset: int = 0
    seals: bool = False

    def blocks(self) -> Iterator[bytes]:
        """Yield the bytes. Raises UserError."""
        try:
            if self.file:
                yield from _content_from(self.entries[0], self.offset)
                return
            for entry in self.entries:
                if entry.size > PART_BYTES:  # its bytes are parts of their own
                    yield _header(entry, entry.status.st_mode | stat.S_IWUSR, 0)
                else:
                    yield from member(entry, may_grow=True)
        except Unsendable as error:
            raise UserError(str(error), error.refusals[0].hint) from error
        yield END


def parts(source: Path, name: str, note: Note) -> Iterator[Part]:
    """Yield the parts of a copy of a file or folder, stored under `name`. Raises UserError.

    Links stay links, and hard links become copies; sockets, pipes and devices are skipped with a
    note. A file may grow while it is read, such as a log.
    """
    batch: list[Entry] = []
    large: list[Entry] = []
    size = 0
    for entry in _sendable(source, name, note):
        is_large = entry.size > PART_BYTES
        large += [entry] if is_large else []
        batch.append(entry)
        size += tarfile.BLOCKSIZE
        size += 0 if is_large else entry.size
        if size > PART_BYTES:
            yield Part(tuple(batch))
            batch = []
            size = 0
    if batch:
        yield Part(tuple(batch))
    for entry in large:
        yield from _pieces(entry)


def _sendable(source: Path, name: str, note: Note) -> Iterator[Entry]:
    try:
        for entry in _entries(os.fsencode(source), os.fsencode(name)):
            if stat.S_IFMT(entry.status.st_mode) in KINDS:
                path = os.path.relpath(entry.path, os.fsencode(source.parent))
                note(f"skipped, neither a file nor a folder: {show(path)}")
            else:
                yield entry
    except OSError as error:
        file = show(os.fsencode(error.filename or source))
        raise UserError(f"{file}: {bounded.reason(error)}") from error


def _pieces(entry: Entry) -> Iterator[Part]:
    """Yield the parts of a large file, which a tar has created."""
    is_writable = bool(entry.status.st_mode & stat.S_IWUSR)
    for offset in range(0, entry.size, PART_BYTES):
        is_last = offset + PART_BYTES >= entry.size
        yield Part((entry,), os.fsdecode(entry.name), offset, is_last and not is_writable)


def _content_from(entry: Entry, offset: int) -> Iterator[bytes]:
    """Yield the bytes of a part of a large file, which may have grown, but not been replaced."""
    remaining = min(PART_BYTES, entry.size - offset)
    with _open(entry) as file:
        status = os.fstat(file.fileno())
        if not os.path.samestat(status, entry.status):
            raise _changed(entry)
        file.seek(offset)
        while remaining and (chunk := file.read(min(remaining, _CHUNK))):
            remaining -= len(chunk)
            yield chunk
    if remaining:
        raise _changed(entry)


def size_of(source: Path) -> int:
    """Return the bytes of a file or of the files in a folder. Raises OSError."""
    return sum(entry.size for entry in _entries(os.fsencode(source), b"."))


def _entries(source: bytes, name: bytes) -> Iterator[Entry]:
    """Yield a path and all paths below it, without following links."""
    remaining = [source]
    while remaining:
        path = remaining.pop()
        local_path = os.path.normpath(os.path.join(name, os.path.relpath(path, source)))
        status = os.lstat(path)
        is_link = stat.S_ISLNK(status.st_mode)
        target = os.readlink(path) if is_link else b""
        yield Entry(local_path, path, status, target)
        if stat.S_ISDIR(status.st_mode):
            children = sorted(os.listdir(path), reverse=True)
            remaining += [os.path.join(path, child) for child in children]
