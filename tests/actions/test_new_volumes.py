"""Volumes that do not exist: `submit` refuses them, creates them, or lets the task wait."""

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


def test_submit_refuses_all_missing_volumes_at_once(
    run: Run, api: FakeCluster, tmp_path: Path
) -> None:
    (tmp_path / "none.yaml").write_text(TASK.format("none").replace("kept", "gone"))
    code, _, err = run("submit", "none.yaml", "--detach")
    assert code == 2
    ways = ", or submit with --create-volumes SIZE or --wait-for-volumes"
    assert err.splitlines() == [
        f'none.yaml:3:{column}: volumes./{path}: volume or PVC "{name}" not found in namespace'
        f' "default"; run `kubectl sky volumes create {name} SIZE`{ways}'
        for column, path, name in ((18, "data", "notes"), (33, "other", "gone"))
    ]
    assert len(claims(api)) == 1 and not any(name.startswith("jobs ") for name in api.names())


def test_submit_names_the_pvc_of_another_owner_for_a_missing_volume(
    run: Run, api: FakeCluster
) -> None:
    (claim,) = claims(api)
    code, _, err = run("submit", "one.yaml", "--user", "bob", "--detach")
    assert code == 2
    assert f'; write "{claim}", a PVC of another owner, or run `kubectl sky volumes create' in err


def test_task_waits_for_missing_volumes_if_asked(run: Run, api: FakeCluster) -> None:
    code, _, err = run("submit", "one.yaml", "--detach", "--wait-for-volumes")
    assert code == 0
    assert "; the task waits for it; " in err and "create notes SIZE --pvc-name notes" in err
    assert len(claims(api)) == 1


def test_other_commands_name_no_flag_of_submit(run: Run, api: FakeCluster, tmp_path: Path) -> None:
    api.kinds |= {kinds.DEPLOYMENT, kinds.REPLICA_SET, kinds.HPA, kinds.INGRESS}
    text = "name: web\nservice: {}\nresources: {ports: 80}\nrun: x\nvolumes: {/data: notes}\n"
    (tmp_path / "web.yaml").write_text(text.replace("{}", "{readiness_probe: /}"))
    code, _, err = run("serve", "up", "web.yaml")
    assert code == 2
    assert err.rstrip().endswith("run `kubectl sky volumes create notes SIZE`")


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
    assert 'volume "notes" is created: 2Gi (dry run)' in err


def test_dry_run_of_the_server_refuses_a_new_volume_as_submit_does(
    run: Run, api: FakeCluster
) -> None:
    api.forbidden.add("create persistentvolumeclaims")
    code, _, err = run("submit", "one.yaml", "--dry-run=server", "--create-volumes", "2")
    assert code == 3
    assert "may not create persistentvolumeclaims" in err


def test_size_of_new_volumes_is_checked(run: Run) -> None:
    code, _, err = run("submit", "one.yaml", "--create-volumes", "big")
    assert code == 2
    assert "a size is GiB such as 10" in err
