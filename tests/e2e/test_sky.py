"""Scripts of SkyPilot's Python API on the practice cluster."""

import io
from pathlib import Path

import pytest

from kubectl_sky import sky
from kubectl_sky.sky.exceptions import ClusterDoesNotExist

pytestmark = pytest.mark.practice_only


@pytest.fixture(autouse=True)
def _in_cluster(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Let this process use the kubeconfig and the home of the test."""
    for name in ("HOME", "KUBECONFIG"):
        monkeypatch.setenv(name, environment[name])
    for kind in ("CONFIG", "CACHE", "STATE"):
        monkeypatch.delenv(f"XDG_{kind}_HOME", raising=False)
    monkeypatch.chdir(tmp_path)


def test_launch_files_logs_queue_exec_and_down(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "words").write_text("from a file\n")
    task = sky.Task(
        "train", setup="mkdir -p out", run='cat /tmp/data/words; echo "$WORD"', num_nodes=2
    )
    task.set_resources({sky.Resources(sky.Kubernetes(), cpus="0.1+")})
    task.set_file_mounts({"/tmp/data": "./data"}).update_envs({"WORD": "done"})

    output = io.StringIO()
    request = sky.launch(task, cluster_name="mine", idle_minutes_to_autostop=1, down=True)
    job_id, handle = sky.stream_and_get(request, output_stream=output)
    assert (handle.cluster_name, handle.launched_nodes) == ("mine", 2)
    assert job_id in output.getvalue()

    log = io.StringIO()
    assert sky.tail_logs("mine", job_id, follow=True, output_stream=log) == 0
    lines = log.getvalue().splitlines()
    assert {"from a file", "done", "(node-1) from a file", "(node-1) done"} <= {*lines}

    again, _ = sky.exec(sky.Task(run="cat /tmp/data/words; exit 3"), cluster_name="mine")
    lines = list(sky.tail_logs("mine", job_id, follow=False, preload_content=False))
    assert "from a file\n" in lines
    assert sky.tail_logs("mine", again, follow=True, output_stream=log) == 100
    # Both may have been created in the same second, so they have no order.
    states = {row["job_id"]: row["status"] for row in sky.get(sky.queue("mine"))}
    assert states == {again: sky.JobStatus.FAILED, job_id: sky.JobStatus.SUCCEEDED}
    assert [row["status"].value for row in sky.status(cluster_names=["mine"])] == ["STOPPED"]

    sky.get(sky.down("mine"))
    with pytest.raises(ClusterDoesNotExist):
        sky.get(sky.queue("mine"))


def test_pipeline_stages_go_on_while_the_program_runs() -> None:
    small = sky.Resources(cpus="0.1+")
    with sky.Dag() as dag:
        first = sky.Task("first", run="echo one", resources=small)
        second = sky.Task("second", run="echo two", resources=small)
        first >> second

    ids, _ = sky.get(sky.jobs.launch(dag, name="both"))
    log = io.StringIO()
    assert sky.jobs.tail_logs(job_id=ids, output_stream=log) == 0
    assert log.getvalue() == "one\ntwo\n"
    rows = sky.get(sky.jobs.queue(refresh=False, job_ids=ids))
    assert {row["task_name"]: row["status"].value for row in rows} == {
        "first": "SUCCEEDED",
        "second": "SUCCEEDED",
    }
    sky.get(sky.jobs.cancel(job_ids=ids))
