"""Pack the local files of tasks into archives."""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path, PurePosixPath

from msgspec.structs import replace

from kubectl_sky.errors import InvalidFiles, Problem
from kubectl_sky.plan.local_files import MAX_TOTAL_BYTES, may_hold_credentials
from kubectl_sky.spec import dangers
from kubectl_sky.spec.dangers import Danger
from kubectl_sky.spec.document import Document, join_path
from kubectl_sky.spec.files import WORKDIR, LocalFiles, is_credential, is_like_repository
from kubectl_sky.spec.files import local_files as local_files_of
from kubectl_sky.spec.substitute import Filled
from kubectl_sky.sync import archive, git
from kubectl_sky.sync.archive import DEFAULT_LIMITS, Limits, Unsendable
from kubectl_sky.sync.archive_cache import NO_CACHE, Cache, Snapshot
from kubectl_sky.sync.tree import Entry, Source
from kubectl_sky.tasks.ui import UI
from kubectl_sky.words import bounded
from kubectl_sky.words.facts import Archive
from kubectl_sky.words.private import Folder
from kubectl_sky.words.secret import Secret
from kubectl_sky.words.settings import Settings, cache_folder
from kubectl_sky.workloads.decide import TaskEntry

# Shows progress: takes a label and the total bytes, yields a callback for the bytes processed.
Progress = Callable[[str, int], AbstractContextManager[Callable[[int], object]]]

# More bytes than this are very unlikely to fit into ConfigMaps when packed.
_MAX_PEM = 100_000
_TOO_LARGE = 16 * MAX_TOTAL_BYTES


class Packer:
    """Pack the local files of tasks, each once, and collect their `problems`.

    Credentials in a folder are added to `dangers`, what is not known of one to `notes`.

    Without `progress`, local files are refused. Unchanged files are taken from the `cache`. With
    `check_only`, files that are too large for ConfigMaps are not read: their archive has no digest.
    """

    def __init__(
        self,
        progress: Progress | None,
        cache: Cache,
        limits: Limits = DEFAULT_LIMITS,
        *,
        check_only: bool = False,
    ) -> None:
        self.problems: list[Problem] = []
        self.dangers: list[Danger] = []
        self.notes: list[str] = []
        self._progress = progress
        self._cache = cache
        self._limits = limits
        self._check_only = check_only
        self._archives: dict[LocalFiles, Archive] = {}
        self._credentials: dict[LocalFiles, list[str]] = {}  # file names by folder

    def pack(self, document: Document, files: tuple[LocalFiles, ...]) -> dict[str, Archive]:
        """Return the archives of a task's local files, by target path."""
        archives: dict[str, Archive] = {}
        for local_files in files:
            try:
                archives[local_files.path] = self._archives.get(local_files) or self._pack(
                    local_files
                )
                self._archives[local_files] = archives[local_files.path]
                if not archives[local_files.path].files:
                    field = join_path(local_files.field)
                    why = "it is empty, or all are ignored"
                    self._note(f"{field}: {local_files.source} has no files to upload: {why}")
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

    def _pack(self, files: LocalFiles) -> Archive:
        if self._progress is None:
            hint = "submit it with the command line"
            raise Unsendable.for_source("is a local path of the client", hint)
        try:
            local_source = source(files)
            if not local_source.path.exists():
                hint = f"relative paths start at the current folder, {Path.cwd()}"
                if files.source.startswith(("/", "~")):
                    hint = f"{local_source.path} is a path of this machine"
                if files.path == WORKDIR and is_like_repository(files.source):
                    hint = "for a git repository, write workdir: {url: …}"
                if files.path == WORKDIR and "," in files.source:
                    hint = "a task has one workdir: name other folders in file_mounts"
                raise Unsendable.for_source("no such file or folder", hint)
            if files.path == WORKDIR and not local_source.path.is_dir():
                raise Unsendable.for_source("is a file", "use its folder")
            packed_archive = self._archive(files, local_source, self._progress)
            return replace(packed_archive, revision=git.read_revision(local_source.path))
        except (OSError, RuntimeError, ValueError) as error:  # a loop of links, a NUL character
            reason = (getattr(error, "strerror", None) or str(error)).lower()
            raise Unsendable.for_source(f"cannot be read: {reason}") from error

    def _archive(self, files: LocalFiles, local_source: Source, progress: Progress) -> Archive:
        """Pack a source, or take it from the cache; credentials are never cached."""
        names: list[str] = []

        def on_entry(entry: Entry) -> None:
            name = os.fsdecode(entry.name)
            if is_credential(name):
                names.append(name)

        before = archive.measure(local_source, self._limits, on_entry)
        snapshot = Snapshot()
        if local_source.note:
            self._note(local_source.note)
        if names and local_source.path.is_dir() and not may_hold_credentials(files):
            self._credentials[files] = names
        if self._check_only and before.size >= _TOO_LARGE:
            return Archive(local_source.path.is_dir(), "", before.files, before.size)
        cache = NO_CACHE if names or may_hold_credentials(files) else self._cache
        cached = cache.find(local_source, MAX_TOTAL_BYTES, before)
        if cached:
            return cached
        max_data = MAX_TOTAL_BYTES if before.size < _TOO_LARGE else 0
        with progress(f"Packing {files.source}", before.size) as advance:
            packed_archive = archive.pack(local_source, max_data, advance, snapshot)
        cache.store(local_source, MAX_TOTAL_BYTES, snapshot, packed_archive)
        return packed_archive

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)


