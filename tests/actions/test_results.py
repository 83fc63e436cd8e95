"""Results of finished tasks: where they are, and what cp says where it cannot copy them."""

from pathlib import Path

import pytest

from kubectl_sky.cli.volume_pods import bucket_task
from kubectl_sky.cluster import exec as executing
from kubectl_sky.cluster.exec import Pipes, Program
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import ClusterError
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.tasks import find
from kubectl_sky.tasks.cp import CopyPath, parse_path
from kubectl_sky.tasks.find import Scope
from tests.actions.conftest import Run, Submitter, lose
from tests.builders import ID
from tests.fake_cluster import FakeCluster


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("vol/data:run7", CopyPath("run7", volume="data")),
        ("volume/data:", CopyPath("", volume="data")),
        ("vol/my.vol:run", CopyPath("run", volume="my.vol")),
        ("train:/out", CopyPath("/out", task="train")),
        ("vol:/out", CopyPath("/out", task="vol")),
        ("./vol/data:x", CopyPath("./vol/data:x")),
        ("vol/data", CopyPath("vol/data")),
    ],
)
def test_paths_of_volumes_tasks_and_this_machine_are_told_apart(text: str, path: CopyPath) -> None:
    assert parse_path(text) == path


@pytest.fixture
def finish(run: Run, send: Submitter, api: FakeCluster) -> None:
    """A finished task that had a volume at /data."""
    claim = {"metadata": {"name": "results"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    api.put({"apiVersion": "v1", "kind": "PersistentVolumeClaim", **claim})
    send("name: train\nvolumes: {/data: results}\nrun: x\n")
    api.start(f"train-{ID}")
    api.finish(f"train-{ID}")


@pytest.mark.usefixtures("finish")
def test_status_and_hints_of_a_finished_task_name_its_volume(run: Run) -> None:
    step = f"kubectl sky cp {ID}:/data ."
    assert f"Results:    {step}\n" in run("status", ID)[1]
    code, _, err = run("exec", ID, "--", "ls")
    assert code == 2
    assert f"hint: what it wrote to /data: `{step}`" in err
    volumes = run("status", ID, "-o", "jsonpath={.metadata.volumes[*].path}")[1]
    assert volumes == "/data"


@pytest.mark.usefixtures("finish")
def test_cp_of_a_path_on_a_volume_asks_before_it_starts_a_pod(run: Run, api: FakeCluster) -> None:
    code, _, err = run("cp", f"{ID}:/data/out", ".")
    assert code == 2
    assert "no running pod mounts PVC" in err
    assert "start one to open it? (stdin is not a terminal)" in err
    assert len([name for name in api.names() if name.startswith("jobs ")]) == 1


@pytest.mark.usefixtures("finish")
@pytest.mark.parametrize("path", ["results", "/tmp/out"])
def test_cp_of_a_path_on_no_volume_says_what_to_write_next_time(run: Run, path: str) -> None:
    code, _, err = run("cp", f"{ID}:{path}", ".")
    assert code == 2
    assert f'task {ID} has ended, and "{path}" was on no volume that is known here\n' in err
    assert "hint: its volumes are /data; write results there the next time" in err


def test_cp_of_a_task_without_volumes_names_the_field(
    run: Run, send: Submitter, api: FakeCluster
) -> None:
    send("name: train\nrun: x\n")
    api.start(f"train-{ID}")
    api.finish(f"train-{ID}")
    assert "hint: write `volumes: {/data: NAME}` in its file" in run("cp", f"{ID}:out", ".")[2]


def test_cp_of_a_volume_that_does_not_exist_is_refused(run: Run) -> None:
    code, _, err = run("cp", "vol/nope:a", ".", "--yes")
    assert (code, 'volume or PVC "nope" not found' in err) == (2, True)


def test_cp_of_a_volume_ignores_pvcs_of_other_namespaces(run: Run, api: FakeCluster) -> None:
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "results"}}
    api.put(claim)
    api.namespace = "other"
    api.put(claim)
    Path("task.yaml").write_text("name: train\nvolumes: {/data: results}\nrun: x\n")
    submitted = run("submit", "task.yaml", "--id", ID, "--detach", "-n", "other")
    assert submitted[0] == 0, submitted
    api.start(f"train-{ID}")

    api.namespace = "default"
    code, _, err = run("cp", "vol/results:x", ".", "-A")
    assert (code, 'no running pod mounts PVC "results"' in err) == (2, True), err


BUCKETS = """
name: train
file_mounts:
  /in: s3://data/images
  /out: {source: s3://data/runs, mode: MOUNT}
  /model.bin: https://example.com/model.bin?key=s3cr3t
secrets: {AWS_ACCESS_KEY_ID: AKID}
run: x
"""


def _finish(send: Submitter, api: FakeCluster, task: str) -> TaskStatus:
    send(task)
    api.start(f"train-{ID}")
    api.finish(f"train-{ID}")
    return find.get_task(api.session(), Scope("default", None), ID)


