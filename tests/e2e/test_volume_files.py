"""`volumes apply` with SkyPilot's format: create, update and refuse."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import practice
from tests.cluster.practice import Server
from tests.e2e.command import PROGRAM, Command

VOLUME = """
name: data
type: k8s-pvc
infra: k8s
size: 1Gi
labels: {team: research}
config: {access_mode: ReadWriteMany, storage_class_name: standard}
"""


def claims(kubectl: Command) -> list[dict[str, object]]:
    items: list[dict[str, object]] = kubectl.json("get", "pvc")["items"]
    return items


@pytest.mark.practice_only
def test_volumes_apply_unchanged_and_relabeled_updates_same_pvc(
    sky: Command, kubectl: Command
) -> None:
    for dry in ("client", "server"):
        tried = sky("volumes", "apply", "-", f"--dry-run={dry}", stdin=VOLUME)
        assert tried.returncode == 0, tried.stderr
        assert tried.stdout.split()[1:3] == ["(data)", "created"]
        assert claims(kubectl) == []
    done = sky("volumes", "apply", "-", stdin=VOLUME)
    assert done.returncode == 0, done.stderr
    first, *rest = done.stdout.split()
    assert (first[:7], rest) == ("volume/", ["(data)", "created"])
    (claim,) = kubectl.json("get", "pvc")["items"]
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]
    assert claim["metadata"]["labels"]["team"] == "research"
    again = sky("volumes", "apply", "-", stdin=VOLUME)
    assert again.stdout == f"{first} (data) unchanged\n"
    labelled = sky("volumes", "apply", "-", stdin=VOLUME.replace("research", "other"))
    assert labelled.stdout == f"{first} (data) configured\n"
    (claim,) = kubectl.json("get", "pvc")["items"]
    assert claim["metadata"]["labels"]["team"] == "other"
    answer = sky.json("volumes", "apply", sky.write("v.yaml", VOLUME.replace("research", "other")))
    assert (answer["volume_id"], answer["done"]) == (first[7:], "unchanged")


@pytest.mark.practice_only
def test_volumes_apply_immutable_field_is_refused(sky: Command) -> None:
    assert sky("volumes", "apply", "-", stdin=VOLUME).returncode == 0
    done = sky("volumes", "apply", "-", stdin=VOLUME.replace("ReadWriteMany", "ReadWriteOnce"))
    assert (done.returncode, done.stdout) == (2, "")
    assert "these fields cannot change: spec.accessModes" in done.stderr
    smaller = sky("volumes", "apply", "-", stdin=VOLUME.replace("1Gi", "1Mi"))
    assert smaller.returncode == 2
    assert '"1Gi" would become "1Mi"' in smaller.stderr


@pytest.mark.practice_only
def test_volumes_apply_use_existing_finds_labeled_pvc(sky: Command, kubectl: Command) -> None:
    use = "name: data\ntype: k8s-pvc\nuse_existing: true\n"
    missing = sky("volumes", "apply", "-", stdin=use)
    assert missing.returncode == 2
    assert 'PVC "data" not found in namespace' in missing.stderr
    labels = {"skypilot-name": "data"}
    body = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data-77", "labels": labels},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    assert kubectl("create", "-f", "-", stdin=json.dumps(body)).returncode == 0
    done = sky("volumes", "apply", "-", stdin=use)
    assert done.stdout == "persistentvolumeclaim/data-77 unchanged\n"
    (claim,) = kubectl.json("get", "pvc")["items"]
    assert claim["metadata"]["labels"] == labels


@pytest.fixture
def classless() -> Iterator[Server]:
    """A cluster without any StorageClass."""
    with practice.server() as server:
        yield server


@pytest.mark.tools  # a kubectl
def test_volumes_without_default_storage_class_are_refused(
    classless: Server, tmp_path: Path
) -> None:
    kubeconfig = str(classless.folder / "kubeconfig")
    sky = Command(
        PROGRAM,
        {"HOME": str(tmp_path), "KUBECONFIG": kubeconfig, "PATH": "/usr/bin:/bin"},
        Path.cwd(),
    )
    kubectl = [str(practice.kubectl()), "--kubeconfig", kubeconfig]
    default = "storageclass.kubernetes.io/is-default-class"
    subprocess.run([*kubectl, "annotate", "sc", "standard", f"{default}-"], check=True)
    plain = VOLUME.replace(", storage_class_name: standard", "")
    ephemeral = "run: x\nvolumes: {/d: {size: 1Gi}}\n"
    for arguments, text in (
        (("volumes", "apply", "-"), plain),
        (("volumes", "create", "v", "1Gi"), ""),
        (("submit", "-", "--detach"), ephemeral),
    ):
        done = sky(*arguments, stdin=text)
        assert (done.returncode, done.stdout) == (2, "")
        assert "the cluster has no default StorageClass" in done.stderr
        assert "choose one of standard" in done.stderr
    named = sky("volumes", "apply", "-", stdin=VOLUME.replace("standard", "fast"))
    assert named.returncode == 0
    assert 'StorageClass "fast" not found (available: standard)' in named.stderr
    subprocess.run([*kubectl, "delete", "sc", "standard"], check=True)
    bare = sky("volumes", "create", "v", "1Gi")
    assert "the cluster has no StorageClass to provision the volume" in bare.stderr
