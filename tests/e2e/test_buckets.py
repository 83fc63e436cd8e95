"""Buckets and web files: copied before the task starts, synced, or mounted as the settings define.

The store is the S3 server of rclone, in a pod; it checks signatures.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import programs
from tests.cluster.marks import ON_REAL
from tests.cluster.shell import Broken, Unavailable, absent
from tests.cluster.target import Cluster
from tests.e2e.command import Command, submitted
from tests.e2e.support import evict, until_output, write_settings
from tests.polling import eventually

pytestmark = pytest.mark.builds("rclone")

IMAGE = "docker.io/rclone/rclone:1.68.2"
KEYS = {"AWS_ACCESS_KEY_ID": "AKID", "AWS_SECRET_ACCESS_KEY": "s3cr3tk3y"}
SERVE = """
mkdir -p /store/data/sub /store/empty /store/big
for i in 1 2 3 4 5; do
  truncate -s 1000000000 /store/big/old-$i && touch -d "2025-01-0$i 00:00" /store/big/old-$i
done
i=0; while [ $i -lt 300 ]; do echo "line $i" > "/store/data/sub/file $i"; i=$((i + 1)); done
head -c 3000000 /dev/urandom > /store/data/blob
sha256sum < /store/data/blob > /store/data/sum
exec "$0" --config "" serve s3 --addr "$POD_IP:8333" --auth-key AKID,s3cr3tk3y \\
  --etag-hash none --dir-cache-time 1s /store
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
        return str(programs.path("rclone"))
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


@pytest.mark.practice_only
@pytest.mark.usefixtures("settings")
def test_submit_missing_path_in_bucket_fails_task_with_message(sky: Command) -> None:
    script = "file_mounts: {/data: 's3://data/nothing'}\nrun: echo ran\n"
    done = sky("submit", "-", stdin=script)
    assert done.returncode == 4, done.stdout + done.stderr
    assert "ran" not in done.stdout.splitlines()
    status = json.dumps(sky.json("status", submitted(done)))
    assert "s3://data/nothing could not be copied: not found" in status


@pytest.mark.practice_only
@pytest.mark.usefixtures("settings")
def test_submit_bucket_with_wrong_key_fails_task(sky: Command, kubectl: Command) -> None:
    wrong = {"stringData": {"AWS_SECRET_ACCESS_KEY": "other"}}
    assert kubectl("patch", "secret", "aws-keys", "-p", json.dumps(wrong)).returncode == 0
    done = sky("submit", "-", stdin="file_mounts: {/data: 's3://data'}\nrun: echo ran\n")
    assert done.returncode == 4
    assert "SignatureDoesNotMatch" in json.dumps(sky.json("status", submitted(done)))


SYNC = """
name: sync
num_nodes: 2
resources: {{image_id: "busybox:1.36"}}
file_mounts:
  /data: {{source: s3://data/sub, mode: MOUNT}}
  ~/out: {{name: made, source: ./seed, mode: MOUNT}}
run: |
  test -s "/data/file 299" && rm "/data/file 0" && cat ~/out/seed || exit 9
  echo "by $SKYPILOT_NODE_RANK" > "$HOME/out/rank $SKYPILOT_NODE_RANK"
  mkdir ~/out/deep && echo changed > "/data/file 1" && ln -s "rank 0" ~/out/latest
{more}"""


def stored(kubectl: Command, path: str) -> str:
    """Return the content of a file in the store; empty if it does not exist."""
    return kubectl("exec", "store", "--", "cat", f"/store/{path}").stdout


@pytest.mark.parametrize(
    "user",
    [
        "",
        pytest.param(
            "config: {kubernetes: {pod_config: {spec: {securityContext: {runAsUser: 1000}}}}}\n"
            "envs: {HOME: /tmp/home}\n",
            marks=pytest.mark.cluster,
            id="non-root",
        ),
    ],
)
@pytest.mark.usefixtures("settings")
def test_submit_bucket_to_mount_is_synced(
    sky: Command, kubectl: Command, tmp_path: Path, user: str
) -> None:
    (tmp_path / "seed").mkdir()
    (tmp_path / "seed" / "seed").write_text("from here\n")
    done = sky("submit", "-", stdin=SYNC.format(more=user))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "(/data, ~/out): synced, not mounted" in done.stderr
    assert 'bucket "made" names no store; s3 is used' in done.stderr
    assert done.stdout.count("from here") == 2
    paths = ("data/sub/file 1", "data/sub/file 0", "made/seed", "made/rank 0", "made/rank 1")
    texts = ["changed\n", "line 0\n", "from here\n", "by 0\n", "by 1\n"]
    assert [stored(kubectl, path) for path in paths] == texts


