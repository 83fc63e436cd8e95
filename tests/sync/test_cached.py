"""Bytes in the user's cache: there as they were written, or not at all."""

from pathlib import Path

import pytest

from kubectl_sky.sync.cached import Kept


def test_there_as_written(tmp_path: Path) -> None:
    kept = Kept(tmp_path / "new", 3)
    assert kept.read("one") is None
    kept.write("one", b"\0data\n")
    assert kept.read("one") == b"\0data\n"
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "new" / "one").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("there", [b"", b"short", bytes(100)])
def test_what_was_changed_is_not_there(tmp_path: Path, there: bytes) -> None:
    (tmp_path / "one").write_bytes(there)
    assert Kept(tmp_path, 3).read("one") is None


def test_the_newest_stay(tmp_path: Path) -> None:
    kept = Kept(tmp_path, 2)
    for name in ("one", "two", "three"):
        kept.write(name, b"data")
    assert len(list(tmp_path.iterdir())) == 2


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    kept = Kept(tmp_path / "file", 3)
    kept.write("one", b"data")
    assert kept.read("one") is None
