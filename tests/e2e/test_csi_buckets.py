"""Buckets that a CSI driver mounts: tasks write to them, and their results are read there."""

import json
from pathlib import Path

import pytest

from tests.cluster.bucket_driver import Start
from tests.cluster.marks import ON_REAL
from tests.cluster.target import Cluster
from tests.e2e.command import Command
from tests.e2e.support import write_settings
from tests.polling import eventually

pytestmark = ON_REAL

GCSFUSE = "gcsfuse.csi.storage.gke.io"
MOUNTPOINT = "s3.csi.aws.com"
SETTINGS = f"""
stores:
  gcs:
    csi:
      driver: {GCSFUSE}
      attributes: {{bucketName: "{{bucket}}", mountOptions: implicit-dirs}}
      annotations: {{gke-gcsfuse/volumes: "true"}}
  s3: {{claims: {{runs: shelf}}}}
"""
TASK = """
num_nodes: 2
resources: {{image_id: "busybox:1.36"}}
file_mounts: {{/out: {{source: {source}, mode: MOUNT}}}}
run: mkdir /out/$SKYPILOT_NODE_RANK && echo "of $(cat /out/seed)" > /out/$SKYPILOT_NODE_RANK/loss
"""
ANNOTATED = (
    "!object.spec.volumes.exists(v, has(v.csi)) || "
    "(has(object.metadata.annotations) && 'gke-gcsfuse/volumes' in object.metadata.annotations)"
)


@pytest.fixture
def alice(sky: Command, cluster: Cluster, namespace: str, tmp_path: Path) -> tuple[str, ...]:
    """The flags of a user with the rights of `users add` alone, with settings of buckets."""
    added = sky("users", "add", cluster.users["alice"], "--namespace", namespace)
    assert added.returncode == 0, added.stderr
    write_settings(tmp_path, SETTINGS)
    return ("--context", "alice")


@pytest.fixture
def annotated(kubectl: Command, namespace: str) -> None:
    """Refuse what the driver of Cloud Storage FUSE gives no sidecar to mount with."""
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["pods"],
    }
    spec = {
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": ANNOTATED, "message": "no sidecar without annotation"}],
    }
    selector = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    binding = {
        "policyName": namespace,
        "validationActions": ["Deny"],
        "matchResources": {"namespaceSelector": selector},
    }
    kind = "ValidatingAdmissionPolicy"
    for made, body in ((kind, spec), (f"{kind}Binding", binding)):
        item = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": made,
            "metadata": {"name": namespace},
            "spec": body,
        }
        created = kubectl("create", "-f", "-", stdin=json.dumps(item))
        assert created.returncode == 0, created.stderr


@pytest.mark.usefixtures("annotated")
def test_cp_of_finished_task_reads_bucket_of_inline_csi_volume(
    sky: Command, alice: tuple[str, ...], bucket_driver: Start, tmp_path: Path
) -> None:
    bucket = bucket_driver(GCSFUSE) / "runs"
    (bucket / "llm").mkdir(parents=True)
    (bucket / "llm/seed").write_text("inline\n")
    (bucket / "llm").chmod(0o777)

    script = TASK.format(source="gs://runs/llm")
    done = sky("submit", "-", "--id", "inline01", *alice, stdin=script)
    assert done.returncode == 0, done.stderr
    assert (bucket / "llm/1/loss").read_text() == "of inline\n"

    done = sky("cp", "inline01:/out/0", "got", "--yes", *alice)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "got/loss").read_text() == "of inline\n"


def test_cp_of_finished_task_reads_bucket_of_csi_claim(
    sky: Command,
    kubectl: Command,
    namespace: str,
    alice: tuple[str, ...],
    bucket_driver: Start,
    tmp_path: Path,
) -> None:
    bucket = bucket_driver(MOUNTPOINT) / "runs"
    bucket.mkdir()
    (bucket / "seed").write_text("claim\n")
    bucket.chmod(0o777)
    shelf(kubectl, namespace)

    done = sky("submit", "-", "--id", "claim001", *alice, stdin=TASK.format(source="s3://runs"))
    assert done.returncode == 0, done.stderr
    assert (bucket / "1/loss").read_text() == "of claim\n"

    done = sky("cp", "claim001:/out/1", "got", "--yes", *alice)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "got/loss").read_text() == "of claim\n"


def test_missing_bucket_of_csi_driver_is_named(
    sky: Command, alice: tuple[str, ...], bucket_driver: Start
) -> None:
    bucket_driver(GCSFUSE)
    script = TASK.format(source="gs://runs/llm")
    done = sky("submit", "-", "--detach", "--id", "missing1", *alice, stdin=script)
    assert done.returncode == 0, done.stderr

    def named() -> bool:
        findings = sky.json("doctor", "missing1", *alice)["findings"]
        return any("The specified bucket does not exist" in finding["what"] for finding in findings)

    eventually(named)


def shelf(kubectl: Command, namespace: str) -> None:
    """Make the PV and PVC of a bucket, as the documentation of Mountpoint for S3 does."""
    common = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
    name = f"{namespace}-runs"
    volume = {
        **common,
        "capacity": {"storage": "1Gi"},
        "mountOptions": ["allow-delete"],
        "csi": {
            "driver": MOUNTPOINT,
            "volumeHandle": name,
            "volumeAttributes": {"bucketName": "runs"},
        },
    }
    claim = {**common, "resources": {"requests": {"storage": "1Gi"}}, "volumeName": name}
    for kind, title, spec in (
        ("PersistentVolume", name, volume),
        ("PersistentVolumeClaim", "shelf", claim),
    ):
        item = {"apiVersion": "v1", "kind": kind, "metadata": {"name": title}, "spec": spec}
        created = kubectl("create", "-f", "-", stdin=json.dumps(item))
        assert created.returncode == 0, created.stderr