def source(files: LocalFiles) -> Source:
    """Return the local source; relative paths start at the current folder. Raises Unsendable."""
    try:
        path = Path(files.source).expanduser()
    except RuntimeError as error:
        raise Unsendable.for_source("home folder not found") from error
    return Source(path, PurePosixPath(files.path).name, with_parents=files.path == WORKDIR)


def certificate(document: Document, files: Mapping[str, str]) -> dict[str, Secret]:
    """Return the data of a TLS Secret, from the files of `service.tls`. Raises InvalidFiles."""
    data = dict[str, Secret]()
    problems = []
    for field, key in (("certfile", "tls.crt"), ("keyfile", "tls.key")):
        try:
            text = bounded.read(Path(files[field]).expanduser(), _MAX_PEM)
            problem = "" if b"-----BEGIN " in text else "is not a PEM file"
            data[key] = Secret(text)
        except OSError as error:
            problem = f"cannot be read: {bounded.reason(error)}"
        if problem:
            problems.append(document.problem(("service", "tls", field), problem))
    if problems:
        raise InvalidFiles(problems)
    return data


def packer(
    progress: Progress | None,
    settings: Settings,
    environ: Mapping[str, str],
    *,
    check_only: bool = False,
) -> Packer:
    cache = Cache(Folder(cache_folder(environ), "files"))
    limits = Limits(settings.max_files, settings.max_gib)
    return Packer(progress, cache, limits, check_only=check_only)


def unsendable(
    documents: Sequence[Document], settings: Settings, environ: Mapping[str, str]
) -> list[Problem]:
    """Return why local files of valid documents cannot be sent, where their paths are known."""
    checker = packer(UI().transfer, settings, environ, check_only=True)
    for document in documents:
        filled = Filled(document)
        if not (document.is_header or document.is_volume):
            checker.pack(document, find_known_files(filled, local_files_of(filled.document.data)))
    return checker.problems


def find_known_files(filled: Filled, files: Sequence[LocalFiles]) -> tuple[LocalFiles, ...]:
    """Return the local files whose paths do not depend on values that are not set."""
    return tuple(item for item in files if not filled.hides(join_path(item.field)))


def pack(
    entries: Sequence[TaskEntry], packer: Packer
) -> tuple[tuple[TaskEntry, ...], Sequence[Danger]]:
    """Pack the local files of tasks; return also the credentials in them. Raises InvalidFiles."""
    packed = tuple(
        replace(entry, archives=packer.pack(entry.document, entry.task.files)) for entry in entries
    )
    if packer.problems:
        raise InvalidFiles(packer.problems)
    return packed, packer.dangers
