"""Cache the archives of files that have not changed since they were packed."""

import hashlib
import json
import stat
import time
from contextlib import suppress

from kubectl_sky.facts import Archive
from kubectl_sky.private import Folder
from kubectl_sky.sync.tree import Entry, Source

MOST = 64 << 20  # bytes of the whole cache
MANY = 100  # archives in it

_FORM = 2  # increase when the archive format changes
_TICK = 2_000_000_000  # nanoseconds; the coarsest clock of a file system, FAT's


class Seen:
    """File statistics: number of files, total bytes, and a hash of all metadata.

    Links are counted as files. The times of folders are ignored.
    """

    def __init__(self) -> None:
        self.files = 0
        self.size = 0
        self._hash = hashlib.sha256()
        self._begun = time.time_ns()
        self._newest = 0

    def add(self, entry: Entry) -> None:
        """Add a file, folder or link."""
        status = entry.status
        self.files += not stat.S_ISDIR(status.st_mode)
        self.size += entry.size
        fields: tuple[object, ...] = (entry.name, status.st_mode, entry.target)
        if stat.S_ISREG(status.st_mode):
            times = (status.st_mtime_ns, status.st_ctime_ns)
            self._newest = max(self._newest, *times)
            fields = (*fields, status.st_dev, status.st_ino, status.st_size, *times)
        self._hash.update(repr(fields).encode() + b"\0")

    @property
    def digest(self) -> str:
        """A hash that is equal for unchanged files."""
        return self._hash.hexdigest()

    @property
    def at_rest(self) -> bool:
        """Whether a later change will be detected, as it is in another clock tick."""
        return self._newest < self._begun - _TICK


class Cache:
    """A cache folder with one archive per source.

    If the folder is None or unusable, lookups miss and nothing fails.
    """

    def __init__(self, folder: Folder | None) -> None:
        self._folder = folder

    def find(self, source: Source, keep: int, seen: Seen) -> Archive | None:
        """Return the cached archive of the current files, made with the same `keep`."""
        if self._folder is None:
            return None
        name = _name(source, keep)
        try:
            header, _, data = self._folder.read(name).partition(b"\n")
            metadata = json.loads(header)
            if metadata["seen"] != seen.digest or metadata["data"] != _hash(data):
                return None
            archive = Archive(**metadata["archive"], data=data)
            self._folder.touch(name)
        except (OSError, ValueError, TypeError, KeyError):
            return None
        return archive

    def keep(self, source: Source, keep: int, seen: Seen, archive: Archive) -> None:
        """Cache an archive, unless its files changed within the last clock tick."""
        if self._folder is None or not seen.at_rest:
            return
        fields = {name: getattr(archive, name) for name in ("folder", "digest", "files", "size")}
        header = {"seen": seen.digest, "data": _hash(archive.data), "archive": fields}
        with suppress(OSError):
            name = _name(source, keep)
            self._folder.write(name, json.dumps(header).encode(), b"\n", archive.data)
            self._folder.prune(MANY, MOST)


NO_CACHE = Cache(None)


def _name(source: Source, keep: int) -> str:
    """Return the file name of a source's archive; it depends on how it is packed."""
    return _hash(repr((_FORM, keep, source.identity)).encode())[:40]


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