@pytest.mark.usefixtures("settings")
def test_results_of_a_finished_task_are_copied_from_its_bucket(
    sky: Command, tmp_path: Path
) -> None:
    """By a client without the settings of the store: the pod has what those of the task had."""
    (tmp_path / "seed").mkdir()
    (tmp_path / "seed" / "seed").write_text("from here\n")
    done = sky("submit", "-", "--id", "outtask1", stdin=SYNC.format(more=""))
    assert done.returncode == 0, done.stdout + done.stderr
    write_settings(tmp_path, "{}\n")

    done = sky("cp", "outtask1:/data", ".", "--yes")
    assert done.returncode == 0, done.stderr
    assert len(list((tmp_path / "data").iterdir())) == 300
    assert (tmp_path / "data" / "file 1").read_text() == "changed\n"
    done = sky("cp", "outtask1:~/out/rank 1", "rank", "--yes")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "rank").read_text() == "by 1\n"
    eventually(lambda: sky("list", "-o", "name").stdout == "task/outtask1\n")  # its pods are gone

    done = sky("cp", "outtask1:/data/nope", ".", "--yes")
    assert done.returncode == 2
    assert "s3://data/sub/nope cannot be read: " in done.stderr
    assert "hint: to read it here: `aws s3 cp s3://data/sub/nope . --endpoint-url " in (done.stderr)


CHECKPOINTS = """
name: train
resources:
  image_id: "busybox:1.36"
  job_recovery: {max_restarts_on_errors: 1}
file_mounts:
  /ckpt: {source: s3://data/ckpt, mode: MOUNT_CACHED}
run: |
  step=$(cat /ckpt/step || echo 0)
  echo "begins at $step"
  test "$step" -eq 0 || exit 0
  while sleep 2; do step=$((step + 1)); echo $step > /ckpt/step; echo "saved $step"; done
"""


@pytest.mark.usefixtures("settings")
def test_task_evicted_resumes_from_checkpoint_in_bucket(
    sky: Command, kubectl: Command, namespace: str, cluster: Cluster
) -> None:
    done = sky("submit", "-", "--id", "resume01", "--detach", stdin=CHECKPOINTS)
    assert done.returncode == 0, done.stderr

    eventually(lambda: "saved 2" in sky("logs", "resume01").stdout, 90)
    (pod,) = kubectl.json("get", "pods", "-l", "task-id=resume01")["items"]
    name = pod["metadata"]["name"]
    if cluster.driver == "practice":  # it does not serve evictions
        assert kubectl("delete", "pod", name, "--wait=false").returncode == 0
    else:
        evict(kubectl, namespace, name)

    waited = sky("wait", "resume01", "--timeout", "100s")
    assert waited.returncode == 0, waited.stdout + waited.stderr

    step = int(stored(kubectl, "data/ckpt/step"))
    assert step >= 2
    assert f"begins at {step}" in sky("logs", "resume01").stdout


BIG = """
name: big
resources:
  image_id: "busybox:1.36"
  disk_size: 1
  job_recovery: {max_restarts_on_errors: 2}
file_mounts:
  /ckpt: {source: s3://big, mode: MOUNT}
config: {kubectl_sky: {sync: {/ckpt: {download: newest, delete: true}}}}
run: |
  step=$(cat /ckpt/step || echo 0)
  echo "begins at $step with $(ls /ckpt | grep -c old) old files"
  while [ $step -lt %s ]; do
    step=$((step + 1))
    echo $step > /ckpt/step-$step
    echo $step > /ckpt/step
    rm -f /ckpt/step-$((step - 2))
    sleep 1
  done
"""


def pod_of(kubectl: Command, task_id: str) -> str:
    """Return the newest pod of a task; empty without one."""
    pods = kubectl.json("get", "pods", "-l", f"task-id={task_id}")["items"]
    alive = [pod["metadata"] for pod in pods if "deletionTimestamp" not in pod["metadata"]]
    return max(alive, key=lambda item: item["creationTimestamp"])["name"] if alive else ""


def replace_pod(kubectl: Command, task_id: str, *flags: str) -> None:
    """Delete a task's pod, and wait for the next one."""
    name = pod_of(kubectl, task_id)
    assert kubectl("delete", "pod", name, "--wait=false", *flags).returncode == 0
    eventually(lambda: pod_of(kubectl, task_id) not in ("", name), 60)


@pytest.mark.practice_only
@pytest.mark.usefixtures("settings")
def test_task_with_bucket_larger_than_its_disk_resumes_after_each_kill(
    sky: Command, kubectl: Command
) -> None:
    done = sky("submit", "-", "--id", "bigger01", "--detach", stdin=BIG % 20)
    assert done.returncode == 0, done.stderr
    eventually(lambda: pod_of(kubectl, "bigger01"), 60)
    replace_pod(kubectl, "bigger01", "--grace-period=1")  # while it downloads, or soon after

    eventually(lambda: "begins at" in sky("logs", "bigger01").stdout, 60)
    replace_pod(kubectl, "bigger01", "--grace-period=2")  # as it runs and writes back
    waited = sky("wait", "bigger01", "--timeout", "50s")
    assert waited.returncode == 0, waited.stdout + waited.stderr

    logs = sky("logs", "bigger01").stdout
    step = int(logs.partition("begins at ")[2].split()[0])
    assert step > 0
    assert f"begins at {step} with 0 old files" in logs
    assert "downloaded; 5 files, 5.0 GB only in the bucket" in logs
    assert "s3://big has 8 files, 5.0 GB" in logs
    sizes = kubectl("exec", "store", "--", "sh", "-c", "cd /store/big && stat -c %s old-*").stdout
    assert sizes.split() == ["1000000000"] * 5
    assert stored(kubectl, "big/step-20") == "20\n"


