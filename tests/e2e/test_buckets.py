"""Buckets and web files: copied before the task starts, or mounted as the settings define.

The store is the S3 server of rclone, in a pod; it checks signatures.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import rclone
from tests.cluster.shell import Broken, Unavailable, absent
from tests.cluster.target import Cluster
from tests.e2e.command import Command, submitted
from tests.e2e.support import until_output, write_settings

IMAGE = "docker.io/rclone/rclone:1.68.2"
KEYS = {"AWS_ACCESS_KEY_ID": "AKID", "AWS_SECRET_ACCESS_KEY": "s3cr3tk3y"}
SERVE = """
mkdir -p /store/data/sub /store/empty
i=0; while [ $i -lt 300 ]; do echo "line $i" > "/store/data/sub/file $i"; i=$((i + 1)); done
head -c 3000000 /dev/urandom > /store/data/blob
sha256sum < /store/data/blob > /store/data/sum
exec "$0" --config "" serve s3 --addr "$POD_IP:8333" --auth-key AKID,s3cr3tk3y /store
"""
COPY = """
name: copy
num_nodes: 2
resources: {image_id: "busybox:1.36"}
file_mounts:
  /data: s3://data
  ~/in/sum: s3://data/sum
  sub: {source: s3://data/sub, mode: COPY}
run: |
  cd / && test "$(sha256sum < /data/blob)" = "$(cat ~/in/sum)" && cmp ~/in/sum /data/sum &&
    test "$(ls ~/sky_workdir/sub | wc -l)" = 300 && cat "$HOME/sky_workdir/sub/file 299"
  echo more > /data/sub/mine && rm /data/blob && echo "written by $(id -u)"
"""


@pytest.fixture
def program(cluster: Cluster) -> str:
    """The path of rclone in the pods: on the practice cluster they run local programs."""
    if cluster.driver != "practice":
        return "rclone"
    try:
        return str(rclone.program())
    except (Broken, Unavailable, OSError) as error:
        absent(f"NO RCLONE: {error}")


@pytest.fixture
def store(kubectl: Command, program: str) -> Iterator[str]:
    """The address of a store with buckets `data` and `empty`, whose keys are in `aws-keys`."""
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "aws-keys"}}
    address = {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    container = {
        "name": "store",
        "image": IMAGE,
        "command": ["/bin/sh", "-c", SERVE, program],
        "env": [address],
        "volumeMounts": [{"name": "store", "mountPath": "/store"}],
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "store"},
        "spec": {
            "containers": [container],
            "volumes": [{"name": "store", "emptyDir": {}}],
            "terminationGracePeriodSeconds": 1,
        },
    }
    for body in (secret | {"stringData": KEYS}, pod):
        assert kubectl("create", "-f", "-", stdin=json.dumps(body)).returncode == 0
    until_output(kubectl, "logs", "store")
    address_of_pod = kubectl("get", "pod", "store", "-o", "jsonpath={.status.podIP}").stdout
    yield f"http://{address_of_pod}:8333"
    kubectl("delete", "pod", "store", "--wait=false")


@pytest.fixture
def settings(store: str, program: str, tmp_path: Path) -> None:
    """The settings with the address of the store."""
    s3 = f"{{secret: aws-keys, endpoint: '{store}', options: {{provider: Rclone}}}}"
    write_settings(tmp_path, f"fetch_program: {program}\nstores:\n  s3: {s3}\n")


@pytest.mark.usefixtures("settings")
def test_submit_bucket_is_copied_to_every_node(sky: Command, kubectl: Command) -> None:
    done = sky("submit", "-", stdin=COPY)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()[1:]
    for rank in range(2):
        mine = [line for line in lines if line.startswith(f"node-{rank} | ")]
        assert mine[0] == f"node-{rank} | line 299"
        assert mine[1].startswith(f"node-{rank} | written by ")
    everything = kubectl("get", "jobs,pods,configmaps,events", "-o", "yaml").stdout
    assert everything.count("s3cr3tk3y") == everything.count("--auth-key AKID,s3cr3tk3y")


@pytest.mark.parametrize(
    "cluster", [pytest.param("real", marks=pytest.mark.cluster)], indirect=True
)
@pytest.mark.usefixtures("settings")
def test_submit_bucket_as_non_root_user_is_copied(sky: Command) -> None:
    script = COPY + (
        "config: {kubernetes: {pod_config: {spec: {securityContext: {runAsUser: 1000}}}}}\n"
        "envs: {HOME: /tmp/home}\n"
    )
    done = sky("submit", "-", stdin=script)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.practice_only
@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("s3://nothing", "s3://nothing could not be copied: Failed to copyto: directory not found"),
        ("s3://data/nothing", "s3://data/nothing could not be copied: not found"),
    ],
)
@pytest.mark.usefixtures("settings")
def test_submit_missing_bucket_or_path_fails_task_with_message(
    sky: Command, source: str, message: str
) -> None:
    script = f"file_mounts: {{/data: '{source}'}}\nrun: echo ran\n"
    done = sky("submit", "-", stdin=script)
    assert done.returncode == 4, done.stdout + done.stderr
    assert "ran" not in done.stdout.splitlines()
    status = sky.json("status", submitted(done))
    assert message in json.dumps(status)


@pytest.mark.practice_only
@pytest.mark.usefixtures("settings")
def test_submit_bucket_with_wrong_key_fails_task(sky: Command, kubectl: Command) -> None:
    wrong = {"stringData": {"AWS_SECRET_ACCESS_KEY": "other"}}
    assert kubectl("patch", "secret", "aws-keys", "-p", json.dumps(wrong)).returncode == 0
    done = sky("submit", "-", stdin="file_mounts: {/data: 's3://data'}\nrun: echo ran\n")
    assert done.returncode == 4
    assert "SignatureDoesNotMatch" in json.dumps(sky.json("status", submitted(done)))


@pytest.mark.practice_only
def test_submit_bucket_with_pvc_in_settings_is_mounted(sky: Command, tmp_path: Path) -> None:
    assert sky("volumes", "create", "shelf", "1Gi").returncode == 0
    (volume,) = sky.json("volumes", "list")["volumes"]
    claim = volume["metadata"]["pvc_name"]
    write_settings(tmp_path, f"stores: {{s3: {{claims: {{my-data: {claim}}}}}}}\n")
    script = "file_mounts: {~/data: {source: s3://my-data/part}}\nrun: echo kept > ~/data/x\n"
    assert sky("submit", "-", stdin=script).returncode == 0
    done = sky("submit", "-", stdin="volumes: {/v: shelf}\nrun: cat /v/part/x\n")
    assert done.stdout.splitlines()[1:] == ["kept"], done.stderr


def test_submit_bucket_with_csi_driver_in_settings_renders_csi_volume(
    sky: Command, tmp_path: Path
) -> None:
    attributes = '{bucketName: "{bucket}", mountOptions: "implicit-dirs,only-dir={prefix}"}'
    csi = f"driver: gcsfuse.csi.storage.gke.io, attributes: {attributes}"
    annotations = '{gke-gcsfuse/volumes: "true"}'
    write_settings(tmp_path, f"stores: {{gcs: {{csi: {{{csi}, annotations: {annotations}}}}}}}\n")
    bucket = "{source: gs://weights/llm, config: {mount: {read_only: true}}}"
    script = f"file_mounts: {{/models: {bucket}}}\nrun: ls /models\n"
    done = sky("submit", "-", "--dry-run=server", "-o", "json", stdin=script)
    assert done.returncode == 0, done.stderr
    (job,) = (item for item in json.loads(done.stdout)["items"] if item["kind"] == "Job")
    template = job["spec"]["template"]
    assert template["metadata"]["annotations"]["gke-gcsfuse/volumes"] == "true"
    (volume,) = (item for item in template["spec"]["volumes"] if "csi" in item)
    assert volume["csi"] == {
        "driver": "gcsfuse.csi.storage.gke.io",
        "readOnly": True,
        "volumeAttributes": {"bucketName": "weights", "mountOptions": "implicit-dirs,only-dir=llm"},
    }
    assert "privileged" not in done.stdout
