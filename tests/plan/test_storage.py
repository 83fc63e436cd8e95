"""Volumes of a task: PVCs, host paths, and sharing between nodes."""

import pytest
from msgspec.structs import replace

from kubectl_sky.errors import UserError
from kubectl_sky.plan import storage
from kubectl_sky.spec.task import Accelerator, Resources
from kubectl_sky.spec.volumes import Storage, VolumeMount
from kubectl_sky.words import names
from kubectl_sky.words.facts import ExistingPvc
from kubectl_sky.words.settings import Settings
from tests.builders import FACTS, make_plan, make_task

ONCE, MANY, READERS, POD = (
    ExistingPvc("c", (mode,))
    for mode in ("ReadWriteOnce", "ReadWriteMany", "ReadOnlyMany", "ReadWriteOncePod")
)
LOCAL = Settings(host_paths=("/mnt/data",))


def stored(
    *volumes: VolumeMount, nodes: int = 1, settings: Settings | None = None
) -> storage.PodStorage:
    facts = replace(FACTS, pvcs={**(FACTS.pvcs or {}), "once": ONCE, "many": MANY})
    return make_plan(replace(make_task(nodes), volumes=volumes), facts, settings).storage


def test_storage_volume_names_become_pvc_names() -> None:
    found = stored(
        VolumeMount("/a", "data"), VolumeMount("/b", "data", "part"), VolumeMount("/c", "other")
    )
    assert found.pvcs == {"volume-0": "data-vvvv2345", "volume-1": "other"}
    assert [(mount.volume, mount.sub_path) for mount in found.mounts] == [
        ("volume-0", None),
        ("volume-0", "part"),
        ("volume-1", None),
    ]
    assert (found.group, found.one_cluster_node) == (1000, False)


def test_storage_ephemeral_volume_becomes_new_pvc() -> None:
    found = stored(VolumeMount("/a", "data"), VolumeMount("/b", storage=Storage("1Gi")))
    (claim,) = found.new_pvcs
    assert claim.name == found.pvcs["volume-1"] == "train-bcdf2345-volume-1"
    assert (claim.size, claim.storage_class, claim.namespace) == ("1Gi", None, "team-a")


def test_storage_volume_at_shared_memory_replaces_it() -> None:
    task = make_task(resources=Resources(accelerator=Accelerator(None, 1)))
    assert make_plan(task).shared_memory
    assert not make_plan(replace(task, volumes=(VolumeMount("/dev/shm", "data"),))).shared_memory


@pytest.mark.parametrize(
    ("logs", "path", "kept"),
    [
        ("/data/logs", "/data/logs", "data-vvvv2345:logs"),
        ("/data", "/data", "data-vvvv2345:."),
        ("/data/in/logs", "/data/in/logs", "many:runs/1/logs"),
        ("~/own/$(HOME)", "/kubectl-sky/home/2/$$(HOME)", "many:$(HOME)"),
    ],
)
def test_logs_folder_is_that_of_innermost_volume(logs: str, path: str, kept: str) -> None:
    volumes = (
        VolumeMount("/data", "data"),
        VolumeMount("/data/in", "many", "runs/1"),
        VolumeMount("~/own", "many"),
    )
    plan = make_plan(replace(make_task(), volumes=volumes, logs=logs))
    assert plan.env["KUBECTL_SKY_LOGS"] == path
    assert plan.annotations[names.LOGS] == kept


def test_logs_folder_of_cluster_node_is_not_on_a_pvc() -> None:
    volumes = (VolumeMount("/data", host_path="/mnt/data"),)
    plan = make_plan(replace(make_task(), volumes=volumes, logs="/data"), settings=LOCAL)
    assert plan.env["KUBECTL_SKY_LOGS"] == "/data"
    assert names.LOGS not in plan.annotations


def test_storage_mount_in_home_is_linked() -> None:
    volumes = (VolumeMount("~/a b", "data"), VolumeMount("/x", "data"))
    plan = make_plan(replace(make_task(), volumes=volumes))
    assert [mount.path for mount in plan.storage.mounts] == ["/kubectl-sky/home/0", "/x"]
    assert plan.env["KUBECTL_SKY_LINKS"] == "/kubectl-sky/home/0 a b"


def test_storage_host_path_must_be_in_settings() -> None:
    volume = VolumeMount("/a", host_path="/mnt/data/x", read_only=True)
    found = stored(volume, settings=LOCAL)
    assert found.host_paths == {"volume-0": "/mnt/data/x"}
    assert found.mounts[0].read_only
    for settings in (Settings(), Settings(host_paths=["/mnt/dat"])):
        with pytest.raises(UserError, match=r"volumes\./a\.host_path: the settings do not let"):
            stored(volume, settings=settings)


@pytest.mark.parametrize(
    ("claim", "read_only", "together"),
    [
        (ONCE, False, True),
        (MANY, False, False),
        (READERS, True, False),
        (READERS, False, False),
        (ExistingPvc("c", ("ReadWriteOnce", "ReadOnlyMany")), False, True),
        (ExistingPvc("c", ("ReadWriteOnce", "ReadOnlyMany")), True, False),
        (ExistingPvc("c"), False, False),
    ],
)
def test_storage_rwo_volume_puts_all_nodes_on_single_cluster_node(
    claim: ExistingPvc, read_only: bool, together: bool
) -> None:
    task = replace(make_task(3), volumes=(VolumeMount("/a", "v", read_only=read_only),))
    facts = replace(FACTS, pvcs={"v": claim})
    plan = make_plan(task, facts)
    assert plan.storage.one_cluster_node is together
    assert plan.topology_key == ("kubernetes.io/hostname" if together else None)
    assert any("all 3 nodes run on one" in note for note in storage.notes(task, facts)) is (
        together
    )
    assert not make_plan(replace(task, num_nodes=1), facts).storage.one_cluster_node


def test_storage_rwop_volume_with_two_nodes_is_refused() -> None:
    task = replace(make_task(2), volumes=(VolumeMount("/a", "v"),))
    with pytest.raises(UserError, match="ReadWriteOncePod, and the task has 2 nodes"):
        make_plan(task, replace(FACTS, pvcs={"v": POD}))


def test_storage_missing_volumes_are_those_of_unknown_names() -> None:
    mounts = VolumeMount("/a", "nothing"), VolumeMount("/b", "v")
    task = replace(make_task(), volumes=mounts)
    facts = replace(FACTS, pvcs={"v": POD})
    assert list(storage.missing(task, facts)) == [mounts[0]]
    assert list(storage.missing(task, replace(facts, pvcs=None))) == []


def test_storage_group_follows_settings() -> None:
    assert stored(VolumeMount("/a", "many"), settings=Settings(volume_group=False)).group is None
    assert stored(VolumeMount("/a", "many"), settings=Settings(volume_group=0)).group == 0
