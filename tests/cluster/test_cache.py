"""Cached folders are complete, built once, and rebuilt after an interruption."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.cluster import cache

ROOT = Path(__file__).parent.parent.parent
MAKE_FOREVER = """
import pathlib, sys, time
from tests.cluster import cache
cache.ROOT = pathlib.Path(sys.argv[1])
def make(folder):
    (folder / "half").touch()
    print("making", flush=True)
    time.sleep(60)
cache.keep("thing", "1", make)
"""

OWN_FOREVER = """
import pathlib, sys, time
from tests.cluster import cache
cache.own(pathlib.Path(sys.argv[1]))
print("mine", flush=True)
time.sleep(60)
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(cache, "ROOT", tmp_path)
    return tmp_path


def test_keep_concurrent_calls_build_once(root: Path) -> None:
    made: list[Path] = []

    def make(folder: Path) -> None:
        made.append(folder)
        time.sleep(0.1)
        (folder / "whole").touch()

    threads = [threading.Thread(target=cache.keep, args=("thing", "1", make)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (cache.keep("thing", "1", make) / "whole").exists()
    assert len(made) == 1


def test_keep_failed_build_leaves_no_complete_folder(root: Path) -> None:
    def fail(folder: Path) -> None:
        (folder / "half").touch()
        raise ValueError

    with pytest.raises(ValueError):
        cache.keep("thing", "1", fail)
    assert not (root / "thing-1").exists()
    kept = cache.keep("thing", "1", lambda folder: (folder / "whole").touch())
    assert [path.name for path in kept.iterdir()] == ["whole"]


def test_keep_killed_build_is_removed(root: Path) -> None:
    command = [sys.executable, "-c", MAKE_FOREVER, str(root)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as maker:
        assert maker.stdout
        assert maker.stdout.readline() == b"making\n"
        assert list(root.glob(".thing-*"))
        maker.kill()
    kept = cache.keep("thing", "1", lambda folder: (folder / "whole").touch())
    assert [path.name for path in kept.iterdir()] == ["whole"]
    assert not list(root.glob(".thing-*"))


def test_keep_removes_old_versions_only(root: Path) -> None:
    for key in ("old", "recent"):
        cache.keep("thing", key, lambda folder: None)
    os.utime(root / "thing-old", (0, 0))
    cache.keep("thing", "new", lambda folder: None)
    assert {path.name for path in root.glob("thing-*")} == {"thing-recent", "thing-new"}


def test_owned_is_true_while_owner_lives(root: Path) -> None:
    file = root / "owner"
    assert not cache.owned(file)
    command = [sys.executable, "-c", OWN_FOREVER, str(file)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as owner:
        assert owner.stdout
        owner.stdout.readline()
        assert cache.owned(file)
        owner.send_signal(signal.SIGKILL)
    assert not cache.owned(file)
