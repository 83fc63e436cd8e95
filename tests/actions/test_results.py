"""Results of finished tasks: where they are, and what cp says if they are nowhere."""

from pathlib import Path

import pytest

from kubectl_sky.tasks.cp import CopyPath, parse_path
from tests.actions.conftest import Run, Submitter
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
