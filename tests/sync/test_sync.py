"""sync.sh writes new and changed files back to a store, here rclone's S3 server."""

import os
import re
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest

from kubectl_sky.words import assets
from tests.cluster import programs
from tests.cluster.shell import Broken, Unavailable, absent
from tests.polling import eventually

pytestmark = [pytest.mark.tools, pytest.mark.builds("rclone")]

KEYS = {"AWS_ACCESS_KEY_ID": "AKID", "AWS_SECRET_ACCESS_KEY": "s3cr3tk3y"}


@dataclass
class Bucket:
    """The prefix `box/p` of a store, and the folder of a node that is in sync with it."""

    folder: Path
    program: Path
    port: int
    server: subprocess.Popen[bytes] | None = None
    variables: dict[str, str] = field(default_factory=dict)
    shell: tuple[str, ...] = ("/bin/sh",)

    @property
    def data(self) -> Path:
        return self.folder / "node" / "data"

    @property
    def state(self) -> Path:
        return self.folder / "node" / "sync"

    def stored(self, name: str) -> str | None:
        path = self.folder / "store" / "box" / "p" / name
        return path.read_text() if path.exists() else None

    @property
    def names(self) -> list[str]:
        """The names of the files on the node."""
        return sorted(path.name for path in self.data.iterdir())

    @property
    def sizes(self) -> dict[str, int]:
        """The sizes of the stored files."""
        folder = self.folder / "store" / "box" / "p"
        return {path.name: path.stat().st_size for path in folder.iterdir()}

    def store(self, name: str, size: int, day: int = 1) -> None:
        """Store a sparse file, written on a day of last year."""
        path = self.folder / "store" / "box" / "p" / name
        with path.open("wb") as file:
            file.truncate(size)
        time = datetime(2025, 1, day, tzinfo=UTC).timestamp()
        os.utime(path, (time, time))

    def replace_node(self) -> None:
        shutil.rmtree(self.folder / "node")
        (self.folder / "node").mkdir()

    def run(self, *arguments: str, **variables: str) -> subprocess.Popen[str]:
        """Start fetch.sh as its container does."""
        remote = {
            "TYPE": "s3",
            "PROVIDER": "Rclone",
            "ENV_AUTH": "true",
            "ENDPOINT": f"http://127.0.0.1:{self.port}",
        }
        environment = {
            "PATH": os.environ["PATH"],
            "KUBECTL_SKY_SOURCE": "s3://box/p",
            "KUBECTL_SKY_SCRATCH": str(self.folder / "node"),
            "KUBECTL_SKY_PROGRAM": str(self.program),
            "KUBECTL_SKY_LOCATION": "box/p",
            "KUBECTL_SKY_PREFIX": "p",
            "KUBECTL_SKY_SYNC": "all",
            **{f"RCLONE_CONFIG_SRC_{name}": value for name, value in remote.items()},
            **KEYS,
            **self.variables,
            **variables,
        }

        return subprocess.Popen(
            [*self.shell, str(self.folder / "scripts" / "fetch.sh"), *arguments],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="surrogateescape",
            start_new_session=True,
        )

    def download(self, **variables: str) -> tuple[int, str]:
        process = self.run(**variables)
        output, _ = process.communicate(timeout=60)
        return process.returncode, output

    @contextmanager
    def sidecar(self, **variables: str) -> Iterator[subprocess.Popen[str]]:
        process = self.run("sync", **variables)
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()

    def replace_program(self, name: str, script: str) -> str:
        """Write a program that stands before $real; return the PATH with it."""
        stand_in = self.folder / "bin"
        stand_in.mkdir(exist_ok=True)
        real = self.program if name == "rclone" else shutil.which(name)
        (stand_in / name).write_text(f"#!/bin/sh\nreal={real}\n{script}\n")
        (stand_in / name).chmod(0o755)
        return f"{stand_in}:{os.environ['PATH']}"

    def end(self) -> str:
        """End the task as its node does; return the answer of the sidecar."""
        answer = self.state / "answer"
        answer.unlink(missing_ok=True)
        (self.state / "ended").touch()
        eventually(answer.exists, 60)
        return answer.read_text(errors="surrogateescape").strip()


def replace_interval(folder: Path) -> None:
    script = folder / "sync.sh"
    text = script.read_text()
    assert "\ninterval=60 " in text
    script.write_text(text.replace("\ninterval=60 ", "\ninterval=1 "))


