"""`submit --create-volumes`: volumes that do not exist are created before the task."""

from pathlib import Path

import pytest

from kubectl_sky.words import kinds
from tests.actions.conftest import Run
from tests.fake_cluster import FakeCluster

TASK = "name: {}\nrun: x\nvolumes: {{/data: notes, /other: kept}}\n"
FILES = ("one.yaml", "two.yaml")


@pytest.fixture(autouse=True)
def files(run: Run, api: FakeCluster, tmp_path: Path) -> None:
    key = "storageclass.kubernetes.io/is-default-class"
    metadata = {"name": "fast", "annotations": {key: "true"}}
    api.put({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": metadata})
    for name in FILES:
        (tmp_path / name).write_text(TASK.format(name[:3]))
    assert run("volumes", "create", "kept", "1Gi")[0] == 0


def claims(api: FakeCluster) -> list[str]:
    return sorted(
        text.split()[1] for text in api.names() if text.startswith("persistentvolumeclaims ")
    )


def test_submit_creates_missing_volumes_once_for_all_files(run: Run, api: FakeCluster) -> None:
    (kept,) = claims(api)
    code, _, err = run("submit", *FILES, "--detach", "--create-volumes", "2")
    assert code == 0, err
    assert claims(api) == [kept, "notes"]
    assert 'volume "notes" is created: 2Gi' in err
    assert "not found" not in err
    mounted = [
        volume["persistentVolumeClaim"]["claimName"]
        for name in api.names()
        if name.startswith("jobs ")
        for volume in api.get(kinds.JOB, name.split()[1])["spec"]["template"]["spec"]["volumes"]
        if "persistentVolumeClaim" in volume
    ]
    assert sorted(mounted) == [kept, kept, "notes", "notes"]


def test_refused_submit_leaves_no_new_volume(run: Run, api: FakeCluster) -> None:
    kept = claims(api)
    api.forbidden.add("create jobs")
    assert run("submit", "one.yaml", "--detach", "--create-volumes", "2")[0] == 3
    assert api.count("create persistentvolumeclaims") == 2
    assert claims(api) == kept


@pytest.mark.parametrize("flags", [("--dry-run=server",), ("--dry-run=client",)])
def test_dry_run_creates_no_volume(run: Run, api: FakeCluster, flags: tuple[str, ...]) -> None:
    kept = claims(api)
    code, _, err = run("submit", "one.yaml", *flags, "--create-volumes", "2")
    assert (code, claims(api)) == (0, kept)
    assert 'volume "notes" is created: 2Gi' in err


def test_size_of_new_volumes_is_checked(run: Run) -> None:
    code, _, err = run("submit", "one.yaml", "--create-volumes", "big")
    assert code == 2
    assert "a size is GiB such as 10" in err
