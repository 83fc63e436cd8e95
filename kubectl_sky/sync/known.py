"""Archives of files that have not changed since they were packed, kept in the user's cache."""

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

_FORM = 2  # goes up when the same files become another archive
_TICK = 2_000_000_000  # nanoseconds; the coarsest clock of a file system, FAT's


class Seen:
    """What the system says of files: how many, their bytes, and everything in one hash.

    Links are counted too. The times of folders mean nothing here.
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
        said: tuple[object, ...] = (entry.name, status.st_mode, entry.target)
        if stat.S_ISREG(status.st_mode):
            times = (status.st_mtime_ns, status.st_ctime_ns)
            self._newest = max(self._newest, *times)
            said = (*said, status.st_dev, status.st_ino, status.st_size, *times)
        self._hash.update(repr(said).encode() + b"\0")

    @property
    def digest(self) -> str:
        """The same for files that are the same."""
        return self._hash.hexdigest()

    @property
    def at_rest(self) -> bool:
        """Whether another change would show: one in the same tick of the clock would not."""
        return self._newest < self._begun - _TICK


class Cache:
    """A folder with an archive for each source.

    Where it cannot be used nothing is known, and nothing fails. Without a folder there is none.
    """

    def __init__(self, folder: Folder | None) -> None:
        self._folder = folder

    def find(self, source: Source, keep: int, seen: Seen) -> Archive | None:
        """Return the archive of files as they are now, made with the same `keep`."""
        if self._folder is None:
            return None
        name = _name(source, keep)
        try:
            head, _, data = self._folder.read(name).partition(b"\n")
            found = json.loads(head)
            if found["seen"] != seen.digest or found["data"] != _hash(data):
                return None
            archive = Archive(**found["archive"], data=data)
            self._folder.touch(name)
        except (OSError, ValueError, TypeError, KeyError):
            return None
        return archive

    def keep(self, source: Source, keep: int, seen: Seen, archive: Archive) -> None:
        """Remember an archive, unless its files have changed only just now."""
        if self._folder is None or not seen.at_rest:
            return
        said = {name: getattr(archive, name) for name in ("folder", "digest", "files", "size")}
        head = {"seen": seen.digest, "data": _hash(archive.data), "archive": said}
        with suppress(OSError):
            name = _name(source, keep)
            self._folder.write(name, json.dumps(head).encode(), b"\n", archive.data)
            self._folder.prune(MANY, MOST)


NO_CACHE = Cache(None)


def _name(source: Source, keep: int) -> str:
    """Name the archive of a source; another way to pack it is another name."""
    return _hash(repr((_FORM, keep, source.identity)).encode())[:40]


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
