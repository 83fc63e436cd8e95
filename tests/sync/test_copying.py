"""Archives that `cp` sends; tests/attacks/test_copying.py covers extraction."""

import io
import os
import socket
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kubectl_sky.errors import UserError
from kubectl_sky.sync import archive
from kubectl_sky.sync.archive import Note, parts
from kubectl_sky.sync.extract import extract


def packed(source: Path, name: str, note: Note) -> Iterator[bytes]:
    """Yield the tar of what has only small files."""
    (part,) = parts(source, name, note)
    return part.blocks()


@pytest.mark.parametrize("mode", [0o644, 0o444])
def test_parts_of_large_files_can_be_written_in_any_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int
) -> None:
    monkeypatch.setattr(archive, "PART_BYTES", 2 << 20)
    source = tmp_path / "from"
    source.mkdir()
    (source / "big").write_bytes(os.urandom(5_000_000))
    (source / "big").chmod(mode)
    (source / "more").write_bytes(bytes(1_500_000))
    (source / "rest").write_bytes(bytes(1_500_000))

    first, *others = parts(source, ".", print)
    tars = [part for part in others if not part.file]
    pieces = [part for part in others if part.file]
    assert (len(tars), len(pieces)) == (0, 3)
    target = tmp_path / "to"
    extract(io.BytesIO(b"".join(first.blocks())), target, print)
    assert [part.seals for part in pieces] == [False, False, mode == 0o444]
    for part in [pieces[2], pieces[0], pieces[1], pieces[1]]:
        assert part.file == "big"
        with (target / "big").open("r+b") as file:
            file.seek(part.offset)
            file.write(b"".join(part.blocks()))
    assert (target / "big").read_bytes() == (source / "big").read_bytes()
    assert (target / "rest").stat().st_size == 1_500_000


def test_large_file_that_is_replaced_between_its_parts_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "PART_BYTES", 1 << 20)
    (tmp_path / "big").write_bytes(bytes(2 << 20))
    _, first, second = parts(tmp_path / "big", "big", print)
    with (tmp_path / "big").open("ab") as file:
        file.write(b"more")
    assert len(b"".join(first.blocks())) == 1 << 20

    (tmp_path / "new").write_bytes(bytes(2 << 20))
    (tmp_path / "new").replace(tmp_path / "big")
    with pytest.raises(UserError, match="big changed while it was being read"):
        list(second.blocks())


def test_packed_folder_extracted_is_equal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "from"
    notes = list[str]()
    (source / "deep" / "empty").mkdir(parents=True)
    (source / "a b\n☃").write_bytes(os.urandom(70_000))
    (source / ("n" * 200)).write_text("long")
    (source / "tool").write_text("#!/bin/sh")
    (source / "tool").chmod(0o755)
    (source / "link").symlink_to("tool")
    with socket.socket(socket.AF_UNIX) as line:
        monkeypatch.chdir(source)  # names of sockets are short
        line.bind("sock")
    stream = io.BytesIO(b"".join(packed(source, ".", notes.append)))
    assert notes == ["skipped, neither a file nor a folder: from/sock"]

    target = tmp_path / "new"
    extract(stream, target, notes.append)
    assert len(notes) == 1
    assert (target / "a b\n☃").read_bytes() == (source / "a b\n☃").read_bytes()
    assert (target / "deep" / "empty").is_dir() and (target / ("n" * 200)).exists()
    assert (target / "link").readlink() == Path("tool")
    assert (target / "tool").stat().st_mode & 0o777 == 0o755


def test_packed_hard_links_become_copies(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    (tmp_path / "b").hardlink_to(tmp_path / "a")
    notes: list[str] = []
    data = b"".join(packed(tmp_path, ".", notes.append))
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        assert [(member.name, member.isreg()) for member in tar][1:] == [("a", True), ("b", True)]
    assert not notes


def test_packed_file_that_shrinks_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * (3 << 20))
    blocks = packed(tmp_path / "a", "a", print)
    next(blocks)
    (tmp_path / "a").write_bytes(b"")
    with pytest.raises(UserError, match="a changed while it was being read"):
        list(blocks)


def test_packed_file_that_grows_is_cut_at_first_size(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"x" * (2 << 20))
    blocks = packed(tmp_path / "log", "log", print)
    data = next(blocks)
    with (tmp_path / "log").open("ab") as file:
        file.write(b"more")
    data += b"".join(blocks)
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        assert [(member.name, member.size) for member in tar] == [("log", 2 << 20)]


def test_packed_file_that_disappears_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    (tmp_path / "b").write_text("x")
    blocks = packed(tmp_path, ".", print)
    next(blocks), next(blocks)
    (tmp_path / "b").unlink()
    with pytest.raises(UserError, match="b cannot be read: no such file or directory"):
        list(blocks)


def test_packed_invalid_utf8_names_are_kept(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"\xff")).write_text("x")
    data = b"".join(packed(tmp_path, "new", print))
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        assert [os.fsencode(member.name) for member in tar] == [b"new", b"new/\xff"]
