"""Which running pod opens a volume."""

import pytest

from kubectl_sky.tasks import volume_pods
from kubectl_sky.tasks.find import Scope
from tests.actions.conftest import Submitter
from tests.builders import ID
from tests.fake_cluster import FakeCluster


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
