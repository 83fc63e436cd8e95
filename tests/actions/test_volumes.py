"""`volumes`, and volumes of tasks, over a cluster in memory."""

import json
import re
from pathlib import Path

import pytest

from kubectl_sky.words import kinds
from tests.actions.conftest import Run
from tests.fake_cluster import FakeCluster, Json

DEFAULT = "storageclass.kubernetes.io/is-default-class"
KEEPER = "name: keeper\nvolumes: {/data: notes}\nrun: sleep 300\n"
FILE = """
name: data
type: k8s-pvc
infra: k8s
size: 1Gi
labels: {team: research}
config: {access_mode: ReadWriteMany, storage_class_name: standard}
"""


def put_class(api: FakeCluster, **annotations: str) -> None:
    metadata = {"name": "standard", "annotations": annotations}
    api.put({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": metadata})


@pytest.fixture(autouse=True)
def standard(api: FakeCluster) -> None:
    put_class(api, **{DEFAULT: "true"})


@pytest.fixture
def notes(run: Run) -> str:
    """The id of a volume."""
    return create(run, "notes", "1Gi")


def create(run: Run, *words: str) -> str:
    code, out, err = run("volumes", "create", *words)
    match = re.match(r"volume/([a-z0-9]{8}) ", out)
    assert code == 0 and match, err
    return match[1]


def pvcs(api: FakeCluster) -> list[Json]:
    names = [name.split()[1] for name in api.names() if name.startswith("persistentvolumeclaims ")]
    return [api.get(kinds.PVC, name) for name in names]


def protect(api: FakeCluster) -> None:
    """Keep deleted PVCs while pods use them, as Kubernetes does."""
    for pvc in pvcs(api):
        pvc["metadata"]["finalizers"] = ["kubernetes.io/pvc-protection"]
        api.put(pvc)


def apply(run: Run, text: str, *flags: str) -> tuple[int, str, str]:
    Path("volume.yaml").write_text(text)
    return run("volumes", "apply", "volume.yaml", *flags)


def submit(run: Run, text: str, *flags: str) -> tuple[int, str, str]:
    Path("task.yaml").write_text(text)
    return run("submit", "task.yaml", "--detach", *flags)


def test_volumes_create_sets_name_labels_and_size(run: Run, api: FakeCluster) -> None:
    flags = ("--access-modes", "RWO,ROX", "--storage-class", "standard")
    volume = create(run, "Data Vol", "2", *flags)
    (pvc,) = pvcs(api)
    assert pvc["metadata"]["name"] == f"data-vol-{volume}"
    labels = {"skypilot-volume": "true", "volume-id": volume, "volume-name": "Data-Vol"}
    assert labels.items() <= pvc["metadata"]["labels"].items()
    assert pvc["spec"]["resources"]["requests"] == {"storage": "2Gi"}
    modes = ["ReadWriteOnce", "ReadOnlyMany"]
    assert pvc["spec"]["accessModes"] == modes
    (listed,) = json.loads(run("volumes", "list", "-o", "json")[1])["volumes"]
    expected = {"volume_id": volume, "name": "Data Vol", "size": "2Gi", "access_modes": modes}
    assert expected.items() <= listed.items()
    assert run("volumes", "list")[1].split()[:5] == ["ID", "NAME", "SIZE", "STATUS", "AGE"]
    assert "CLAIM" in run("volumes", "list", "--details")[1].splitlines()[0]


def test_volumes_list_shows_plain_bytes_in_a_unit(run: Run) -> None:
    create(run, "small", "0.1Gi")
    assert run("volumes", "list")[1].splitlines()[1].split()[1:3] == ["small", "102.4Mi"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("delete notes", "stdin is not a terminal"),
        ("delete notes", "confirm with --yes"),
        ("delete nothing --force", 'volume "nothing" not found (owner: alice)'),
        ("delete nots --force", 'did you mean "notes"?'),
        ("delete notes --force --user someone", 'volume "notes" not found (owner: someone)'),
        ("create notes 1Gi", 'volume "notes" already exists: {id}, 1Gi'),
    ],
)
def test_volumes_command_is_refused(
    run: Run, api: FakeCluster, notes: str, words: str, message: str
) -> None:
    code, _, err = run("volumes", *words.split())
    assert code == 2
    assert message.replace("{id}", notes) in err
    assert len(pvcs(api)) == 1
    assert run("volumes", "delete", notes[:4], "--yes")[0] == 0
    assert pvcs(api) == []


def test_volume_of_just_stopped_task_is_deleted_before_its_pods(
    run: Run, api: FakeCluster, notes: str
) -> None:
    assert submit(run, KEEPER, "--id", "keeper01")[0] == 0
    pod = api.start("keeper-keeper01")
    owner = {"kind": "Job", "name": "keeper-keeper01", "uid": "of-a-deleted-job"}
    metadata = api.get(kinds.POD, pod)["metadata"] | {"ownerReferences": [owner]}

    api.change(
        kinds.POD,
        pod,
        metadata=metadata,
        spec=api.get(kinds.POD, pod)["spec"] | {"nodeName": "worker-1"},
    )
    protect(api)
    code, out, err = run("volumes", "delete", "notes", "--yes")
    assert (code, out) == (3, "")
    assert f"error: still being deleted: volume/{notes} (notes): PVC notes-{notes} waits for" in err
    assert "waits for task/keeper01 (keeper) to be stopped" in err


@pytest.mark.parametrize("finished", [False, True])
def test_volume_in_use_is_explained_until_its_task_is_stopped(
    run: Run, api: FakeCluster, notes: str, finished: bool
) -> None:
    task = "task/keeper01 (keeper, finished)" if finished else "task/keeper01 (keeper)"
    assert submit(run, KEEPER, "--id", "keeper01")[0] == 0

    pod = api.start("keeper-keeper01")
    api.change(kinds.POD, pod, spec=api.get(kinds.POD, pod)["spec"] | {"nodeName": "worker-1"})
    if finished:
        api.finish("keeper-keeper01")
    code, _, err = run("volumes", "delete", "notes", "--yes")
    assert code == 2
    assert f"volume {notes} (notes) is used by {task}\nhint: stop these first" in err
    assert f"Used by:    {task}" in run("volumes", "status", notes)[1]

    waits = f"waits for {task} to be stopped"
    protect(api)
    assert run("volumes", "delete", notes, "--force") == (
        3,
        "",
        f"error: still being deleted: volume/{notes} (notes): PVC notes-{notes} {waits}\n"
        "hint: stop these: it is deleted then\n",
    )

    (listed,) = json.loads(run("volumes", "list", "-o", "json")[1])["volumes"]
    assert (listed["status"], listed["reason"]) == ("Terminating", waits)
    assert waits in run("volumes", "list")[1]
    assert f"Status:     Terminating: {waits}" in run("volumes", "status", notes)[1]
    for refused in (run("volumes", "create", "notes", "1Gi"), submit(run, KEEPER)):
        assert refused[0] == 2
        assert f"is being deleted: {waits}" in refused[2]


def test_volume_of_another_user_is_matched_by_name_of_pvc_only(
    run: Run, api: FakeCluster, notes: str
) -> None:
    for name, task_id in (("notes", "byname01"), (f"notes-{notes}", "literal1")):
        flags = ("--user", "someone", "--id", task_id, "--wait-for-volumes")
        assert submit(run, KEEPER.replace("notes", name), *flags)[0] == 0
        job = api.get(kinds.JOB, f"keeper-{task_id}")
        volumes = job["spec"]["template"]["spec"]["volumes"]
        (pvc,) = (
            item["persistentVolumeClaim"] for item in volumes if "persistentVolumeClaim" in item
        )
        assert pvc["claimName"] == name


def test_volumes_apply_creates_updates_and_keeps_the_same_pvc(run: Run, api: FakeCluster) -> None:
    for dry in ("client", "server"):
        code, out, err = apply(run, FILE, f"--dry-run={dry}")
        assert (code, out.split()[1:3]) == (0, ["(data)", "created"]), err
        assert pvcs(api) == []
    reference = apply(run, FILE)[1].removesuffix(" (data) created\n")
    assert re.fullmatch(r"volume/\w{8}", reference)

    (pvc,) = pvcs(api)
    assert pvc["spec"]["accessModes"] == ["ReadWriteMany"]
    assert pvc["metadata"]["labels"]["team"] == "research"
    assert apply(run, FILE)[1] == f"{reference} (data) unchanged\n"

    relabeled = FILE.replace("research", "other")
    assert apply(run, relabeled)[1] == f"{reference} (data) configured\n"

    (pvc,) = pvcs(api)
    assert pvc["metadata"]["labels"]["team"] == "other"

    document = json.loads(apply(run, relabeled, "-o", "json")[1])
    assert (f"volume/{document['volume_id']}", document["done"]) == (reference, "unchanged")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("ReadWriteMany", "ReadWriteOnce"), "these fields cannot change: spec.accessModes"),
        (("1Gi", "1Mi"), '"1Gi" would become "1Mi"'),
    ],
)
def test_volumes_apply_immutable_field_is_refused(
    run: Run, change: tuple[str, str], message: str
) -> None:
    assert apply(run, FILE)[0] == 0
    code, out, err = apply(run, FILE.replace(*change))
    assert (code, out) == (2, "")
    assert message in err