def test_results_of_a_task_are_in_the_bucket_that_it_could_write(
    run: Run, send: Submitter, api: FakeCluster
) -> None:
    task = _finish(send, api, BUCKETS)
    step = f"kubectl sky cp {ID}:/out ."
    assert task.results_step == step
    assert f"Results:    {step}\n" in run("status", ID)[1]
    err = run("exec", ID, "--", "ls")[2]
    assert f"hint: what it wrote to s3://data/runs: `{step}`" in err


def test_cp_of_a_path_in_a_bucket_asks_before_it_starts_a_pod(
    run: Run, send: Submitter, api: FakeCluster
) -> None:
    _finish(send, api, BUCKETS)
    code, _, err = run("cp", f"{ID}:/out/7", ".")
    assert code == 2
    assert "has ended: start a pod to read s3://data/runs? (stdin is not a terminal)" in err
    assert len([name for name in api.names() if name.startswith("jobs ")]) == 1


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (
            [f"{ID}:/in", "."],
            "and /in was a copy of s3://data/images: what it wrote there is lost",
            "to read it here: `aws s3 cp s3://data/images . --recursive`",
        ),
        (
            [f"{ID}:/in/run7/a.pt", "."],
            "and /in was a copy of s3://data/images: what it wrote there is lost",
            "to read it here: `aws s3 cp s3://data/images/run7/a.pt .`;"
            " a folder: `aws s3 cp --recursive …`",
        ),
        (
            [f"{ID}:/model.bin", "."],
            "and /model.bin was a copy of https://example.com/model.bin: what it wrote there",
            "read https://example.com/model.bin with a program of its store, such as rclone",
        ),
        (
            [".", f"{ID}:/out"],
            "and a bucket is only read then: s3://data/runs",
            "copy to it with a program of its store",
        ),
        (
            [f"{ID}:/tmp", "."],
            'and "/tmp" was on no volume that is known here',
            "its volumes are /in, /out, /model.bin; write results there the next time",
        ),
    ],
)
def test_cp_that_no_pod_can_do_says_why_and_what_does_it(
    run: Run, send: Submitter, api: FakeCluster, words: list[str], message: str, hint: str
) -> None:
    _finish(send, api, BUCKETS)
    code, _, err = run("cp", *words, "--yes")
    assert code == 2
    assert message in err
    assert f"hint: {hint}\n" in err
    assert len([name for name in api.names() if name.startswith("jobs ")]) == 1


def test_pod_that_reads_a_bucket_has_what_the_pods_of_its_task_had(
    send: Submitter, api: FakeCluster
) -> None:
    task = _finish(send, api, BUCKETS)
    bucket = task.buckets[1]
    reader = bucket_task(bucket)
    assert reader["resources"]["image_id"] == "docker.io/rclone/rclone:1.68.2"
    (container,) = reader["config"]["kubernetes"]["pod_config"]["spec"]["containers"]
    env = {item.pop("name"): item for item in container["env"]}
    assert env["RCLONE_CONFIG_SRC_PROVIDER"] == {"value": "AWS"}
    key = {"name": f"train-{ID}", "key": "AWS_ACCESS_KEY_ID"}
    assert env["AWS_ACCESS_KEY_ID"] == {"valueFrom": {"secretKeyRef": key}}
    assert not [name for name in env if name.startswith("KUBECTL_SKY_")]
    assert container["securityContext"]["runAsUser"] == 1000


def test_pod_that_reads_a_bucket_has_the_identity_and_the_registry_of_its_task(
    send: Submitter, api: FakeCluster
) -> None:
    config = """config:
  kubernetes:
    pod_config:
      metadata: {labels: {azure.workload.identity/use: "true"}, annotations: {eks/x: y}}
      spec: {imagePullSecrets: [{name: registry}]}
"""
    task = _finish(send, api, BUCKETS + config)
    reader = bucket_task(task.buckets[1])["config"]["kubernetes"]["pod_config"]
    assert reader["metadata"]["labels"] == {"azure.workload.identity/use": "true"}
    assert reader["metadata"]["annotations"] == {"eks/x": "y"}
    assert reader["spec"]["imagePullSecrets"] == [{"name": "registry"}]


def test_pod_for_a_copy_that_cannot_be_deleted_is_named(
    run: Run, api: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start() -> None:
        (job,) = [name.split()[1] for name in api.names() if name.startswith("jobs volume-reader")]
        api.start(job)

    def execute(session: Session, program: Program, pipes: Pipes) -> int:
        raise ClusterError("the files have changed")

    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "results"}}
    api.put(claim)
    api.after("create jobs", start)
    monkeypatch.setattr(executing, "run", execute)
    lose(api, "delete jobs")
    code, _, err = run("cp", "vol/results:x", ".", "--yes")
    (task_id,) = [name[-8:] for name in api.names() if name.startswith("jobs volume-reader")]
    assert code == 3
    assert f"warning: the pod of task {task_id} may still run: " in err
    assert f"`kubectl sky stop {task_id}` deletes it\n" in err
    assert "error: the files have changed" in err
