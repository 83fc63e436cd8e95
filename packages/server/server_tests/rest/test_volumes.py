"""Volumes and the cluster over HTTP."""

import pytest
from starlette.testclient import TestClient

from kubectl_sky.words import kinds
from server_tests.rest.conftest import ALICE, BOB, Client, bearer
from tests.fake_cluster import FakeCluster

DATA = {"name": "data-vol", "size": "10Gi", "storage_class": "standard"}


def test_volume_lifecycle_returns_specified_fields(alice: TestClient, cluster: FakeCluster) -> None:
    created = alice.post("/volumes/create", json=DATA).json()
    volume_id = created["volume_id"]
    assert created["status"] == "created"
    assert created["message"] == f"Volume created successfully with ID: {volume_id}"

    shown = alice.get(f"/volumes/{volume_id}").json()
    assert (shown["name"], shown["size"], shown["username"]) == ("data-vol", "10Gi", "alice")
    assert shown["access_modes"] == ["ReadWriteOnce"]

    claim = {"pvc_name": f"data-vol-{volume_id}", "namespace": "default"}
    assert shown["metadata"] == claim

    (listed,) = alice.get("/volumes").json()["volumes"]
    assert listed | {"used_by": []} == shown, "a list does not read what uses its volumes"
    assert "used_by" not in listed
    assert alice.delete(f"/volumes/{volume_id}").json() == {
        "volume_id": volume_id,
        "status": "deleted",
        "message": f"Volume {volume_id} deleted successfully",
    }
    assert alice.get(f"/volumes/{volume_id}").status_code == 404
    assert cluster.names() == []


def test_volume_of_other_user_is_not_found(client: Client) -> None:
    alice = client(bearer(ALICE))
    bob = client(bearer(BOB))
    volume_id = alice.post("/volumes/create", json=DATA).json()["volume_id"]
    assert bob.get("/volumes").json()["volumes"] == []
    assert bob.get(f"/volumes/{volume_id}").status_code == 404
    assert bob.delete(f"/volumes/{volume_id}").status_code == 404
    assert alice.get(f"/volumes/{volume_id}").status_code == 200


def test_volume_with_existing_name_is_refused(alice: TestClient) -> None:
    alice.post("/volumes/create", json=DATA)
    assert alice.post("/volumes/create", json=DATA).status_code == 409


def test_volume_in_use_is_deleted_only_with_force(alice: TestClient, cluster: FakeCluster) -> None:
    volume_id = alice.post("/volumes/create", json=DATA).json()["volume_id"]
    claim = {"name": "v", "persistentVolumeClaim": {"claimName": f"data-vol-{volume_id}"}}
    spec = {"containers": [{"name": "main"}], "volumes": [claim]}
    spec |= {"nodeName": "worker-1"}
    pod = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "user"}, "spec": spec}
    cluster.put(pod | {"status": {"phase": "Succeeded"}})
    answer = alice.delete(f"/volumes/{volume_id}")
    assert answer.status_code == 409
    assert "user" in answer.json()["detail"]

    pvc = cluster.get(kinds.PVC, f"data-vol-{volume_id}")
    pvc["metadata"]["finalizers"] = ["kubernetes.io/pvc-protection"]
    cluster.put(pvc)
    answer = alice.delete(f"/volumes/{volume_id}?force=true")
    deleted = answer.json()
    assert (answer.status_code, deleted["status"]) == (202, "deleting")
    assert "waits for pod/user (finished) to be stopped" in deleted["message"]


def test_access_modes_as_text_are_split_as_on_the_command_line(alice: TestClient) -> None:
    form = {**DATA, "access_modes": "RWO, ReadWriteMany"}
    volume = alice.post("/volumes/create", json=form).json()["volume_id"]
    shown = alice.get(f"/volumes/{volume}").json()
    assert shown["access_modes"] == ["ReadWriteOnce", "ReadWriteMany"]


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"name": "x"},
        {"name": "", "size": "1Gi"},
        {"name": "x", "size": "much"},
        {"name": "x", "size": "-1"},
        {"name": "x", "size": "1Gi", "other": 1},
        {"name": "x", "size": "1Gi", "access_modes": ["All"]},
        {"name": "x", "size": "1Gi", "access_modes": ""},
        {"name": "x", "size": "1Gi", "access_modes": 1},
        {"name": 5, "size": "1Gi"},
        [],
        "x",
    ],
)
def test_invalid_volume_is_refused(alice: TestClient, cluster: FakeCluster, wrong: object) -> None:
    answer = alice.post("/volumes/create", json=wrong)
    assert answer.status_code == 400
    assert answer.json()["detail"]
    assert cluster.writes == []


def test_gpus_and_queues_without_any(alice: TestClient) -> None:
    assert alice.get("/gpus").json()["machines"] == []
    answer = alice.get("/queues")
    assert answer.status_code == 404
    assert answer.json()["detail"] == "Kueue is not installed in the cluster"