def test_volumes_apply_use_existing_finds_pvc_of_skypilot(run: Run, api: FakeCluster) -> None:
    use = "name: data\ntype: k8s-pvc\nuse_existing: true\n"
    code, _, err = apply(run, use)
    assert (code, 'PVC "data" not found in namespace' in err) == (2, True)

    metadata = {"name": "data-77", "labels": {"skypilot-name": "data"}}
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    pvc = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}
    before = api.put(pvc)
    assert apply(run, use)[1] == "persistentvolumeclaim/data-77 unchanged\n"
    assert pvcs(api) == [before]

    for name in ("data", "data-77"):
        text = f"run: ls -d /d\nvolumes: {{/d: {{name: {name}, mode: ro}}}}\n"
        code, out, err = submit(run, text, "--dry-run=client", "-o", "json")
        assert code == 0, err
        (job,) = (item for item in json.loads(out)["items"] if item["kind"] == "Job")
        pod = job["spec"]["template"]["spec"]
        (mounted,) = (item for item in pod["volumes"] if "persistentVolumeClaim" in item)
        assert mounted["persistentVolumeClaim"]["claimName"] == "data-77"
        assert pod["containers"][0]["volumeMounts"][-1]["readOnly"] is True


def test_volume_without_default_storage_class_is_refused(run: Run, api: FakeCluster) -> None:
    put_class(api)
    ephemeral = "run: x\nvolumes: {/d: {size: 1Gi}}\n"
    for code, out, err in (
        apply(run, FILE.replace(", storage_class_name: standard", "")),
        run("volumes", "create", "v", "1Gi"),
        submit(run, ephemeral),
    ):
        assert (code, out) == (2, "")
        assert "the cluster has no default StorageClass" in err
        assert "choose one of standard" in err
    assert api.writes == []

    code, _, err = apply(run, FILE.replace("standard", "fast"))
    assert (code, 'StorageClass "fast" not found (available: standard)' in err) == (0, True)

    api.remove(kinds.STORAGE_CLASS, "standard")
    err = run("volumes", "create", "v", "1Gi")[2]
    assert "the cluster has no StorageClass to provision the volume" in err


