"""Files too large for a ConfigMap are streamed to every pod when it starts."""

import os
from pathlib import Path

import pytest

from tests.e2e.command import Command
from tests.e2e.local_files import expected_listing, file_config_maps, fill_folder
from tests.polling import eventually


@pytest.fixture
def code(tmp_path: Path) -> Path:
    """A folder of 6 MB of random data, which does not compress."""
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "data").write_bytes(os.urandom(6_000_000))
    (folder / "main.sh").write_text("wc -c < data; cat version\n")
    (folder / "version").write_text("first\n")
    return folder


def test_submit_large_workdir_is_streamed_to_pods(
    sky: Command, kubectl: Command, tmp_path: Path
) -> None:
    fill_folder(tmp_path / "code", files=100, size=60_000)
    task = "workdir: code\nnum_nodes: 3\nfile_mounts: {~/again: code}\nrun: python3 seen.py\n"
    done = sky("submit", "-", "--id", "large001", stdin=task)
    assert done.returncode == 0, done.stderr
    assert "6.0 MB, sent directly to the pods\n" in done.stderr

    again = sky("submit", "-", "--id", "large001", "--detach", stdin=task)
    assert "6.0 MB, sent directly to the pods that lack them\n" in again.stderr
    assert file_config_maps(kubectl) == []

    expected = expected_listing(tmp_path / "code")
    for rank in range(3):
        prefix = f"node-{rank} | "
        lines = [
            printed.removeprefix(prefix)
            for printed in done.stdout.splitlines()
            if printed.startswith(prefix)
        ]
        assert [line for line in lines if "kubectl-sky: waiting" not in line] == expected


PIPELINE = """
name: line
---
name: one
workdir: code
run: sh main.sh
---
name: two
workdir: code
run: sh main.sh
"""


@pytest.mark.practice_only
def test_submit_pipeline_later_stage_gets_files_from_submit_time(sky: Command, code: Path) -> None:
    running = sky.start("submit", sky.write("line.yaml", PIPELINE))
    assert running.stdout
    for line in running.stdout:
        if line == "first\n":
            break
    (code / "version").write_text("second\n")
    out, err = running.communicate(timeout=120)
    assert running.returncode == 0, err
    assert "6.0 MB, sent directly to the pods, while this command runs\n" in err
    assert out.splitlines()[-2:] == ["6000000", "first"]


@pytest.mark.practice_only
@pytest.mark.usefixtures("code")
def test_submit_group_with_large_files_reaches_all_tasks(sky: Command) -> None:
    group = PIPELINE.replace("name: line", "name: both\nexecution: parallel")
    done = sky("submit", "-", stdin=group)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines.count("one | 6000000") == lines.count("two | 6000000") == 1, done.stdout


@pytest.mark.practice_only
@pytest.mark.usefixtures("code")
def test_submit_array_with_large_files_reaches_every_task(sky: Command) -> None:
    done = sky("submit", "-", "--array", "0,3,5%2", stdin="workdir: code\nrun: sh main.sh\n")
    assert done.returncode == 0, done.stderr
    for number in (0, 3, 5):
        assert f"index-{number} | 6000000\n" in done.stdout


# GNU tar sleeps for a second after each megabyte.
SLOW = """
workdir: code
envs: {TAR_OPTIONS: --checkpoint=100 --checkpoint-action=sleep=1}
"""


@pytest.mark.parametrize(
    ("cluster", "replaced"),
    [
        pytest.param("practice", False, marks=pytest.mark.practice),
        pytest.param("real", True, marks=pytest.mark.cluster),
    ],
    indirect=["cluster"],
)
@pytest.mark.usefixtures("code")
def test_submit_pod_deleted_during_upload_is_retried_or_fails(
    sky: Command, kubectl: Command, replaced: bool
) -> None:
    recovery = "resources: {job_recovery: {max_restarts_on_errors: 2}}\n" * replaced
    task = sky.write("task.yaml", f"{SLOW}{recovery}run: wc -c < data\n")
    running = sky.start("submit", task, "--id", "killed01")
    try:
        kill(kubectl, "killed01")
        out, err = running.communicate(timeout=120)
    finally:
        running.kill()
        running.communicate()

    if replaced:
        assert running.returncode == 0, err
        assert out.splitlines()[-1] == "6000000"
        return
    assert running.returncode == 4, err
    assert "task killed01: a node finished without its files\n" in err
    assert sky.json("status", "killed01")["status"] == "failed"


def kill(kubectl: Command, task: str) -> None:
    """Force-delete a task's pod during its upload."""
    selectors = ("-l", f"task-id={task}", "--field-selector", "status.phase=Running")
    pod = eventually(lambda: kubectl("get", "pods", *selectors, "-o", "name").stdout.strip())
    comes = "until [ -e /kubectl-sky/uploading-000 ]; do sleep 0.01; done"
    assert kubectl("exec", pod, "--", "sh", "-c", comes).returncode == 0
    killed = kubectl("delete", pod, "--force", "--grace-period=0", "--wait=false")
    assert killed.returncode == 0, killed.stderr


SMALL = """
file_mounts: {/small/data: code}
config:
  kubernetes:
    pod_config:
      spec:
        volumes: [{name: small, emptyDir: {medium: Memory, sizeLimit: 1Mi}}]
        containers: [{volumeMounts: [{name: small, mountPath: /small}]}]
run: 'true'
"""


@pytest.mark.parametrize("image", ["busybox:1.36", "python:3.13-slim"])
@pytest.mark.usefixtures("code")
def test_submit_volume_too_small_for_files_fails_task(sky: Command, image: str) -> None:
    done = sky("submit", "-", "--id", "full0001", "--image", image, stdin=SMALL)
    assert done.returncode == 4
    assert "the files for /small/data could not be unpacked: no space left in /sma" in done.stderr
    status = sky.json("status", "full0001")
    assert "no space left in /small/data" in status["metadata"]["nodes"][0]["message"]


@pytest.mark.practice_only
@pytest.mark.usefixtures("code")
def test_node_without_client_waits_for_files_then_fails(sky: Command, kubectl: Command) -> None:
    for task_id, seconds in (("waits001", 600), ("late0001", 2)):
        task = f"envs: {{KUBECTL_SKY_FILES_TIMEOUT: '{seconds}'}}\nworkdir: code\n"
        task += "num_nodes: 2\nrun: sh main.sh\n"
        manifests = sky("render", "-", "--id", task_id, stdin=task)
        assert kubectl("apply", "-f", "-", stdin=manifests.stdout).returncode == 0
    note = "waits for files; submit again with --id waits001 if no upload is running"

    def waits() -> bool:
        return bool(sky.json("status", "waits001")["metadata"]["note"] == f"node-0: {note}")

    assert eventually(waits)
    (row,) = (line for line in sky("list").stdout.splitlines() if line.startswith("waits001"))
    assert ("pending" in row, "0/2" in row, note in row) == (True, True, True), row
    waited = sky("wait", "waits001", "--timeout", "1s")
    assert note in waited.stderr
    assert "is pending: waits for files" in sky("doctor", "waits001").stdout
    assert sky("wait", "late0001", "--timeout", "60s").returncode == 4
    end = "upload timed out: no client connected (exit code 1)"
    assert end in sky.json("status", "late0001")["metadata"]["note"]
    assert "timed out after 2 s" in sky("doctor", "late0001").stdout
