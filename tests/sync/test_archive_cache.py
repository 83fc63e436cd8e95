"""The archive cache: unchanged files are packed once."""

import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kubectl_sky.plan.local_files import MAX_TOTAL_BYTES
from kubectl_sky.spec.files import LocalFiles
from kubectl_sky.spec.load import load
from kubectl_sky.submitting.packing import Packer
from kubectl_sky.sync import archive_cache
from kubectl_sky.sync.archive import measure, pack
from kubectl_sky.sync.archive_cache import NO_CACHE, Cache, Snapshot
from kubectl_sky.sync.tree import Source
from kubectl_sky.words.facts import Archive
from kubectl_sky.words.private import Folder

(DOCUMENT,) = load(b"run: x\n", "task.yaml")


@pytest.fixture
def code(tmp_path: Path) -> Path:
    """A folder of unchanged files (see `later`)."""
    folder = tmp_path / "code"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "a.py").write_text("one")
    (folder / "b.py").write_text("two")
    (folder / "link").symlink_to("b.py")
    (folder / ".skyignore").write_text("*.log\n")
    return folder


@pytest.fixture(autouse=True)
def later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Move the clock a minute ahead, so that files count as unchanged."""
    now = time.time_ns
    monkeypatch.setattr("kubectl_sky.sync.archive_cache.time.time_ns", lambda: now() + 60 * 10**9)


class CountingPacker:
    """Packs a folder with a cache, and counts how often it is read."""

    def __init__(self, folder: Path) -> None:
        self.cache = Cache(Folder(folder))
        self.read = 0

    def progress(self, label: str, size: int) -> AbstractContextManager[Callable[[int], object]]:
        self.read += 1
        return nullcontext(len(label).__add__)

    def __call__(self, path: Path, where: str = "~/sky_workdir") -> Archive:
        packer = Packer(self.progress, self.cache)
        files = LocalFiles(where, str(path), ("workdir",))
        found = packer.pack(DOCUMENT, (files,))
        assert not packer.problems
        return found[where]


def fresh(path: Path) -> Archive:
    return pack(Source(path, with_parents=True), MAX_TOTAL_BYTES)


def test_archive_cache_unchanged_folder_is_packed_once(tmp_path: Path, code: Path) -> None:
    counting = CountingPacker(tmp_path / "cache")
    assert counting(code) == counting(code) == fresh(code)
    assert counting(code).data == fresh(code).data
    assert counting.read == 1
    counting(code, "~/elsewhere")
    assert counting.read == 2, "parent ignore files apply to the workdir only"


def relinked(code: Path) -> None:
    (code / "link").unlink()
    (code / "link").symlink_to("deep/a.py")


def replaced(code: Path) -> None:
    (code / "c").write_text("TWO")
    os.utime(code / "c", ns=(0, (code / "b.py").stat().st_mtime_ns))
    (code / "c").rename(code / "b.py")


CHANGES: dict[str, Callable[[Path], object]] = {
    "same size": lambda code: (code / "b.py").write_text("TWO"),
    "another size": lambda code: (code / "b.py").write_text("twoo"),
    "mode": lambda code: (code / "b.py").chmod(0o755),
    "new": lambda code: (code / "c.py").write_text(""),
    "gone": lambda code: (code / "b.py").unlink(),
    "renamed": lambda code: (code / "b.py").rename(code / "c.py"),
    "empty folder": lambda code: (code / "c").mkdir(),
    "folder's mode": lambda code: (code / "deep").chmod(0o700),
    "ignored": lambda code: (code / ".skyignore").write_text("*.py\n"),
    "link": relinked,
    "replaced": replaced,
}


@pytest.mark.parametrize("change", CHANGES)
def test_archive_cache_changed_folder_is_packed_again(
    tmp_path: Path, code: Path, change: str
) -> None:
    counting = CountingPacker(tmp_path / "cache")
    before = counting(code)
    CHANGES[change](code)
    after = counting(code)
    assert after == fresh(code)
    assert after.digest != before.digest
    assert counting.read == 2


def test_archive_cache_change_with_old_mtime_is_detected(tmp_path: Path, code: Path) -> None:
    counting = CountingPacker(tmp_path / "cache")
    counting(code)
    status = (code / "b.py").stat()
    time.sleep(0.02)  # wait for a clock tick of the file system
    with (code / "b.py").open("r+") as file:
        file.write("TWO")
    os.utime(code / "b.py", ns=(status.st_atime_ns, status.st_mtime_ns))
    assert counting(code).digest == fresh(code).digest
    assert counting.read == 2


def test_archive_cache_ignored_file_may_change(tmp_path: Path, code: Path) -> None:
    counting = CountingPacker(tmp_path / "cache")
    counting(code)
    (code / "x.log").write_text("more")
    counting(code)
    assert counting.read == 1


def test_archive_cache_recent_change_is_not_cached(
    tmp_path: Path, code: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second change within a clock tick would be missed."""
    counting = CountingPacker(tmp_path / "cache")
    monkeypatch.undo()
    counting(code)
    assert not (tmp_path / "cache").exists()
    counting(code)
    assert counting.read == 2


def test_archive_cache_excludes_credentials(tmp_path: Path, code: Path) -> None:
    counting = CountingPacker(tmp_path / "cache")
    counting(code, "~/.ssh")
    counting(code, "~/.ssh")
    assert counting.read == 2
    assert not (tmp_path / "cache").exists()


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    text=st.one_of(
        st.binary(max_size=60), st.sampled_from([b"{}", b"[]", b"1\n", b'{"snapshot":1}'])
    )
)
def test_archive_cache_random_content_is_ignored(tmp_path: Path, text: bytes) -> None:
    folder = tmp_path / "file"
    cache = tmp_path / "cache"
    folder.write_text("x")
    found = Source(folder)
    made = pack(found, MAX_TOTAL_BYTES)
    Cache(Folder(cache)).store(found, MAX_TOTAL_BYTES, measure(found), made)
    (kept,) = cache.iterdir()
    kept.write_bytes(text)
    assert Cache(Folder(cache)).find(found, MAX_TOTAL_BYTES, measure(found)) is None


def test_archive_cache_prunes_oldest_first(
    tmp_path: Path, code: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = Cache(Folder(tmp_path / "cache"))
    made = fresh(code)
    snapshot = Snapshot()
    sources = [Source(code, name) for name in "abcd"]
    monkeypatch.setattr(archive_cache, "MAX_ARCHIVES", 3)
    for number, source in enumerate(sources[:3]):
        cache.store(source, MAX_TOTAL_BYTES, snapshot, made)
        for kept in (tmp_path / "cache").iterdir():
            if kept.stat().st_mtime > 10:
                os.utime(kept, (number, number))
    assert cache.find(sources[0], MAX_TOTAL_BYTES, snapshot) == made, "a hit makes it the newest"

    cache.store(sources[3], MAX_TOTAL_BYTES, snapshot, made)
    assert [bool(cache.find(source, MAX_TOTAL_BYTES, snapshot)) for source in sources] == [
        True,
        False,
        True,
        True,
    ]

    monkeypatch.setattr(archive_cache, "MAX_BYTES", 10)
    cache.store(sources[1], MAX_TOTAL_BYTES, snapshot, made)
    assert not list((tmp_path / "cache").iterdir())
    assert NO_CACHE.find(sources[0], MAX_TOTAL_BYTES, snapshot) is None