@pytest.fixture
def bucket(tmp_path: Path) -> Iterator[Bucket]:
    """A bucket with one file, and a script that writes back every second."""
    try:
        program = programs.path("rclone")
    except (Broken, Unavailable, OSError) as error:
        absent(f"NO RCLONE: {error}")

    (tmp_path / "scripts").mkdir()
    (tmp_path / "node").mkdir()
    for name in ("fetch.sh", "sync.sh"):
        (tmp_path / "scripts" / name).write_text(assets.read("runtime", name))
    replace_interval(tmp_path / "scripts")
    (tmp_path / "store" / "box" / "p").mkdir(parents=True)
    (tmp_path / "store" / "box" / "p" / "old").write_text("old")

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]

    address = f"127.0.0.1:{port}"
    key = "AKID,s3cr3tk3y"
    serve = [str(program), "--config", "", "serve", "s3", "--addr", address, "--auth-key", key]
    serve += ["--etag-hash", "none", str(tmp_path / "store")]  # the sparse files are large
    server = subprocess.Popen(serve, stderr=subprocess.DEVNULL)
    eventually(lambda: _listens(port))
    yield Bucket(tmp_path, program, port, server)
    server.kill()
    server.wait()


def _listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


def test_sync_new_changed_and_renamed_files_are_written_back(bucket: Bucket) -> None:
    assert bucket.download() == (0, "copied s3://box/p\n")
    (bucket.data / "same").write_text("same")
    with bucket.sidecar():
        (bucket.data / "a, b").write_text("new")
        (bucket.data / "old").write_text("changed")
        eventually(lambda: bucket.stored("old") == "changed", 60)
        os.utime(bucket.data / "a, b", (1, 1))
        (bucket.data / "a, b").rename(bucket.data / "older than all")
        (bucket.data / "link").symlink_to("old")
        eventually(lambda: bucket.stored("older than all") == "new", 60)
        (bucket.data / "old").unlink()
        (bucket.data / "last").write_text("last")
        assert bucket.end() == ""
    assert (bucket.stored("last"), bucket.stored("old")) == ("last", "changed")

    bucket.replace_node()
    code, output = bucket.download()
    assert code == 0, output
    assert (bucket.data / "link").readlink() == Path("old")


def test_sync_sigterm_writes_files_back_and_exits(bucket: Bucket) -> None:
    bucket.download()
    with bucket.sidecar() as sidecar:
        eventually((bucket.state / "alive").exists, 60)  # so the trap is set
        (bucket.data / "last").write_text("last")
        sidecar.terminate()
        assert sidecar.wait(60) == 0
    assert bucket.stored("last") == "last"


def test_sync_killed_in_upload_keeps_old_file_and_writes_new_one_after_restart(
    bucket: Bucket,
) -> None:
    bucket.download()
    large = "x" * 3_000_000
    with bucket.sidecar(RCLONE_BWLIMIT="100k"):
        (bucket.data / "old").write_text(large)
        eventually(lambda: (bucket.state / "alive").exists(), 60)
        eventually(lambda: " 1 file, 3.0 MB" in (bucket.state / "alive").read_text(), 60)
    assert bucket.stored("old") != large
    with bucket.sidecar():
        assert bucket.end() == ""
    assert bucket.stored("old") == large


@pytest.mark.parametrize(
    ("variables", "expected_code", "cause"),
    [
        ({"AWS_SECRET_ACCESS_KEY": "wrong"}, 78, "SignatureDoesNotMatch"),
        ({"RCLONE_CONFIG_SRC_ENDPOINT": "http://127.0.0.1:9"}, 1, "connection refused"),
    ],
)
def test_sync_store_that_refuses_is_told_with_cause(
    bucket: Bucket, variables: Mapping[str, str], expected_code: int, cause: str
) -> None:
    code, output = bucket.download(**variables)
    assert (
        code == expected_code
        and output.startswith("s3://box/p could not be copied: ")
        and cause in output
    )
    assert "RequestID" not in output
    assert bucket.download()[0] == 0

    with bucket.sidecar(**variables):
        for name in "123":
            (bucket.data / name).write_bytes(b"x" * 400_000)
        eventually((bucket.state / "message").exists, 60)
        message = (bucket.state / "message").read_text()
        answer = bucket.end()
    for text in (message, answer):
        refused = re.match(
            r"3 files, 1.2 MB not written back to s3://box/p \(. and 2 more\): ", text
        )
        assert refused, text
    assert cause in answer and cause in message


def test_sync_more_than_the_disk_is_refused_for_good(bucket: Bucket) -> None:
    bucket.store("large", size=2000)
    code, output = bucket.download(KUBECTL_SKY_DISK="1000")
    assert (code, bucket.names) == (78, [])
    assert output == (
        "s3://box/p has 2.0 kB to download, and the disk has room for 1.0 kB: set download: newest"
        " in config.kubectl_sky.sync\n"
    )


