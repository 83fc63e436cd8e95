"""What `cp` sends; what it keeps of what a node sends is in tests/attacks/test_copying.py."""

import io
import os
import socket
from pathlib import Path

import pytest

from kubectl_sky.errors import UserError
from kubectl_sky.sync.copying import packed
from kubectl_sky.sync.extract import extract


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
    stream = io.BytesIO(b"".join(packed(source, ".", notes.append)))
    assert notes == ["skipped, neither a file nor a folder: from/sock"]
    target = tmp_path / "new"
    extract(stream, target, notes.append)
    assert len(notes) == 1
    assert (target / "a b\n☃").read_bytes() == (source / "a b\n☃").read_bytes()
    assert (target / "deep" / "empty").is_dir() and (target / ("n" * 200)).exists()
    assert (target / "link").readlink() == Path("tool")
    assert (target / "tool").stat().st_mode & 0o777 == 0o755


def test_a_file_that_shrinks(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * 100_000)
    blocks = packed(tmp_path / "a", "a", print)
    next(blocks)
    (tmp_path / "a").write_bytes(b"")
    with pytest.raises(UserError, match="became shorter"):
        list(blocks)