@pytest.mark.usefixtures("notes")
def test_submit_rwo_volume_of_two_nodes_is_warned(run: Run) -> None:
    done = submit(run, f"num_nodes: 2\n{KEEPER}", "--dry-run=client")
    assert done[0] == 0
    assert "volumes./data: the PVC is ReadWriteOnce" in done[2]


def test_submit_host_path_is_refused_unless_allowed_in_settings(run: Run, tmp_path: Path) -> None:
    text = "run: ls\nvolumes: {/host: {host_path: /tmp, mode: ro}}\n"
    code, out, err = submit(run, text)
    assert (code, out) == (2, "")
    assert "volumes./host.host_path: the settings do not let tasks mount /tmp" in err
    (tmp_path / "settings.yaml").write_text("host_paths: [/tmp]\n")
    assert submit(run, text)[0] == 0


def test_volumes_are_chosen_as_tasks(run: Run) -> None:
    for name in ("run-1", "run-2", "data"):
        assert run("volumes", "create", name, "1Gi")[0] == 0
    code, out, _ = run("volumes", "delete", "run-*", "--yes")
    assert (code, len(out.splitlines())) == (0, 2)
    assert run("volumes", "list", "--no-headers")[1].split()[1] == "data"
    assert run("volumes", "delete", "--all", "--yes")[0] == 0
    assert run("volumes", "list")[1] == ""


@pytest.mark.parametrize("text", ["abcd", "notes"])
def test_volumes_delete_of_a_prefix_or_name_of_several_is_refused(
    run: Run, api: FakeCluster, text: str
) -> None:
    for volume_id in ("abcd0001", "abcd0002"):
        labels = {"skypilot-volume": "true", "volume-id": volume_id, "volume-name": "notes"}
        metadata = {"name": f"notes-{volume_id}", "labels": labels | {"username": "alice"}}
        api.put({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata})

    code, out, err = run("volumes", "delete", text, "--yes")
    assert (code, out) == (2, "")
    assert f'"{text}" matches 2 volumes: ' in err
    assert len(pvcs(api)) == 2
