"""unpack.sh where a volume keeps the files: who puts them there, and who takes them."""

import gzip
import hashlib
import os
import time
from pathlib import Path

import pytest

from tests.sync.test_unpack import Pod, packed

TOOLS = [
    ("tar", "gzip", "sha256sum", "tee", "chmod", "touch", "find"),
    ("python3", "tee", "chmod", "touch", "find"),
]
HASH = hashlib.sha256(gzip.decompress(packed())).hexdigest()


def pods(root: Path, *tools: str) -> tuple[Pod, Pod]:
    """Two pods that want the same, with one shelf."""
    (root / "shelf").mkdir()
    made = []
    for name in ("a", "b"):
        (root / name).mkdir()
        pod = Pod(root / name, *tools)
        pod.want()
        (pod.room / "shelf").symlink_to(root / "shelf")
        (pod.script.parent / "shelf.txt").write_text(f"004 {HASH[::-1]}\n000 {HASH}\n")
        made.append(pod)
    return made[0], made[1]


def names(folder: Path) -> list[str]:
    return sorted(one.name for one in folder.iterdir())


@pytest.mark.parametrize("tools", TOOLS)
def test_sent_to_one_and_taken_by_the_other(tmp_path: Path, tools: tuple[str, ...]) -> None:
    one, other = pods(tmp_path, *tools)
    done = other.unpack(b"", "shelf")
    assert (done.returncode, done.stdout, done.stderr) == (75, b"", b""), "not there yet"
    done = one.unpack(packed())
    assert (done.returncode, done.stdout, done.stderr) == (0, b"send\n", b"")
    assert names(tmp_path / "shelf") == [f"{HASH}.tar.gz"]
    assert (tmp_path / "shelf" / f"{HASH}.tar.gz").stat().st_mode & 0o777 == 0o644
    done = other.unpack(b"", "shelf")
    assert (done.returncode, done.stderr) == (0, b"")
    for pod in (one, other):
        assert (pod.place / "x y").read_text() == "hello"
    assert other.unpack(b"").stdout == b"arrived\n"


@pytest.mark.parametrize("tools", TOOLS)
def test_whoever_sends_is_told_that_it_is_there(tmp_path: Path, tools: tuple[str, ...]) -> None:
    one, other = pods(tmp_path, *tools)
    assert one.unpack(packed()).returncode == 0
    done = other.unpack(b"never read")
    assert (done.returncode, done.stdout) == (0, b"")
    assert (other.place / "x y").read_text() == "hello"


@pytest.mark.parametrize("tools", TOOLS)
def test_what_is_not_what_it_should_be_is_not_taken(tmp_path: Path, tools: tuple[str, ...]) -> None:
    one, other = pods(tmp_path, *tools)
    file = tmp_path / "shelf" / f"{HASH}.tar.gz"
    file.write_bytes(gzip.compress(b"another's"))
    assert one.unpack(b"", "shelf").returncode == 75
    assert not file.exists()
    file.write_bytes(packed()[:40])
    done = other.unpack(packed())
    assert (done.returncode, done.stdout) == (0, b"send\n")
    assert file.read_bytes() == packed()[: len(file.read_bytes())]
    assert one.unpack(b"", "shelf").returncode == 0, "it is whole again"


def test_an_image_that_cannot_tell_takes_nothing(tmp_path: Path) -> None:
    one, other = pods(tmp_path, *TOOLS[0])
    assert one.unpack(packed()).returncode == 0
    (other.bin / "sha256sum").unlink()
    assert other.unpack(b"", "shelf").returncode == 75
    assert (tmp_path / "shelf" / f"{HASH}.tar.gz").exists()
    assert other.unpack(packed()).stdout == b"send\n"


@pytest.mark.parametrize("tools", TOOLS)
def test_what_broke_off_is_not_kept(tmp_path: Path, tools: tuple[str, ...]) -> None:
    one, _ = pods(tmp_path, *tools)
    assert one.unpack(packed()[:40]).returncode == 74
    assert names(tmp_path / "shelf") == []


def test_a_shelf_that_is_full_keeps_nothing_back(tmp_path: Path) -> None:
    one, _ = pods(tmp_path, *TOOLS[0])
    (one.room / "shelf").unlink()
    (one.room / "shelf").write_text("no folder: tee fails as with a full disk")
    done = one.unpack(packed())
    assert (done.returncode, done.stdout, done.stderr) == (0, b"send\n", b"")
    assert (one.place / "x y").read_text() == "hello"
    assert names(one.room) == [
        "arrived-000",
        "errors-000",
        "shelf",
        "unkept-000",
        "wanted-000",
    ]


def test_what_nobody_has_wanted_for_a_month_goes(tmp_path: Path) -> None:
    one, other = pods(tmp_path, *TOOLS[0])
    month = time.time() - 40 * 86_400
    for name in ("old.tar.gz", ".part"):
        (tmp_path / "shelf" / name).touch()
        os.utime(tmp_path / "shelf" / name, (month, month))
    assert one.unpack(packed()).returncode == 0
    file = tmp_path / "shelf" / f"{HASH}.tar.gz"
    assert names(tmp_path / "shelf") == [file.name]
    os.utime(file, (month, month))
    assert other.unpack(b"", "shelf").returncode == 0
    assert file.stat().st_mtime > time.time() - 60, "it was wanted"