NEWEST = {"KUBECTL_SKY_SYNC": "newest", "KUBECTL_SKY_DISK": "1000"}  # half of it is used


def make_checkpoints(bucket: Bucket) -> None:
    """Store 5 GB, of which 410 bytes are new."""
    for step in range(1, 6):
        bucket.store(f"step-{step}", size=1_000_000_000, day=step)
    bucket.store("step-6", size=200, day=6)
    bucket.store("step-7", size=200, day=7)
    bucket.store("old", size=10, day=8)


def test_sync_newest_files_that_fit_are_downloaded_and_others_kept(bucket: Bucket) -> None:
    make_checkpoints(bucket)
    assert bucket.download(**NEWEST) == (0, "copied s3://box/p\n")
    assert bucket.names == ["old", "step-6", "step-7"]
    assert (bucket.state / "message").read_text() == (
        "s3://box/p: 3 files, 410 bytes downloaded; 5 files, 5.0 GB only in the bucket\n"
    )
    (bucket.data / "step-1").touch()  # a program that asks whether it is writable
    (bucket.data / "step-2").write_text("new")
    (bucket.data / "step-3").touch()
    (bucket.data / "step-7").unlink()
    with bucket.sidecar(KUBECTL_SKY_DELETE="yes"):
        eventually(lambda: bucket.stored("step-2") == "new", 60)
        (bucket.data / "step-3").unlink()
        (bucket.data / "step-4").touch()
        (bucket.data / "empty").touch()
        assert bucket.end() == ""
    assert bucket.sizes == {
        "empty": 0,
        "old": 10,
        "step-1": 1_000_000_000,
        "step-2": 3,
        "step-3": 1_000_000_000,
        "step-4": 1_000_000_000,
        "step-5": 1_000_000_000,
        "step-6": 200,
    }
    summary = (bucket.state / "summary").read_text()
    assert summary == "s3://box/p has 8 files, 4.0 GB\n"


@pytest.mark.parametrize(
    ("variables", "files"),
    [
        ({"KUBECTL_SKY_SYNC": "none"}, []),
        ({"KUBECTL_SKY_INCLUDE": "step-[67]\nold"}, ["old", "step-6", "step-7"]),
        (NEWEST | {"KUBECTL_SKY_INCLUDE": "step-*"}, ["step-6", "step-7"]),
    ],
)
def test_sync_downloads_what_is_chosen(
    bucket: Bucket, variables: Mapping[str, str], files: list[str]
) -> None:
    make_checkpoints(bucket)
    code, output = bucket.download(**variables)
    assert code == 0, output
    assert bucket.names == files
    with bucket.sidecar(KUBECTL_SKY_DELETE="yes"):
        (bucket.data / "out").write_text("out")
        assert bucket.end() == ""
    assert (len(bucket.sizes), bucket.stored("out")) == (9, "out")


def test_sync_killed_in_each_phase_loses_nothing(bucket: Bucket) -> None:
    """As a pod that is replaced: the next one has an empty disk."""
    make_checkpoints(bucket)
    bucket.variables = NEWEST
    with bucket.sidecar(RCLONE_BWLIMIT="1k"):
        pass  # killed before there is anything

    download = bucket.run(RCLONE_BWLIMIT="100")
    eventually(lambda: (bucket.state / "names").exists(), 60)
    os.killpg(download.pid, signal.SIGKILL)
    download.communicate()
    bucket.replace_node()

    for number, slow in enumerate(({}, {"RCLONE_BWLIMIT": "100k"})):
        assert bucket.download()[0] == 0
        with bucket.sidecar(**slow) as sidecar:
            (bucket.data / f"step-{number + 8}").write_text("x" * 150 * (number + 1))
            eventually(lambda: (bucket.state / "alive").exists(), 60)
            if slow:
                (bucket.data / "step-10").write_bytes(b"x" * 3_000_000)
                sidecar.terminate()
                eventually(lambda: "3.0 MB" in (bucket.state / "alive").read_text(), 60)
            else:
                eventually(lambda: bucket.stored("step-8"), 60)
        bucket.replace_node()

    assert bucket.download()[0] == 0
    assert {"step-8", "step-9"} & set(bucket.names)
    assert bucket.sizes["step-8"] == 150
    assert all(bucket.sizes[f"step-{step}"] == 1_000_000_000 for step in range(1, 6))
    assert "step-10" not in bucket.sizes


