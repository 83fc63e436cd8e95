"""PVCs are bound as on a real cluster with a provisioner."""

from pathlib import Path
from typing import Any

import pytest

from kubectl_sky_practice.api import Deletion
from practice_tests.world import NS, Json, World, settle, until

pytestmark = pytest.mark.anyio

CLAIMS = "persistentvolumeclaims"


def claim(**more: Any) -> Json:
    requests = {"requests": {"storage": "1Gi"}}
    return {"accessModes": ["ReadWriteOnce"], "resources": requests, **more}


async def test_pvc_is_bound_and_its_folder_is_deleted_with_it(tmp_path: Path, w: World) -> None:
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

    message = f"Successfully provisioned volume {name} using practice.kubectl-sky/folder"
    assert w.events("ProvisioningSucceeded") == [message]

    folder = tmp_path / "volumes" / name
    (folder / "deep").mkdir()
    (folder / "deep" / "file").write_text("x")
    w.api.delete(CLAIMS, (NS, "a"))
    await until(lambda: not folder.exists())
    assert not w.api.state.get(CLAIMS, NS, "a")


async def test_pvc_in_use_is_deleted_after_its_pods(w: World) -> None:
    w.node()
    w.create(CLAIMS, "a", claim())
    used = {"name": "x", "persistentVolumeClaim": {"claimName": "a"}}
    w.create("pods", "p", {"containers": [{"name": "main", "image": "x"}], "volumes": [used]})
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


async def test_pvc_unknown_foreign_or_empty_class_stays_pending(w: World) -> None:
    w.create("storageclasses.storage.k8s.io", "far", provisioner="x.y/z")
    w.create(CLAIMS, "a", claim(storageClassName="nosuch"))
    w.create(CLAIMS, "b", claim(storageClassName=""))
    w.create(CLAIMS, "c", claim(storageClassName="far"))
    await settle()
    assert all(w.get(CLAIMS, name)["status"] == {"phase": "Pending"} for name in "abc")
    message = w.events("ProvisioningFailed")
    assert message == ['storageclass.storage.k8s.io "nosuch" not found']
    assert w.events("FailedBinding") == ["no storage class is set"]
    assert "'x.y/z'" in w.events("ExternalProvisioning")[0]
    w.create("storageclasses.storage.k8s.io", "nosuch", provisioner="practice.kubectl-sky/folder")
    await settle()
    assert w.get(CLAIMS, "a")["status"]["phase"] == "Bound"
