"""Garbage collection: owners, namespaces and CRDs."""

from pathlib import Path
from typing import Any

import pytest

from kubectl_sky_practice.api import Deletion
from kubectl_sky_practice.problems import Problem
from practice_tests.world import NS, Json, World, play, settle

pytestmark = pytest.mark.anyio

CRDS = "customresourcedefinitions.apiextensions.k8s.io"
MAPS = "configmaps"


def owned(*owners: Json, block: bool = False) -> Json:
    return {
        "ownerReferences": [
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "name": owner["metadata"]["name"],
                "uid": owner["metadata"]["uid"],
                **({"blockOwnerDeletion": True} if block else {}),
            }
            for owner in owners
        ]
    }


def names(w: World) -> set[str]:
    return {obj["metadata"]["name"] for obj in w.api.state.all(MAPS, NS)}


def make(w: World, name: str, **metadata: Any) -> Json:
    return w.create(MAPS, name, metadata=metadata)


async def test_dependents_of_missing_owner_are_deleted(w: World) -> None:
    ghost = {"metadata": {"name": "ghost", "uid": "no-such-uid"}}
    make(w, "a", **owned(ghost))
    await settle()
    assert names(w) == set()


async def test_delete_foreground_waits_for_blocking_dependents(w: World) -> None:
    a = make(w, "a")
    make(w, "b", **owned(a, block=True), finalizers=["x.y/wait"])
    make(w, "c", **owned(a), finalizers=["x.y/wait"])
    w.api.delete(MAPS, (NS, "a"), Deletion("Foreground"))
    await settle()
    assert names(w) == {"a", "b", "c"}
    assert w.get(MAPS, "a")["metadata"]["finalizers"] == ["foregroundDeletion"]
    assert "deletionTimestamp" in w.get(MAPS, "b")["metadata"]
    w.api.change(MAPS, (NS, "b"), lambda obj: obj["metadata"].update(finalizers=[]))
    await settle()
    assert names(w) == {"c"}


async def test_delete_namespace_deletes_its_objects(w: World) -> None:
    w.node()
    make(w, "a", finalizers=["x.y/wait"])
    w.create("pods", "p", {"containers": [{"name": "main", "image": "x"}]})
    w.create("persistentvolumeclaims", "c", CLAIM)
    await settle()
    assert w.get("serviceaccounts", "default")

    w.api.delete("namespaces", ("", NS))
    assert w.get("namespaces", NS)["status"]["phase"] == "Terminating"

    await settle()
    assert "deletionTimestamp" in w.get("pods", "p")["metadata"]

    w.api.delete("pods", (NS, "p"), Deletion(grace=0))
    await settle()
    assert w.api.state.get("namespaces", "", NS) and names(w) == {"a"}

    w.api.change(MAPS, (NS, "a"), lambda obj: obj["metadata"].update(finalizers=[]))
    await settle()
    assert not w.api.state.get("namespaces", "", NS)
    for resource in w.api.resources.all():
        assert not resource.namespaced or not w.api.state.all(resource.storage, NS)


CLAIM: Json = {
    "accessModes": ["ReadWriteOnce"],
    "resources": {"requests": {"storage": "1Gi"}},
}
DEFINITION: Json = {
    "group": "example.com",
    "scope": "Namespaced",
    "names": {"plural": "things", "kind": "Thing"},
    "versions": [
        {
            "name": "v1",
            "served": True,
            "storage": True,
            "schema": {"openAPIV3Schema": {"type": "object"}},
        }
    ],
}


async def test_crd_is_established_and_deleted_with_its_objects(w: World) -> None:
    w.create(CRDS, "things.example.com", DEFINITION)
    await settle()
    definition = w.get(CRDS, "things.example.com")
    assert definition["metadata"]["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]

    reasons = [
        (obj["type"], obj["status"], obj["reason"]) for obj in definition["status"]["conditions"]
    ]
    assert reasons == [
        ("NamesAccepted", "True", "NoConflicts"),
        ("Established", "True", "InitialNamesAccepted"),
    ]
    assert definition["status"]["acceptedNames"] == DEFINITION["names"]
    assert definition["status"]["storedVersions"] == ["v1"]

    w.create("things.example.com", "a")
    w.api.delete(CRDS, ("", "things.example.com"))
    await settle()
    assert not w.api.state.get(CRDS, "", "things.example.com")
    assert not w.api.state.all("things.example.com")
    with pytest.raises(Problem):
        w.api.resources.find("example.com", "v1", "things")


def test_restart_keeps_owner_references(tmp_path: Path) -> None:
    """Owners and namespaces of an earlier run are known after a restart."""

    async def before(w: World) -> None:
        make(w, "b", **owned(make(w, "a")))
        w.api.state.save()

    async def after(w: World) -> None:
        w.api.delete(MAPS, (NS, "a"))
        await settle()
        assert names(w) == set()

    play(tmp_path, before)
    play(tmp_path, after)


def test_restart_deletes_expired_events(tmp_path: Path) -> None:
    async def before(w: World) -> None:
        for name, when in (("old", "2026-01-01T00:00:00Z"), ("new", "2999-01-01T00:00:00Z")):
            about = {"kind": "Pod", "namespace": NS, "name": "x"}
            w.create("events", name, involvedObject=about, lastTimestamp=when)
        w.api.state.save()

    async def after(w: World) -> None:
        assert [obj["metadata"]["name"] for obj in w.api.state.all("events", NS)] == ["new"]

    play(tmp_path, before)
    play(tmp_path, after)
