"""Pack the local files of tasks into archives."""

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path, PurePosixPath

from kubectl_sky.errors import Problem
from kubectl_sky.facts import Archive
from kubectl_sky.plan.local_files import MAX_TOTAL_BYTES, may_hold_credentials
from kubectl_sky.spec import credentials, dangers
from kubectl_sky.spec.dangers import Danger
from kubectl_sky.spec.document import Document
from kubectl_sky.spec.files import WORKDIR, LocalFiles
from kubectl_sky.sync import archive
from kubectl_sky.sync.archive import USUAL, Limits, Unsendable
from kubectl_sky.sync.known import NO_CACHE, Cache, Seen
from kubectl_sky.sync.tree import Entry, Source

# Shows progress: takes a label and the total bytes, yields a callback for the bytes processed.
Progress = Callable[[str, int], AbstractContextManager[Callable[[int], object]]]

_HOPELESS = (
    16 * MAX_TOTAL_BYTES
)  # bytes; more than this is very unlikely to fit into ConfigMaps when packed


class Packer:
    """Pack the local files of tasks, each once, and collect their `problems`.

    Credentials in a folder are added to `dangers`.

    Without `progress`, local files are refused. Unchanged files are taken from the `cache`.
    """

    def __init__(self, progress: Progress | None, cache: Cache, limits: Limits = USUAL) -> None:
        self.problems: list[Problem] = []
        self.dangers: list[Danger] = []
        self._progress = progress
        self._cache = cache
        self._limits = limits
        self._known: dict[LocalFiles, Archive] = {}
        self._credentials: dict[LocalFiles, list[str]] = {}  # file names by folder

    def pack(self, document: Document, files: tuple[LocalFiles, ...]) -> dict[str, Archive]:
        """Return the archives of a task's local files, by target path."""
        archives: dict[str, Archive] = {}
        for local_files in files:
            try:
                archives[local_files.path] = self._known.get(local_files) or self._packed(
                    local_files
                )
                self._known[local_files] = archives[local_files.path]
            except Unsendable as error:
                self.problems += [
                    document.problem(
                        local_files.field, f"{refusal.name} {refusal.reason}".strip(), refusal.hint
                    )
                    for refusal in error.refusals
                ]
            if local_files in self._credentials:
                names = self._credentials[local_files]
                self.dangers.append(dangers.in_tree(document, local_files.field, names))
        return archives

    def _packed(self, one: LocalFiles) -> Archive:
        if self._progress is None:
            hint = "submit it with the command line"
            raise Unsendable.whole("is a local path of the client", hint)
        try:
            origin = source(one)
            if not origin.path.exists():
                hint = f"relative paths start at the current folder, {Path.cwd()}"
                raise Unsendable.whole("no such file or folder", hint)
            if one.path == WORKDIR and not origin.path.is_dir():
                raise Unsendable.whole("is a file", "use its folder")
            return self._archive(one, origin, self._progress)
        except (OSError, RuntimeError, ValueError) as error:  # no home directory; a NUL character
            reason = (getattr(error, "strerror", None) or str(error)).lower()
            raise Unsendable.whole(f"cannot be read: {reason}") from error

    def _archive(self, one: LocalFiles, found: Source, progress: Progress) -> Archive:
        """Pack a source, or take it from the cache; credentials are never cached."""
        names: list[str] = []

        def notice(entry: Entry) -> None:
            name = os.fsdecode(entry.name)
            if credentials.ends(name):
                names.append(name)

        before, packed = archive.measure(found, self._limits, notice), Seen()
        if names and found.path.is_dir() and not may_hold_credentials(one):
            self._credentials[one] = names
        cache = NO_CACHE if names or may_hold_credentials(one) else self._cache
        cached = cache.find(found, MAX_TOTAL_BYTES, before)
        if cached:
            return cached
        max_kept = MAX_TOTAL_BYTES if before.size < _HOPELESS else 0
        with progress(f"Packing {one.source}", before.size) as advance:
            packed_archive = archive.pack(found, max_kept, advance, packed)
        cache.keep(found, MAX_TOTAL_BYTES, packed, packed_archive)
        return packed_archive


def source(one: LocalFiles) -> Source:
    """Return the local source; relative paths start at the current folder."""
    path = Path(one.source).expanduser()
    return Source(path, PurePosixPath(one.path).name, with_parents=one.path == WORKDIR)
