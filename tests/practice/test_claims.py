"""PVCs and PersistentVolumes are bound as on a real cluster with a provisioner."""

from pathlib import Path
from typing import Any

import pytest

from kubectl_sky.practice.api import Deletion
from tests.practice.world import NS, Json, World, settle, until

pytestmark = pytest.mark.anyio

CLAIMS, VOLUMES = "persistentvolumeclaims", "persistentvolumes"


def claim(**more: Any) -> Json:
    requests = {"requests": {"storage": "1Gi"}}
    return {"accessModes": ["ReadWriteOnce"], "resources": requests, **more}


def user(name: str) -> Json:
    container = {"name": "main", "image": "x"}
    used = {"name": "x", "persistentVolumeClaim": {"claimName": name}}
    return {"containers": [container], "volumes": [used]}


async def test_pvc_is_bound_to_provisioned_volume(tmp_path: Path, w: World) -> None:
    created = w.create(CLAIMS, "a", claim())
    assert created["spec"]["storageClassName"] == "standard"
    assert created["status"] == {"phase": "Pending"}
    await settle()
    stored = w.get(CLAIMS, "a")
    name = f"pvc-{stored['metadata']['uid']}"
    assert stored["spec"]["volumeName"] == name
    assert stored["status"] == {
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "1Gi"},
        "phase": "Bound",
    }
    assert stored["metadata"]["annotations"] == {
        "pv.kubernetes.io/bind-completed": "yes",
        "pv.kubernetes.io/bound-by-controller": "yes",
        "volume.beta.kubernetes.io/storage-provisioner": "practice.kubectl-sky/folder",
        "volume.kubernetes.io/storage-provisioner": "practice.kubectl-sky/folder",
    }
    bound = w.get(VOLUMES, name)
    folder = tmp_path / "volumes" / name
    assert bound["spec"]["hostPath"] == {"path": str(folder), "type": ""}
    assert folder.is_dir()
    assert bound["spec"]["claimRef"]["uid"] == stored["metadata"]["uid"]
    assert bound["status"]["phase"] == "Bound"
    message = f"Successfully provisioned volume {name} using practice.kubectl-sky/folder"
    assert w.events("ProvisioningSucceeded") == [message]


async def test_pvc_deleted_removes_folder(tmp_path: Path, w: World) -> None:
    w.create(CLAIMS, "a", claim())
    await settle()
    name = w.get(CLAIMS, "a")["spec"]["volumeName"]
    folder = tmp_path / "volumes" / name
    (folder / "deep").mkdir()
    (folder / "deep" / "file").write_text("x")
    w.api.delete(CLAIMS, (NS, "a"))
    await until(lambda: not folder.exists())
    assert not w.api.state.get(VOLUMES, "", name)
    assert not w.api.state.get(CLAIMS, NS, "a")


async def test_pvc_in_use_is_deleted_after_its_pods(w: World) -> None:
    w.node()
    w.create(CLAIMS, "a", claim())
    w.create("pods", "p", user("a"))
    await settle()
    w.run(w.get("pods", "p"))
    w.api.delete(CLAIMS, (NS, "a"))
    await settle()
    stored = w.get(CLAIMS, "a")
    assert "deletionTimestamp" in stored["metadata"]
    assert stored["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]
    w.end(w.get("pods", "p"))
    await settle()
    assert w.get(CLAIMS, "a"), "a finished pod counts, too"
    w.api.delete("pods", (NS, "p"), Deletion(grace=0))
    await settle()
    assert not w.api.state.get(CLAIMS, NS, "a")


async def test_pvc_unknown_or_empty_class_stays_pending(w: World) -> None:
    w.create(CLAIMS, "a", claim(storageClassName="nosuch"))
    w.create(CLAIMS, "b", claim(storageClassName=""))
    await settle()
    assert w.get(CLAIMS, "a")["status"] == w.get(CLAIMS, "b")["status"] == {"phase": "Pending"}
    message = w.events("ProvisioningFailed")
    assert message == ['storageclass.storage.k8s.io "nosuch" not found']
    assert w.events("FailedBinding") == [
        "no persistent volumes available for this claim and no storage class is set"
    ]
    w.create("storageclasses.storage.k8s.io", "nosuch", provisioner="practice.kubectl-sky/folder")
    await settle()
    assert w.get(CLAIMS, "a")["status"]["phase"] == "Bound"


async def test_pvc_foreign_provisioner_stays_pending(w: World) -> None:
    w.create("storageclasses.storage.k8s.io", "far", provisioner="x.y/z")
    w.create(CLAIMS, "a", claim(storageClassName="far"))
    await settle()
    (message,) = w.events("ExternalProvisioning")
    assert message.startswith("Waiting for a volume to be created either by the external")
    assert "'x.y/z'" in message


async def test_pvc_without_its_volume_is_lost(w: World) -> None:
    w.create(CLAIMS, "a", claim())
    await settle()
    name = w.get(CLAIMS, "a")["spec"]["volumeName"]
    w.api.delete(VOLUMES, ("", name), Deletion())
    await settle()
    assert w.get(VOLUMES, name)["metadata"]["deletionTimestamp"], "a volume in use is not deleted"
    w.api.change(VOLUMES, ("", name), lambda obj: obj["metadata"].update(finalizers=[]))
    await settle()
    assert w.get(CLAIMS, "a")["status"]["phase"] == "Lost"
    assert "has lost its PersistentVolume" in w.events("ClaimLost")[0]
