"""From the local files that a task names to archives, and what is told about them."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path, PurePosixPath

from kubectl_sky.errors import Problem
from kubectl_sky.facts import Archive
from kubectl_sky.plan.bundle import KEEP, is_secret
from kubectl_sky.plan.plan import Plan
from kubectl_sky.spec import credentials, dangers
from kubectl_sky.spec.dangers import Danger
from kubectl_sky.spec.document import Document
from kubectl_sky.spec.files import WORKDIR, LocalFiles
from kubectl_sky.sync import archive
from kubectl_sky.sync.archive import USUAL, Limits, Unsendable
from kubectl_sky.sync.known import NO_CACHE, Cache, Seen
from kubectl_sky.sync.tree import Entry, Source

# Shows how a number of bytes goes by: takes a label and the number, gives what to call with each.
Progress = Callable[[str, int], AbstractContextManager[Callable[[int], object]]]

_HOPELESS = 16 * KEEP  # bytes that hardly ever become few enough for ConfigMaps


class Packer:
    """Packs the local files of tasks, each once; collects the `problems` of all of them.

    Credentials in a folder are among the `dangers`.

    Without `progress` none may be read. What the `cache` has of files that have not changed since
    is not packed again.
    """

    def __init__(self, progress: Progress | None, cache: Cache, limits: Limits = USUAL) -> None:
        self.problems: list[Problem] = []
        self.dangers: list[Danger] = []
        self._progress = progress
        self._cache = cache
        self._limits = limits
        self._known: dict[LocalFiles, Archive] = {}
        self._credentials: dict[LocalFiles, list[str]] = {}  # names in the folders

    def pack(self, document: Document, files: tuple[LocalFiles, ...]) -> dict[str, Archive]:
        """Return the archives of a task's local files, by where they go."""
        found: dict[str, Archive] = {}
        for one in files:
            try:
                found[one.path] = self._known.get(one) or self._packed(one)
                self._known[one] = found[one.path]
            except Unsendable as error:
                self.problems += [
                    document.problem(
                        one.field, f"{refused.name} {refused.reason}".strip(), refused.hint
                    )
                    for refused in error.refusals
                ]
            if one in self._credentials:
                names = self._credentials[one]
                self.dangers.append(dangers.in_tree(document, one.field, names))
        return found

    def _packed(self, one: LocalFiles) -> Archive:
        if self._progress is None:
            hint = "submit from there"
            raise Unsendable.whole("is on the machine of who asks, and not sent along", hint)
        try:
            found = source(one)
            if not found.path.exists():
                hint = f"paths begin in the folder where the command runs, {Path.cwd()}"
                raise Unsendable.whole("there is nothing of this name", hint)
            if one.path == WORKDIR and not found.path.is_dir():
                raise Unsendable.whole("is a file", "name the folder that it is in")
            return self._archive(one, found, self._progress)
        except (OSError, RuntimeError, ValueError) as error:  # no home directory; a NUL character
            reason = (getattr(error, "strerror", None) or str(error)).lower()
            raise Unsendable.whole(f"cannot be read: {reason}") from error

    def _archive(self, one: LocalFiles, found: Source, progress: Progress) -> Archive:
        """Return the archive of what is there; of credentials nothing is kept on this machine."""
        names: list[str] = []

        def notice(entry: Entry) -> None:
            name = os.fsdecode(entry.name)
            if credentials.ends(name):
                names.append(name)

        before, packed = archive.measure(found, self._limits, notice), Seen()
        if names and found.path.is_dir() and not is_secret(one):
            self._credentials[one] = names
        cache = NO_CACHE if names or is_secret(one) else self._cache
        known = cache.find(found, KEEP, before)
        if known:
            return known
        keep = KEEP if before.size < _HOPELESS else 0
        with progress(f"Packing {one.source}", before.size) as advance:
            made = archive.pack(found, keep, advance, packed)
        cache.keep(found, KEEP, packed, made)
        return made


def source(one: LocalFiles) -> Source:
    """Return where files are on this machine; relative paths begin where the command runs."""
    path = Path(one.source).expanduser()
    return Source(path, PurePosixPath(one.path).name, with_parents=one.path == WORKDIR)


def told(
    plans: Sequence[Plan], archives: Iterable[Archive], there: int, again: bool
) -> Iterator[str]:
    """Say in one line how much travels and how.

    `there` are the ConfigMaps that exist already; `again` is whether all this was sent before.
    """
    each = {one.digest: one for one in archives}.values()
    if not each:
        return
    files, size = sum(one.files for one in each), sum(one.size for one in each)
    ways = []
    number = len({bundle.name for plan in plans for bundle in plan.cargo.bundles})
    if number:
        known = ", which is there already" if number == 1 else ", which are there already"
        some = f", of which {there} are there already" if there else ""
        maps = f"{number} ConfigMap{'s' * (number > 1)}"
        ways.append(f"in {maps}{known if there == number else some}")
    if any(plan.cargo.secret for plan in plans):
        ways.append("in a Secret")
    if any(plan.cargo.streamed for plan in plans):
        later = len(plans) > 1 or any(one.array or one.restarts or one.recovers for one in plans)
        when = " that lack them" if again else ", while this runs" * later
        shelf = next((plan.storage.shelf for plan in plans if plan.cargo.shelf), "")
        shelved = f"once, for the volume {shelf}, unless that has them"
        ways.append(shelved if shelf else f"straight to the pods{when}")
    yield f"files: {files:,}, {_bytes(size)}, sent {' and '.join(ways)}"


def _bytes(size: float) -> str:
    """Write a size as people do: 4.2 MB."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            break
        size /= 1000
    return f"{size:.0f} bytes" if unit == "bytes" else f"{size:.1f} {unit}"
