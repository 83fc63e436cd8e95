"""Cache the archives of files that have not changed since they were packed."""

import hashlib
import json
import stat
import time
from contextlib import suppress

from kubectl_sky.sync.tree import Entry, Source
from kubectl_sky.words.facts import Archive
from kubectl_sky.words.private import Folder

MAX_BYTES = 64 << 20  # of the whole cache
MAX_ARCHIVES = 100

_FORMAT = 2  # increase when the archive format changes
_CLOCK_TICK = 2_000_000_000  # nanoseconds; the coarsest clock of a file system, FAT's


class Snapshot:
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
    def can_cache(self) -> bool:
        """Whether a later change is detected: the newest file is older than a clock tick."""
        return self._newest < self._begun - _CLOCK_TICK


class Cache:
    """A cache folder with one archive per source.

    If the folder is None or unusable, lookups miss and nothing fails.
    """

    def __init__(self, folder: Folder | None) -> None:
        self._folder = folder

    def find(self, source: Source, max_data: int, snapshot: Snapshot) -> Archive | None:
        """Return the cached archive of the current files, packed with the same `max_data`."""
        if self._folder is None:
            return None
        name = _name(source, max_data)
        try:
            header, _, data = self._folder.read(name).partition(b"\n")
            metadata = json.loads(header)
            if metadata["snapshot"] != snapshot.digest or metadata["data"] != _hash(data):
                return None
            archive = Archive(**metadata["archive"], data=data)
            self._folder.touch(name)
        except (OSError, ValueError, TypeError, KeyError):
            return None
        return archive

    def store(self, source: Source, max_data: int, snapshot: Snapshot, archive: Archive) -> None:
        """Cache an archive, unless its files changed within the last clock tick."""
        if self._folder is None or not snapshot.can_cache:
            return
        fields = {name: getattr(archive, name) for name in ("folder", "digest", "files", "size")}
        header = {"snapshot": snapshot.digest, "data": _hash(archive.data), "archive": fields}
        with suppress(OSError):
            name = _name(source, max_data)
            self._folder.write(name, json.dumps(header).encode(), b"\n", archive.data)
            self._folder.prune(MAX_ARCHIVES, MAX_BYTES)


NO_CACHE = Cache(None)


def _name(source: Source, max_data: int) -> str:
    """Return the file name of a source's archive; it depends on how it is packed."""
    return _hash(repr((_FORMAT, max_data, source.identity)).encode())[:40]


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
