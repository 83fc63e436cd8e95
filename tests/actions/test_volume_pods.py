"""Volumes in running pods: which pod opens one, and what is read there."""

import os
import signal
import subprocess
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path, PurePosixPath
from time import monotonic, sleep

import pytest

from kubectl_sky.cli.volume_pods import reader_task
from kubectl_sky.cluster import exec as executing
from kubectl_sky.cluster.exec import Pipes, Program
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import UserError
from kubectl_sky.observe.mounts import BucketMount
from kubectl_sky.tasks import find, volume_pods
from kubectl_sky.tasks.find import Scope
from kubectl_sky.tasks.volume_pods import VolumePod
from kubectl_sky.words.pod_objects import EnvVar, PodTemplate, TaskContainer, Volume
from tests.actions.conftest import Submitter
from tests.builders import ID
from tests.fake_cluster import FakeCluster


@pytest.fixture
def pod(api: FakeCluster) -> VolumePod:
    return VolumePod(api.session(), "default", "train-0", PurePosixPath("/volume"))


@pytest.fixture(autouse=True)
def _claim(api: FakeCluster) -> None:
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "results"}}
    api.put(claim)


@pytest.mark.parametrize("writes", [False, True])
def test_pod_with_read_only_mount_is_used_only_to_read(
    send: Submitter, api: FakeCluster, writes: bool
) -> None:
    send("name: train\nvolumes: {/data: {name: results, mode: ro}}\nrun: x\n")
    api.start(f"train-{ID}")
    scope = Scope("default", None)
    pod = volume_pods.find_pod(api.session(), scope, "results", writes=writes)
    assert (pod is None) is writes


def test_reader_of_another_client_is_not_used(send: Submitter, api: FakeCluster) -> None:
    send("name: volume-reader\nvolumes: {/volume: results}\nrun: x\n")
    api.start(f"volume-reader-{ID}")
    scope = Scope("default", None)
    assert volume_pods.find_pod(api.session(), scope, "results") is None
    reader = find.get_task(api.session(), scope, ID)
    assert volume_pods.pod_of_reader(api.session(), reader, "/volume").pod


@pytest.mark.parametrize("path", ["../x", "/a/../../x", ".."])
def test_path_that_leaves_the_volume_is_refused(pod: VolumePod, path: str) -> None:
    with pytest.raises(UserError, match="cannot have"):
        pod.path(path)


def test_path_of_a_folder_on_the_volume_stays_one(pod: VolumePod) -> None:
    assert pod.path("new/") == f"{pod.path('new')}/"


def test_folders_that_cannot_be_measured_are_noted(
    pod: VolumePod, monkeypatch: pytest.MonkeyPatch
) -> None:
    def execute(session: Session, program: Program, pipes: Pipes) -> int:
        pipes.stdout(b"4\t.\n")
        pipes.stderr(b"du: ./private: Permission denied\n")
        return 1

    monkeypatch.setattr(executing, "run", execute)
    notes: list[str] = []
    (usage,) = pod.measure("", notes.append)
    assert usage.bytes == 4096
    assert notes == ["warning: cannot read all of /: du: ./private: Permission denied"]


def test_du_may_read_for_longer_than_other_programs_without_a_byte(
    pod: VolumePod, monkeypatch: pytest.MonkeyPatch
) -> None:
    idle: list[float | None] = []

    def execute(session: Session, program: Program, pipes: Pipes) -> int:
        idle.append(pipes.idle)
        return 0

    monkeypatch.setattr(executing, "run", execute)
    pod.list_files("", print)
    pod.measure("", print)
    assert idle == [120, 3600]


@pytest.mark.parametrize("program", ["dd", "du", "find", "tail", "tar"])
def test_reader_stays_while_a_program_goes_on_at_the_volume(tmp_path: Path, program: str) -> None:
    script = reader_task("results", writes=True)["run"]
    script = script.replace("sleep 10", "sleep 0.05").replace("/proc", str(tmp_path))
    folder = tmp_path / "7"
    folder.mkdir()
    (folder / "comm").write_text(f"{program}\n")

    with subprocess.Popen(["sh", "-c", script]) as process:
        until = monotonic() + 2
        while monotonic() < until:
            (folder / "io").write_text(f"wchar: {monotonic()}\n")
            sleep(0.01)
        assert process.poll() is None
        assert process.wait(30) == 0, "it blocks, as after a lost connection"


COPIER = """#!/bin/sh
[ "$1 $2 $3" = "--config  copyto" ] || exit 2
for word; do source=$target target=$word; done
case $source in
*/slow) exec sleep 5 ;;
SRC:*) cp -r "$STORE/${source#SRC:}" "$target" ;;
esac
"""
DF = """#!/bin/sh
echo "Filesystem 1024-blocks Used Available Capacity Mounted on"
echo "disk 100 0 $(cat "$STORE/free") 0% /"
"""


Download = Callable[[str], None]


@pytest.fixture
def download(api: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Download:
    """Download a path of a bucket in a shell; the folder of the pod is `bucket`."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in {"copier": COPIER, "df": DF}.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    (tmp_path / "free").write_text("50")
    (tmp_path / "data" / "out" / "run7").mkdir(parents=True)
    (tmp_path / "data" / "out" / "run7" / "log").write_text("ok")

    def execute(session: Session, program: Program, pipes: Pipes) -> int:
        env = {"STORE": str(tmp_path), "PATH": f"{programs}:{os.defpath}"}
        done = subprocess.run(program.command, env=env, capture_output=True, check=False)
        pipes.stderr(done.stderr)
        return done.returncode

    monkeypatch.setattr(executing, "run", execute)
    variables = {
        "KUBECTL_SKY_SOURCE": "s3://data/out",
        "KUBECTL_SKY_LOCATION": "data/out",
        "KUBECTL_SKY_PROGRAM": "copier",
        "KUBECTL_SKY_SYNC": "all",
    }
    env = tuple(EnvVar(name=name, value=value) for name, value in variables.items())
    bucket = BucketMount("/out", PodTemplate(), Volume(), TaskContainer(env=env))
    pod = VolumePod(api.session(), "default", "train-0", PurePosixPath(tmp_path / "bucket"))
    return lambda path: pod.download(bucket, path, print)


@pytest.mark.parametrize(
    ("path", "reason"), [("run7", ""), ("run7/log", ""), ("nope", "No such file or directory")]
)
def test_path_of_a_bucket_is_downloaded_to_the_same_path_of_the_pod(
    download: Download, tmp_path: Path, path: str, reason: str
) -> None:
    with nullcontext() if not reason else pytest.raises(UserError, match=reason):
        download(path)
    assert (tmp_path / "bucket" / path).exists() is (not reason)


def test_download_of_a_bucket_stops_when_the_disk_is_almost_full(
    download: Download, tmp_path: Path
) -> None:
    (tmp_path / "free").write_text("14")
    (tmp_path / "data" / "out" / "slow").mkdir()
    with pytest.raises(UserError, match="the disk of the cluster node is almost full"):
        download("slow")


def test_download_of_a_bucket_after_a_lost_connection_ends_the_earlier_program(
    download: Download, tmp_path: Path
) -> None:
    (tmp_path / "bucket").mkdir()
    with subprocess.Popen(["sleep", "60"]) as earlier:
        (tmp_path / "bucket" / "run7.pid").write_text(f"{earlier.pid}\n")
        try:
            download("run7")
            assert earlier.wait(timeout=10) == -signal.SIGKILL
        finally:
            earlier.kill()
