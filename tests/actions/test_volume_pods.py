"""Volumes in running pods: which pod opens one, and what is read there."""

from pathlib import PurePosixPath

import pytest

from kubectl_sky.cluster import exec as executing
from kubectl_sky.cluster.exec import Pipes, Program
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import UserError
from kubectl_sky.tasks import volume_pods
from kubectl_sky.tasks.find import Scope
from kubectl_sky.tasks.volume_pods import VolumePod
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


@pytest.mark.parametrize(("started", "is_used"), [("", False), (ID, True)])
def test_reader_of_another_client_is_not_used(
    send: Submitter, api: FakeCluster, started: str, is_used: bool
) -> None:
    send("name: volume-reader\nvolumes: {/volume: results}\nrun: x\n")
    api.start(f"volume-reader-{ID}")
    scope = Scope("default", None)
    pod = volume_pods.find_pod(api.session(), scope, "results", started=started)
    assert (pod is not None) is is_used


@pytest.mark.parametrize("path", ["../x", "/a/../../x", ".."])
def test_path_that_leaves_the_volume_is_refused(pod: VolumePod, path: str) -> None:
    with pytest.raises(UserError, match="cannot have"):
        pod.path(path)


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
