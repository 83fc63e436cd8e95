"""unpack.sh with a code cache volume."""

import gzip
import os
import time
from pathlib import Path

import pytest

from tests.sync.pods import HASH, KEPT, TOOLS, names, packed, pods


@pytest.mark.parametrize("tools", TOOLS)
def test_unpack_code_volume_serves_second_pod(tmp_path: Path, tools: tuple[str, ...]) -> None:
    first, second = pods(tmp_path, *tools)
    done = second.unpack(b"", "code-cache")
    assert (done.returncode, done.stdout, done.stderr) == (75, b"", b""), "not in the volume yet"
    done = first.unpack(packed())
    assert (done.returncode, done.stdout, done.stderr) == (0, b"send\n", b"")
    assert names(tmp_path / "code-cache" / KEPT) == [f"{HASH}.tar.gz"]
    assert (tmp_path / "code-cache" / KEPT / f"{HASH}.tar.gz").stat().st_mode & 0o777 == 0o644
    done = second.unpack(b"", "code-cache")
    assert (done.returncode, done.stderr) == (0, b"")
    for pod in (first, second):
        assert (pod.place / "x y").read_text() == "hello"
    assert second.unpack(b"").stdout == b"unpacked\n"


@pytest.mark.parametrize("tools", TOOLS)
def test_unpack_existing_archive_needs_no_upload(tmp_path: Path, tools: tuple[str, ...]) -> None:
    first, second = pods(tmp_path, *tools)
    assert first.unpack(packed()).returncode == 0
    done = second.unpack(b"never read")
    assert (done.returncode, done.stdout) == (0, b"")
    assert (second.place / "x y").read_text() == "hello"


@pytest.mark.parametrize("tools", TOOLS)
def test_unpack_damaged_archive_in_volume_is_replaced(
    tmp_path: Path, tools: tuple[str, ...]
) -> None:
    first, second = pods(tmp_path, *tools)
    file = tmp_path / "code-cache" / KEPT / f"{HASH}.tar.gz"
    file.parent.mkdir()
    file.write_bytes(gzip.compress(b"another's"))
    assert first.unpack(b"", "code-cache").returncode == 75
    file.write_bytes(packed()[:-8])  # without the checksum of gzip
    assert first.unpack(b"", "code-cache").returncode == 75
    done = second.unpack(packed())
    assert (done.returncode, done.stdout) == (0, b"send\n")
    assert gzip.decompress(file.read_bytes()) == gzip.decompress(packed())
    assert first.unpack(b"", "code-cache").returncode == 0, "the archive is repaired"


def test_unpack_without_sha256sum_uses_no_volume(tmp_path: Path) -> None:
    first, second = pods(tmp_path, *TOOLS[0])
    assert first.unpack(packed()).returncode == 0
    (second.bin / "sha256sum").unlink()
    assert second.unpack(b"", "code-cache").returncode == 75
    assert (tmp_path / "code-cache" / KEPT / f"{HASH}.tar.gz").exists()
    assert second.unpack(packed()).stdout == b"send\n"


@pytest.mark.parametrize("tools", TOOLS)
def test_unpack_truncated_upload_is_not_cached(tmp_path: Path, tools: tuple[str, ...]) -> None:
    first, _ = pods(tmp_path, *tools)
    assert first.unpack(packed()[:40]).returncode == 74
    assert names(tmp_path / "code-cache" / KEPT) == []


def test_unpack_missing_code_volume_still_unpacks(tmp_path: Path) -> None:
    first, _ = pods(tmp_path, *TOOLS[0])
    (first.room / "code-cache").unlink()
    (first.room / "code-cache").write_text("no folder")
    done = first.unpack(packed())
    assert (done.returncode, done.stdout, done.stderr) == (0, b"send\n", b"")
    assert (first.place / "x y").read_text() == "hello"


def test_unpack_full_code_volume_still_unpacks(tmp_path: Path) -> None:
    first, _ = pods(tmp_path, *TOOLS[0])
    (first.bin / "tee").unlink()
    (first.bin / "tee").write_text('#!/bin/sh\n: > "$1"; cat; exit 1\n')
    (first.bin / "tee").chmod(0o755)
    done = first.unpack(packed())
    assert (done.returncode, done.stdout, done.stderr) == (0, b"send\n", b"")
    assert (first.place / "x y").read_text() == "hello"
    assert names(tmp_path / "code-cache" / KEPT) == []


def test_unpack_unused_archives_are_deleted_after_a_month(tmp_path: Path) -> None:
    first, second = pods(tmp_path, *TOOLS[0])
    month = time.time() - 40 * 86_400
    (tmp_path / "code-cache" / KEPT).mkdir()
    for name in ("model.bin", f"{KEPT}/old.tar.gz", f"{KEPT}/.part"):
        (tmp_path / "code-cache" / name).touch()
        os.utime(tmp_path / "code-cache" / name, (month, month))
    assert first.unpack(packed()).returncode == 0
    file = tmp_path / "code-cache" / KEPT / f"{HASH}.tar.gz"
    assert names(file.parent) == [file.name]
    assert names(tmp_path / "code-cache") == [KEPT, "model.bin"], "foreign files are kept"
    os.utime(file, (month, month))
    assert second.unpack(b"", "code-cache").returncode == 0
    assert file.stat().st_mtime > time.time() - 60, "a use updates the time"


def test_unpack_archive_of_other_user_is_used(tmp_path: Path) -> None:
    first, second = pods(tmp_path, *TOOLS[0])
    assert first.unpack(packed()).returncode == 0
    (second.bin / "touch").unlink()
    (second.bin / "touch").symlink_to("/bin/false")  # like for a user who does not own the file
    assert second.unpack(b"", "code-cache").returncode == 0
    assert (second.place / "x y").read_text() == "hello"


def test_unpack_unwritable_target_with_code_volume_fails_with_message(tmp_path: Path) -> None:
    first, second = pods(tmp_path, *TOOLS[0])
    assert first.unpack(packed()).returncode == 0
    (second.place / "x y").mkdir()
    (second.place / "x y" / "z").write_text("in the way")
    assert second.unpack(b"", "code-cache").returncode == 1
    assert "x y" in (second.room / "failed-000").read_text()
    assert (tmp_path / "code-cache" / KEPT / f"{HASH}.tar.gz").exists()