@pytest.mark.practice_only
@pytest.mark.usefixtures("settings")
def test_task_whose_bucket_is_deleted_uses_no_more_restarts(sky: Command, kubectl: Command) -> None:
    script = """
resources:
  image_id: "busybox:1.36"
  job_recovery: {max_restarts_on_errors: 3}
file_mounts: {/out: {source: s3://empty, mode: MOUNT}}
run: echo started && exec sleep 600
"""
    done = sky("submit", "-", "--id", "deleted1", "--detach", stdin=script)
    assert done.returncode == 0, done.stderr
    eventually(lambda: "started" in sky("logs", "deleted1").stdout, 60)
    assert kubectl("exec", "store", "--", "rm", "-r", "/store/empty").returncode == 0
    replace_pod(kubectl, "deleted1", "--grace-period=1")
    assert sky("wait", "deleted1", "--timeout", "50s").returncode == 4

    task = sky.json("status", "deleted1")
    assert task["metadata"]["restarts"] == 1  # for the deleted pod
    message = "s3://empty could not be copied: "
    assert message in task["metadata"]["nodes"][0]["message"]
    assert message in sky("list").stdout and message in sky("status", "deleted1").stdout


WRITE = """
resources: {image_id: "busybox:1.36"}
file_mounts: {/out: {source: s3://data/out, mode: MOUNT}}
run: |
  for i in 1 2 3; do head -c 4000000 /dev/urandom > /out/$i; done
  %s
"""


@pytest.mark.usefixtures("settings")
def test_task_whose_files_cannot_be_written_back_fails(sky: Command, kubectl: Command) -> None:
    script = WRITE % "echo written; until [ -e /out/go ]; do sleep 0.2; done; rm /out/go"
    done = sky("submit", "-", "--id", "unsaved1", "--detach", stdin=script)
    assert done.returncode == 0, done.stderr
    eventually(lambda: "written" in sky("logs", "unsaved1").stdout, 60)
    # Not by force: its program could live until the files are written.
    assert kubectl("delete", "pod", "store", "--grace-period=1").returncode == 0
    assert sky("exec", "unsaved1", "--", "touch", "/out/go").returncode == 0
    waited = sky("wait", "unsaved1", "--timeout", "200s", timeout=220)
    assert waited.returncode == 4, waited.stdout + waited.stderr
    message = "3 files, 12.0 MB not written back to s3://data/out ("
    assert message in json.dumps(sky.json("status", "unsaved1"))
    assert message in sky("logs", "unsaved1").stdout


@pytest.mark.usefixtures("settings")
def test_task_stopped_before_files_are_written_back_says_how_many(
    sky: Command, kubectl: Command
) -> None:
    slow = {"stringData": {"RCLONE_BWLIMIT": "50k"}}
    assert kubectl("patch", "secret", "aws-keys", "-p", json.dumps(slow)).returncode == 0
    grace = "config: {kubernetes: {pod_config: {spec: {terminationGracePeriodSeconds: 20}}}}\n"
    script = grace + WRITE % "echo written; exec sleep 600"
    done = sky("submit", "-", "--id", "unsaved2", "--detach", stdin=script)
    assert done.returncode == 0, done.stderr
    eventually(lambda: "written" in sky("logs", "unsaved2").stdout, 60)
    kubectl("delete", "pod", "-l", "task-id=unsaved2", "--wait=false")
    waited = sky("wait", "unsaved2", "--timeout", "60s")
    assert waited.returncode == 4, waited.stdout + waited.stderr
    status = json.dumps(sky.json("status", "unsaved2"))
    assert "3 files, 12.0 MB not written back" in status, status


@ON_REAL
@pytest.mark.usefixtures("settings")
def test_task_with_ten_thousand_small_files_writes_all_back(sky: Command, kubectl: Command) -> None:
    run = "i=0; while [ $i -lt 10000 ]; do i=$((i + 1)); echo $i > /out/$i; done"
    script = WRITE.partition("run:")[0] + f"run: {run}\n"
    done = sky("submit", "-", stdin=script, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    count = kubectl("exec", "store", "--", "sh", "-c", "ls /store/data/out | wc -l").stdout
    assert count.strip() == "10000"


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


@ON_REAL
@pytest.mark.usefixtures("mpi", "settings")
def test_mpijob_writes_files_of_all_nodes_back(sky: Command, kubectl: Command) -> None:
    """The operator deletes the workers when rank 0 has finished."""
    script = """
num_nodes: 3
resources: {image_id: "mpioperator/openmpi:v0.8.0"}
file_mounts: {/out: {source: s3://data/out, mode: MOUNT}}
run: mpirun sh -c 'echo $OMPI_COMM_WORLD_RANK > /out/$OMPI_COMM_WORLD_RANK'
"""
    done = sky("submit", "-", "--backend", "mpijob", stdin=script)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [stored(kubectl, f"data/out/{rank}") for rank in range(3)] == ["0\n", "1\n", "2\n"]
