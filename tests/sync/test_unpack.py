"""unpack.sh in images with tar and gzip, with python3, or without both."""

import os
import select
import subprocess
from pathlib import Path

import pytest

from kubectl_sky.words import assets
from tests.sync.pods import Pod, packed


@pytest.mark.parametrize("tools", [("tar", "gzip"), ("python3",)])
def test_unpack_upload_writes_files(tmp_path: Path, tools: tuple[str, ...]) -> None:
    pod = Pod(tmp_path, *tools)
    pod.want()
    done = pod.unpack(packed())
    assert (done.returncode, done.stdout, done.stderr) == (0, b"send\n", b"")
    target = pod.place / "x y"
    assert (target.read_text(), oct(target.stat().st_mode)) == ("hello", "0o100751")
    assert (pod.room / "unpacked-000").exists()
    done = pod.unpack(b"")
    assert (done.returncode, done.stdout) == (0, b"unpacked\n")


@pytest.mark.parametrize("tools", [("tar", "gzip"), ("python3",)])
def test_unpack_into_bucket_keeps_its_files(tmp_path: Path, tools: tuple[str, ...]) -> None:
    pod = Pod(tmp_path, "find", *tools)
    pod.variables = {"KUBECTL_SKY_KEEP": "000 001"}
    pod.want()
    assert pod.unpack(packed()[:40]).returncode == 74
    assert list(pod.place.iterdir()) == []
    assert pod.unpack(packed()).returncode == 0
    target = pod.place / "x y"
    assert (target.read_text(), oct(target.stat().st_mode)) == ("hello", "0o100751")
    target.write_text("written by the task")
    (pod.room / "unpacked-000").unlink()
    assert pod.unpack(packed()).returncode == 0
    assert target.read_text() == "written by the task"


@pytest.mark.parametrize("tools", [("tar", "gzip"), ("python3",)])
@pytest.mark.parametrize("cut", [0, 40, -6])
def test_unpack_truncated_upload_can_be_retried(
    tmp_path: Path, tools: tuple[str, ...], cut: int
) -> None:
    pod = Pod(tmp_path, *tools)
    pod.want()
    done = pod.unpack(packed()[:cut])
    assert done.returncode == 74
    assert done.stderr.decode().endswith(f"upload of the files for {pod.place} interrupted\n")
    for state in ("unpacked", "uploading", "failed", "interrupted"):
        assert not (pod.room / f"{state}-000").exists()
    assert pod.unpack(packed()).returncode == 0, "a second upload succeeds"
    assert (pod.place / "x y").read_text() == "hello"


@pytest.mark.parametrize("tools", [("tar", "gzip"), ("python3",)])
def test_unpack_unwritable_target_fails_with_message(
    tmp_path: Path, tools: tuple[str, ...]
) -> None:
    pod = Pod(tmp_path, *tools)
    pod.want()
    (pod.place / "x y").mkdir()
    (pod.place / "x y" / "z").write_text("in the way")
    done = pod.unpack(packed())
    assert done.returncode == 1
    (line, *_) = (pod.room / "failed-000").read_text().splitlines()
    assert "x y" in line
    assert "exists" in line or "directory" in line


def test_unpack_without_tar_and_python_fails_with_message(tmp_path: Path) -> None:
    pod = Pod(tmp_path)
    pod.want()
    done = pod.unpack(packed())
    assert done.stderr == b"the image has neither tar and gzip nor python3\n"
    assert (pod.room / "failed-000").read_text() == done.stderr.decode()


@pytest.mark.parametrize("whole", [True, False])
def test_unpack_second_upload_waits_for_first(tmp_path: Path, whole: bool) -> None:
    """The second upload waits for the first, and takes over if it breaks off."""
    pod = Pod(tmp_path, "tar", "gzip")
    first = pod.start()
    second = pod.start()
    assert first.stdout
    assert second.stdout

    pod.want()
    (out,) = select.select([first.stdout, second.stdout], [], [], 30)[0]
    taking, other = (first, second) if out is first.stdout else (second, first)
    sent = packed() if whole else packed()[:40]
    output, _ = taking.communicate(sent, timeout=60)
    expected_code = 0 if whole else 74
    assert (output, taking.returncode) == (b"send\n", expected_code)

    output, _ = other.communicate(packed(), timeout=60)
    expected_output = b"unpacked\n" if whole else b"send\n"
    assert (output, other.returncode) == (expected_output, 0)
    assert (pod.place / "x y").read_text() == "hello"


@pytest.mark.parametrize("stale", ["unpacked-000", "failed-000", "uploading-000/"])
def test_entry_of_restarted_container_unpacks_files_again(tmp_path: Path, stale: str) -> None:
    """The volume outlives the container of a service; the folders of the image do not."""
    scripts, room, home = (tmp_path / name for name in ("scripts", "room", "home"))
    for folder in (scripts, room, home):
        folder.mkdir()
    for name in ("entry.sh", "files.sh", "unpack.sh"):
        (scripts / name).write_text(assets.read("runtime", name))
    (scripts / "files.txt").write_text("000 ~/sky_workdir\n")
    (scripts / "files-000-000").write_bytes(packed())
    (scripts / "run.sh").write_text("cat 'x y'\n")
    (room / "requested-000").write_text(f"{home}/sky_workdir\n")
    if stale.endswith("/"):
        (room / stale).mkdir()
    else:
        (room / stale).write_text("of an earlier container\n")

    done = run_entry(scripts, HOME=str(home), KUBECTL_SKY_FILES=str(room))
    assert (done.returncode, done.stdout, done.stderr) == (0, "hello", "")


@pytest.mark.parametrize("script", ["entry.sh", "start.sh"])
def test_entry_without_writable_home_starts_in_sky_workdir_of_scratch_volume(
    tmp_path: Path, script: str
) -> None:
    text = assets.read("runtime", script).replace("/etc/kubectl-sky", str(tmp_path))
    (tmp_path / "entry.sh").write_text(text.replace("=/kubectl-sky/user", f"={tmp_path}/user"))
    (tmp_path / "run.sh").write_text("pwd; echo $HOME\n")
    done = run_entry(tmp_path, HOME="/proc/none", KUBECTL_SKY_FILES=str(tmp_path))
    home = f"{tmp_path}/user"
    assert (done.stdout, done.stderr) == (f"{home}/sky_workdir\n{home}\n", "")


def run_entry(scripts: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", str(scripts / "entry.sh")],
        env={"PATH": os.environ["PATH"], "POD_IP": "10.0.0.1", **variables},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