def test_sync_deletions_reach_the_bucket_after_the_new_files(bucket: Bucket) -> None:
    bucket.download()
    with bucket.sidecar(KUBECTL_SKY_DELETE="yes"):
        (bucket.data / "new").write_text("new")
        eventually(lambda: bucket.stored("new"), 60)
        bucket.store("of another node", size=1)
        (bucket.data / "new").rename(bucket.data / "re\nnamed")
        (bucket.data / "old").unlink()
        eventually(lambda: bucket.stored("old") is None, 60)
        bucket.store("old", size=5)  # again, by another node
        (bucket.data / "last").write_text("last")
        assert bucket.end() == ""
    assert bucket.sizes == {"last": 4, "of another node": 1, "old": 5, "re\nnamed": 3}


def test_sync_deletion_that_the_store_refuses_is_told(bucket: Bucket) -> None:
    bucket.download()
    with bucket.sidecar(KUBECTL_SKY_DELETE="yes", AWS_SECRET_ACCESS_KEY="wrong"):
        (bucket.data / "old").unlink()
        answer = bucket.end()
    assert answer.startswith("1 file, 3 bytes not deleted from s3://box/p: "), answer
    assert bucket.stored("old") == "old"


def test_sync_file_instead_of_folder_is_refused(bucket: Bucket) -> None:
    place = {"KUBECTL_SKY_SOURCE": "s3://box/p/old", "KUBECTL_SKY_LOCATION": "box/p/old"}
    expected = "s3://box/p/old is a file, and only folders are synced: use mode: COPY\n"
    assert bucket.download(**place) == (78, expected)


def test_sync_rclone_that_is_too_old_says_so(bucket: Bucket) -> None:
    path = bucket.replace_program("rclone", "echo 'rclone v1.60.1-DEV'")
    code, output = bucket.download(KUBECTL_SKY_PROGRAM="rclone", PATH=path)
    assert (code, output) == (
        78,
        "rclone 1.60 is too old: set a fetch_image with rclone 1.65 or newer in the settings\n",
    )


@pytest.mark.parametrize("prefix", ["", "/deep/er"])
def test_sync_missing_bucket_is_created_only_by_name(bucket: Bucket, prefix: str) -> None:
    place = {"KUBECTL_SKY_SOURCE": "s3://made", "KUBECTL_SKY_LOCATION": f"made{prefix}"}
    code, output = bucket.download(**place)
    assert (code, output) == (
        78,
        "s3://made could not be copied: Failed to lsf: error in ListJSON: directory not found\n",
    )
    assert bucket.download(**place, KUBECTL_SKY_CREATE="made")[0] == 0
    (bucket.data / "x").write_text("x")
    with bucket.sidecar(**place):
        assert bucket.end() == ""
    assert (bucket.folder / f"store/made{prefix}/x").read_text() == "x"


NAMES = (
    b"new\nline",
    b"x\nf;1;2;3;.",
    b"re\rturn",
    b"caf\xe9",
    b"tab\tx",
    "lit\u240ax\u240d".encode(),
    "quo\u201bte".encode(),
)


@pytest.mark.parametrize("name", NAMES[:-1])  # rclone doubles the last one when it downloads
def test_sync_name_that_no_line_holds_is_written_back_as_it_is(bucket: Bucket, name: bytes) -> None:
    bucket.download()
    folder = os.fsencode(bucket.data) + b"/in " + name
    Path(os.fsdecode(folder)).mkdir()
    path = folder + b"/" + name
    with bucket.sidecar():
        Path(os.fsdecode(path)).write_text("text")
        Path(os.fsdecode(folder), "link").symlink_to("target")
        assert bucket.end() == ""
    shutil.rmtree(bucket.data)
    shutil.rmtree(bucket.state)
    assert bucket.download()[0] == 0
    assert Path(os.fsdecode(path)).read_text() == "text"
    assert Path(os.fsdecode(folder), "link").readlink() == Path("target")


@pytest.mark.parametrize("name", NAMES)
def test_sync_name_that_no_line_holds_and_the_store_refuses_is_told(
    bucket: Bucket, name: bytes
) -> None:
    bucket.download()
    with bucket.sidecar(AWS_SECRET_ACCESS_KEY="wrong"):
        Path(os.fsdecode(os.fsencode(bucket.data) + b"/" + name)).write_text("important")
        answer = bucket.end()
    assert answer.startswith("1 file, 9 bytes not written back to s3://box/p ("), answer
    assert "SignatureDoesNotMatch" in answer


