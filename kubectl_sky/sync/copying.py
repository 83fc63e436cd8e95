"""Pack files and folders into the tar stream that `cp` sends to a node."""

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from kubectl_sky import bounded
from kubectl_sky.errors import UserError
from kubectl_sky.sync import archive
from kubectl_sky.sync.archive import Unsendable
from kubectl_sky.sync.tree import KINDS, Entry, shown

Note = Callable[[str], None]


def packed(source: Path, name: str, note: Note) -> Iterator[bytes]:
    """Yield a tar of a file or folder, stored under `name`. Raises UserError.

    Links stay links, and hard links become copies; sockets, pipes and devices are skipped with a
    note. A file may grow while it is read, such as a log.
    """
    try:
        for entry in _entries(os.fsencode(source), os.fsencode(name)):
            if stat.S_IFMT(entry.status.st_mode) in KINDS:
                path = os.path.relpath(entry.path, os.fsencode(source.parent))
                note(f"skipped, neither a file nor a folder: {shown(path)}")
            else:
                yield from archive.member(entry, may_grow=True)
    except OSError as error:
        file = shown(os.fsencode(error.filename or source))
        raise UserError(f"{file}: {bounded.reason(error)}") from error
    except Unsendable as error:
        raise UserError(str(error), error.refusals[0].hint) from error
    yield archive.END


def _entries(source: bytes, name: bytes) -> Iterator[Entry]:
    """Yield a path and all paths below it, without following links."""
    remaining = [source]
    while remaining:
        path = remaining.pop()
        archive_path = os.path.normpath(os.path.join(name, os.path.relpath(path, source)))
        status = os.lstat(path)
        is_link = stat.S_ISLNK(status.st_mode)
        yield Entry(archive_path, path, status, os.readlink(path) if is_link else b"")
        if stat.S_ISDIR(status.st_mode):
            children = sorted(os.listdir(path), reverse=True)
            remaining += [os.path.join(path, child) for child in children]
