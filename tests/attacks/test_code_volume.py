"""Hostile writers of the code cache volume: unpack.sh locally and in a cluster."""

import gzip
import io
import os
import shutil
import tarfile
import time
from pathlib import Path

import pytest

from tests.e2e.code_volume import TASK, code, create_shared_volume, printed_hashes
from tests.e2e.command import Command
from tests.sync.pods import HASH, KEPT, TOOLS, Pod, names, packed, pods

__all__ = ["code"]
ARCHIVE = f"{HASH}.tar.gz"
both = pytest.mark.parametrize("tools", TOOLS)


def foreign() -> bytes:
    """Return an archive of another user."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as made:
        info = tarfile.TarInfo("x y")
        info.size = 4
        made.addfile(info, io.BytesIO(b"evil"))
    return out.getvalue()


def make(pod: Pod, tool: str, script: str) -> None:
    """Replace a program of a pod by a script that runs it afterwards."""
    real = shutil.which(tool)
    (pod.bin / tool).unlink()
    (pod.bin / tool).write_text(f'#!/bin/sh\n{script}\nexec {real} "$@"\n')
    (pod.bin / tool).chmod(0o755)


def refused(pod: Pod) -> bool:
    """Return whether a pod refuses the archive in the volume, and leaves no copy."""
    done = pod.unpack(b"", "code-cache")
    assert not (pod.room / "copy-000").exists()
    return done.returncode == 75 and not (pod.place / "x y").exists()


def test_code_volume_archive_changed_after_check_is_not_unpacked(tmp_path: Path) -> None:
    """The attacker acts right after the check."""
    first, second = pods(tmp_path, *TOOLS[0])
    assert first.unpack(packed()).returncode == 0
    archive = tmp_path / "code-cache" / KEPT / ARCHIVE
    evil = foreign()
    (tmp_path / "evil").write_bytes(evil)
    make(second, "touch", f"/bin/cp {tmp_path}/evil {archive}")
    assert second.unpack(b"", "code-cache").returncode == 0
    assert archive.read_bytes() == evil, "the archive was not changed"
    assert (second.place / "x y").read_text() == "hello"
    assert sorted(names(second.room)) == [
        "code-cache",
        "errors-000",
        "requested-000",
        "unpacked-000",
    ]


@both
@pytest.mark.parametrize("kind", ["link", "pipe", "folder", "device", "bomb", "endless"])
def test_code_volume_archive_that_is_no_regular_file_is_refused(
    tmp_path: Path, tools: tuple[str, ...], kind: str
) -> None:
    pod, _ = pods(tmp_path, *tools)
    archive = tmp_path / "code-cache" / KEPT / ARCHIVE
    archive.parent.mkdir()
    if kind == "link":  # even to the right file
        (tmp_path / "elsewhere").write_bytes(packed())
        archive.symlink_to(tmp_path / "elsewhere")
    elif kind == "pipe":
        os.mkfifo(archive)
    elif kind == "folder":
        archive.mkdir()
    elif kind == "device":
        archive.symlink_to("/dev/zero")
    elif kind == "bomb":
        archive.write_bytes(gzip.compress(bytes(5_000_000), 1) * 100)
    else:
        with archive.open("wb") as file:
            file.truncate(1 << 40)
    begun = time.monotonic()
    assert refused(pod)
    assert time.monotonic() - begun < 60


@both
def test_code_volume_linked_folder_is_neither_read_nor_written(
    tmp_path: Path, tools: tuple[str, ...]
) -> None:
    pod, _ = pods(tmp_path, *tools)
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    (private / ARCHIVE).write_bytes(packed())
    (private / "old").touch()
    os.utime(private / "old", (0, 0))
    (tmp_path / "code-cache" / KEPT).symlink_to(private)
    assert refused(pod)
    done = pod.unpack(packed())
    assert (done.returncode, done.stdout, done.stderr) == (0, b"send\n", b"")
    assert (pod.place / "x y").read_text() == "hello"
    assert names(private) == [ARCHIVE, "old"]
    assert private.stat().st_mode & 0o7777 == 0o700


@both
def test_code_volume_folder_replaced_by_link_is_not_followed(
    tmp_path: Path, tools: tuple[str, ...]
) -> None:
    pod, _ = pods(tmp_path, *tools)
    folder, private = tmp_path / "code-cache" / KEPT, tmp_path / "private"
    folder.mkdir()
    private.mkdir()
    (private / "old").touch()
    os.utime(private / "old", (0, 0))
    make(pod, "tee", f"/bin/mv {folder} {folder}.old; /bin/ln -s {private} {folder}")
    done = pod.unpack(packed())
    assert (done.returncode, done.stderr) == (0, b"")
    assert (pod.place / "x y").read_text() == "hello"
    assert names(private) == ["old"]


@both
@pytest.mark.parametrize("dangling", [True, False])
def test_code_volume_existing_link_is_not_written_through(
    tmp_path: Path, tools: tuple[str, ...], dangling: bool
) -> None:
    """Names of partial files can be guessed."""
    pod, _ = pods(tmp_path, *tools)
    folder, target = tmp_path / "code-cache" / KEPT, tmp_path / "authorized_keys"
    folder.mkdir()
    if not dangling:
        target.write_text("mine")
    # the number of the process is the last word of the name, and `mkdir` is called before
    make(pod, "mkdir", f"/bin/ln -sf {target} {folder}/.{HASH}-10.0.0.1--$PPID")
    done = pod.unpack(packed())
    assert (done.returncode, done.stdout, done.stderr) == (0, b"send\n", b"")
    assert target.exists() != dangling
    assert dangling or target.read_text() == "mine"
    assert names(folder) == []


@both
def test_code_volume_linked_archive_is_replaced(tmp_path: Path, tools: tuple[str, ...]) -> None:
    pod, _ = pods(tmp_path, *tools)
    folder, target = tmp_path / "code-cache" / KEPT, tmp_path / "target"
    folder.mkdir()
    target.write_text("mine")
    (folder / ARCHIVE).symlink_to(target)
    data = packed()
    assert pod.unpack(data).returncode == 0
    assert target.read_text() == "mine"
    assert not (folder / ARCHIVE).is_symlink()
    assert (folder / ARCHIVE).read_bytes() == data


NEIGHBOUR = """
name: neighbour
volumes: {{/mnt: code}}
resources: {{image_id: 'busybox:1.36'}}
run: |
  {script}
"""
ATTACKS = {
    "linked folder": "mv /mnt/.kubectl-sky /mnt/was; ln -s was /mnt/.kubectl-sky",
    "another file": "cd /mnt/.kubectl-sky; for f in *.gz; do echo evil | gzip > $f; done",
}


@pytest.mark.parametrize(
    "attack", ["linked folder", pytest.param("another file", marks=pytest.mark.practice_only)]
)
def test_code_volume_changed_by_other_task_gives_correct_files(
    sky: Command, tmp_path: Path, code: str, attack: str
) -> None:
    create_shared_volume(sky, tmp_path)
    text = TASK.replace("3", "1", 1)
    assert printed_hashes(sky("submit", "-", stdin=text).stdout) == [code]
    attacked = sky("submit", "-", stdin=NEIGHBOUR.format(script=ATTACKS[attack]))
    assert attacked.returncode == 0, attacked.stderr
    done = sky("submit", "-", stdin=text)
    assert done.returncode == 0, done.stderr
    assert printed_hashes(done.stdout) == [code]