def test_sync_change_that_keeps_size_and_mtime_is_written_back(bucket: Bucket) -> None:
    bucket.download()
    path = bucket.data / "same"
    path.write_text("aaaa")
    os.utime(path, (1, 1))
    with bucket.sidecar():
        eventually(lambda: bucket.stored("same") == "aaaa")
        eventually(lambda: ";same" in (bucket.state / "known").read_text())
        path.write_text("bbbb")
        os.utime(path, (1, 1))
        eventually(lambda: bucket.stored("same") == "bbbb")
        assert bucket.end() == ""


def test_sync_folder_that_cannot_be_read_is_told(bucket: Bucket) -> None:
    bucket.download()
    (bucket.data / "gone").symlink_to("nowhere")
    path = bucket.replace_program("find", "echo 'find: ./x: Permission denied' >&2; exit 1")
    with bucket.sidecar(PATH=path):
        answer = bucket.end()
    assert answer == "the files for s3://box/p cannot be listed: find: ./x: Permission denied"


FULL_DISK = ("/bin/sh", "-c", 'trap "" XFSZ; ulimit -f 1; exec /bin/sh "$0" "$@"')  # 512 bytes
INCOMPLETE = "the files for s3://box/p cannot be listed: a list is incomplete: the disk may be full"


@pytest.mark.parametrize("awk", ["awk", "busybox awk"])
def test_sync_list_that_the_disk_has_no_room_for_deletes_nothing_and_is_told(
    bucket: Bucket, awk: str
) -> None:
    if not shutil.which(awk.split()[0]):
        pytest.skip(f"no {awk} on this machine")
    path = bucket.replace_program("awk", f'PATH=/usr/bin:/bin exec {awk} "$@"')
    for number in range(40):
        bucket.store(f"file-{number}", size=1)
    assert bucket.download()[0] == 0
    bucket.shell = FULL_DISK
    with bucket.sidecar(KUBECTL_SKY_DELETE="yes", PATH=path):
        assert bucket.end() == INCOMPLETE
    assert len(bucket.sizes) == 41


def test_sync_lists_that_cannot_be_compared_are_told(bucket: Bucket) -> None:
    bucket.download()
    fail = 'case "$*" in *left=*) exit 2 ;; esac; exec "$real" "$@"'
    with bucket.sidecar(PATH=bucket.replace_program("awk", fail)):
        (bucket.data / "new").write_text("new")
        assert bucket.end() == INCOMPLETE


def test_sync_file_that_the_first_list_misses_is_not_deleted(bucket: Bucket) -> None:
    """As a file that is renamed while its folder is read."""
    bucket.download()
    seen = bucket.folder / "seen"
    miss_once = f"""
case "$*" in *"type f"*) ;; *) exec "$real" "$@" ;; esac
test ! -e {seen} || exec "$real" "$@"
touch {seen}
"$real" "$@" | grep -v old"""
    with bucket.sidecar(KUBECTL_SKY_DELETE="yes", PATH=bucket.replace_program("find", miss_once)):
        assert bucket.end() == ""
    assert seen.exists()
    assert bucket.stored("old") == "old"


def test_sync_download_after_a_restart_keeps_newer_files_and_writes_them_back(
    bucket: Bucket,
) -> None:
    bucket.download()
    (bucket.data / "result.pt").write_text("result")
    (bucket.data / "old").write_text("newer")
    assert bucket.download() == (0, "s3://box/p was copied before\n")
    with bucket.sidecar():
        assert bucket.end() == ""
    assert (bucket.stored("result.pt"), bucket.stored("old")) == ("result", "newer")


def test_sync_bucket_list_that_cannot_be_sorted_fails_the_download(bucket: Bucket) -> None:
    path = bucket.replace_program("sort", "echo 'sort: write failed' >&2; exit 2")
    assert bucket.download(PATH=path) == (1, "s3://box/p could not be copied: sort: write failed\n")


def test_sync_object_deleted_while_it_is_copied_does_not_fail_for_good(bucket: Bucket) -> None:
    missing = "operation error S3: GetObject, StatusCode: 404, NoSuchKey"
    script = f'case "$*" in *" copy "*) echo "{missing}"; exit 1 ;; esac; exec "$real" "$@"'
    path = bucket.replace_program("rclone", script)
    code, output = bucket.download(KUBECTL_SKY_PROGRAM="rclone", PATH=path)
    assert (code, output) == (1, f"s3://box/p could not be copied: {missing}\n")


def test_sync_size_of_a_long_list_is_not_asked(bucket: Bucket) -> None:
    bucket.download()
    (bucket.state / "bucket").write_text(";2025-01-01 00:00:00;1;x\n" * 10_001)
    with bucket.sidecar():
        assert bucket.end() == ""
    assert not (bucket.state / "summary").exists()
