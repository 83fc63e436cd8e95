"""What `cp` sends, and what it keeps of what a node sends."""

import io
import os
import socket
import tarfile
from pathlib import Path

import pytest

from kubectl_sky.errors import UserError
from kubectl_sky.sync.copying import packed, unpack


def made(*members: tuple[str, bytes, dict[str, object]]) -> io.BytesIO:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for name, content, fields in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            for field, value in fields.items():
                setattr(info, field, value)
            tar.addfile(info, io.BytesIO(content))
    stream.seek(0)
    return stream


def test_there_and_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, notes = tmp_path / "from", list[str]()
    (source / "deep" / "empty").mkdir(parents=True)
    (source / "a b\n☃").write_bytes(os.urandom(70_000))
    (source / ("n" * 200)).write_text("long")
    (source / "tool").write_text("#!/bin/sh")
    (source / "tool").chmod(0o755)
    (source / "link").symlink_to("tool")
    with socket.socket(socket.AF_UNIX) as line:
        monkeypatch.chdir(source)  # names of sockets are short
        line.bind("sock")
    stream = io.BytesIO(b"".join(packed(source, "base", notes.append)))
    assert notes == ["left out, as it is neither file nor folder: from/sock"]
    (tmp_path / "to").mkdir()
    assert unpack(stream, tmp_path / "to", ("base", "new"), notes.append) == 7
    target = tmp_path / "to" / "new"
    assert (target / "a b\n☃").read_bytes() == (source / "a b\n☃").read_bytes()
    assert (target / "deep" / "empty").is_dir() and (target / ("n" * 200)).exists()
    assert (target / "link").readlink() == Path("tool")
    assert (target / "tool").stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("../evil", {}),
        ("/etc/evil", {}),
        ("base/../../evil", {}),
        ("other", {}),
        ("base/l", {"type": tarfile.SYMTYPE, "linkname": "../../evil"}),
        ("base/l", {"type": tarfile.SYMTYPE, "linkname": "../beside"}),
        ("base/l", {"type": tarfile.SYMTYPE, "linkname": "/etc/passwd"}),
        ("base/l", {"type": tarfile.LNKTYPE, "linkname": "../evil"}),
        ("base/d", {"type": tarfile.CHRTYPE}),
    ],
)
def test_nothing_is_written_outside(tmp_path: Path, name: str, fields: dict[str, object]) -> None:
    notes: list[str] = []
    (tmp_path / "to").mkdir()
    stream = made((name, b"", fields), ("base/good", b"x", {}))
    assert unpack(stream, tmp_path / "to", ("base", "base"), notes.append) == 1
    assert [note.partition(":")[0] for note in notes] == ["left out"]
    assert [str(path.relative_to(tmp_path)) for path in sorted(tmp_path.rglob("*"))] == [
        "to",
        "to/base",
        "to/base/good",
    ]


def test_no_whole_tar(tmp_path: Path) -> None:
    whole = made(("base", b"x" * 5000, {})).read()
    for part in (b"", b"no tar" * 100, whole[:2000]):
        with pytest.raises(UserError, match="no whole tar"):
            unpack(io.BytesIO(part), tmp_path, ("base", "base"), print)


def test_a_file_that_shrinks(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * 100_000)
    blocks = packed(tmp_path / "a", "a", print)
    next(blocks)
    (tmp_path / "a").write_bytes(b"")
    with pytest.raises(UserError, match="became shorter"):
        list(blocks)
