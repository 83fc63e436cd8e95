"""The verdict of `doctor` where the eye is: at the end of a failure, and in lists."""

from collections.abc import Callable
from typing import Any

import pytest

from kubectl_sky.errors import TaskFailed
from kubectl_sky.words import kinds
from kubectl_sky.workloads import job_status
from tests.actions.conftest import Run, Submitter
from tests.builders import ID
from tests.fake_cluster import FakeCluster

HELLO = "name: hello\nrun: echo hello\n"
JOB = f"hello-{ID}"
PIPELINE = "name: both\n---\nname: one\nrun: 'true'\n---\nname: two\nrun: 'true'\n"
NO_TORCH = b"ModuleNotFoundError: No module named 'torch'\n"
VERDICT = 'Python module "torch" not found; image python:3.13-slim'
ADVICE = "install it in setup, or use an image that has it"


def lack_torch(api: FakeCluster, job: str = JOB) -> None:
    """Let a pod fail; its termination message is the end of its log."""
    api.log(api.start(job), NO_TORCH)
    api.finish(job, 1, message=NO_TORCH.decode())


def lack_volume(api: FakeCluster, pod: str) -> None:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    message = '0/1 nodes are available: persistentvolumeclaim "x" not found.'
    status = {"phase": "Pending", "conditions": [condition | {"message": message}]}
    api.change(kinds.POD, pod, status=status | {"containerStatuses": []})


def test_follow_failed_task_ends_with_the_verdict_of_its_log(
    api: FakeCluster, send: Submitter
) -> None:
    send.ui.then = lambda: lack_torch(api)
    with pytest.raises(TaskFailed) as caught:
        send(HELLO, follow=True)
    assert caught.value.what == f"task {ID} (hello) failed: node-0: exit code 1: {VERDICT}"
    assert caught.value.hint == ADVICE


def test_wait_failed_task_ends_with_the_verdict_of_its_log(
    run: Run, api: FakeCluster, send: Submitter
) -> None:
    send(HELLO)
    lack_torch(api)
    code, out, err = run("wait", ID)
    cause = 'exit code 1: Python module "torch" not found'
    assert (code, out) == (4, f"task/{ID} (hello) failed: node-0: {cause}\n")
    assert err == f"task/{ID} (hello): {VERDICT}\nhint: {ADVICE}\n"


def test_wait_failed_task_of_unknown_cause_has_no_verdict(
    run: Run, api: FakeCluster, send: Submitter
) -> None:
    send(HELLO)
    api.start(JOB)
    api.finish(JOB, 3)
    assert run("wait", ID)[2] == ""


@pytest.mark.parametrize(
    "text",
    [
        b"unable to retrieve container logs for containerd://8eb79a197d71",
        b'failed to try resolving symlinks in path "/var/log/pods/a_b_c/main/0.log": lstat'
        b" /var/log/pods/a_b_c/main/0.log: no such file or directory",
    ],
    ids=["container", "file"],
)
def test_doctor_does_not_take_a_missing_log_for_last_lines(
    run: Run, api: FakeCluster, send: Submitter, text: bytes
) -> None:
    send(HELLO)
    api.log(api.start(JOB), text)
    api.finish(JOB, 3)
    out = run("doctor", ID)[1]
    assert "exit code 3" in out and "last lines" not in out
    assert text[:20].decode() not in out


def fail_to_pull(api: FakeCluster, pod: str) -> None:
    message = 'Back-off pulling image "x:1": ErrImagePull: dial tcp: lookup x: no such host'
    state = {"waiting": {"reason": "ImagePullBackOff", "message": message}}
    containers = [{"name": "main", "state": state}]
    api.change(kinds.POD, pod, status={"phase": "Pending", "containerStatuses": containers})


UNWRITTEN = "3 files, 1.2 GB not written back to s3://box (a and 2 more): NoSuchBucket"
NO_RCLONE = "the image that copies buckets has no rclone: set fetch_image or fetch_program"


def fail_to_copy(api: FakeCluster, pod: str) -> None:
    """Let a pod fail before its program runs."""
    api.finish(JOB, 78)
    end = {"exitCode": 78, "reason": "Error", "message": f"{NO_RCLONE}\n"}
    waiting = {"name": "main", "state": {"waiting": {"reason": "PodInitializing"}}}
    copier = {"name": "bucket-0", "state": {"terminated": end}}
    statuses = {"containerStatuses": [waiting], "initContainerStatuses": [copier]}
    api.change(kinds.POD, pod, status={"phase": "Failed"} | statuses)


def fail_after(log: str) -> Callable[[FakeCluster, str], None]:
    """Let a pod fail; its termination message is the end of its log."""
    return lambda api, pod: api.finish(JOB, 1, message=log)


@pytest.mark.parametrize(
    ("trouble", "reason"),
    [
        (lack_volume, 'PVC "x" not found in namespace "default"'),
        (fail_to_pull, 'the cluster node cannot reach the registry of image "x:1": no such host'),
        (
            fail_after(f"Traceback:\n{NO_TORCH.decode()}"),
            'exit code 1: Python module "torch" not found',
        ),
        (fail_after("ValueError: no rank\nepoch 2\n"), "exit code 1: ValueError: no rank"),
        (fail_after("epoch 1\nepoch 2\n"), "exit code 1"),
        (fail_after(f"{UNWRITTEN}\n"), f"exit code 1: {UNWRITTEN}"),
        (fail_to_copy, f"exit code 78: {NO_RCLONE}"),
    ],
)
def test_list_pod_with_a_problem_has_its_cause_without_more_requests(
    run: Run,
    api: FakeCluster,
    send: Submitter,
    trouble: Callable[[FakeCluster, str], None],
    reason: str,
) -> None:
    send(HELLO)
    pod = api.start(JOB)
    before = len(api.requests)
    run("list")
    requests = len(api.requests) - before
    trouble(api, pod)
    before = len(api.requests)
    assert f"node-0: {reason}\n" in run("list")[1]
    assert len(api.requests) - before == requests


def test_doctor_sees_a_volume_that_came_after_the_task(
    run: Run, api: FakeCluster, send: Submitter
) -> None:
    send(HELLO + "volumes: {/data: x}\n")
    lack_volume(api, api.start(JOB))
    before = run("doctor", ID)[1]
    assert "next: create it: `kubectl sky volumes create x SIZE --pvc-name x`\n" in before
    run("volumes", "create", "x", "1Gi", "--storage-class", "")
    (pvc,) = [name.split()[1] for name in api.names() if name.startswith("persistentvolumeclaims")]
    text = " ".join(run("doctor", ID)[1].split())
    assert f'volume "x" came after the task: its PVC is "{pvc}" next: stop the task and' in text


def test_doctor_headline_on_a_narrow_terminal_breaks_between_words(
    run: Run, api: FakeCluster, send: Submitter, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(HELLO)
    lack_volume(api, api.start(JOB))
    piped = run("doctor", ID)[1].splitlines()[0]
    monkeypatch.setenv("COLUMNS", "50")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    first, second = run("doctor", ID)[1].splitlines()[:2]
    assert f"{first} {second}" == piped


def test_doctor_of_pipeline_explains_the_stage_that_stopped(
    run: Run, api: FakeCluster, send: Submitter
) -> None:
    send(PIPELINE)
    (job, *_) = sorted(name.split()[1] for name in api.names() if name.startswith("jobs one-"))
    lack_torch(api, job)
    code, out, err = run("doctor", ID)
    assert (code, err.startswith("stage 1 of 2: one, task/")) == (0, True)
    assert out.partition("\n")[0].endswith('(one) failed: Python module "torch" not found')


def test_doctor_of_a_sweep_names_the_index_by_its_values(
    run: Run, api: FakeCluster, send: Submitter
) -> None:
    send("name: sweep\nrun: x\n", sweep=("LR=0.1,0.2",))
    pod = api.get(kinds.POD, api.start(f"sweep-{ID}"))
    pod["metadata"].setdefault("annotations", {})["batch.kubernetes.io/job-completion-index"] = "1"
    waiting = {"reason": "ErrImagePull", "message": "lookup example.com: no such host"}
    pod["status"] = {
        "phase": "Pending",
        "containerStatuses": [{"name": "main", "state": {"waiting": waiting}}],
    }
    api.put(pod)
    assert "LR=0.2: the cluster node cannot reach the registry" in run("doctor", ID)[1]


@pytest.mark.parametrize(
    ("flags", "failed", "advice"),
    [
        (
            {"sweep": ("LR=0.1,0.2", "SEED=1..2")},
            "1,3",
            f"rerun only what failed: `kubectl sky rerun {ID} --sweep LR=0.1,0.2 --sweep SEED=2`",
        ),
        (
            {"sweep": ("LR=0.1,0.2", "SEED=1..2")},
            "1,2",
            f"rerun only LR=0.1 SEED=2: `kubectl sky rerun {ID} --sweep LR=0.1 --sweep SEED=2`",
        ),
        (
            {"array": "0-3"},
            "0-1,3",
            f"rerun only what failed: `kubectl sky rerun {ID} --array 0-1,3`",
        ),
    ],
)
def test_failed_indexes_of_an_array_have_the_command_that_reruns_only_them(
    run: Run, api: FakeCluster, send: Submitter, flags: dict[str, Any], failed: str, advice: str
) -> None:
    send("name: sweep\nrun: x\n", **flags)
    fail_indexes(api, failed)
    out, err = run("wait", ID)[1:]
    assert f"hint: {advice}\n" in err, out
    assert f"hint: {advice}\n" in run("logs", ID)[2]
    assert f" {advice}" in " ".join(run("doctor", ID)[1].split())


def test_failed_array_without_a_completed_index_has_no_command_to_rerun(
    run: Run, api: FakeCluster, send: Submitter
) -> None:
    send("name: sweep\nrun: x\n", array="0-3")
    fail_indexes(api, "0-3")
    assert "rerun" not in "".join(run("wait", ID)[1:]) + run("doctor", ID)[1]


def fail_indexes(api: FakeCluster, indexes: str) -> None:
    """Let indexes of an array of four fail; the others have completed."""
    condition = {"type": "Failed", "status": "True", "reason": "FailedIndexes"}
    numbers = {int(it) for it in job_status.list_indexes(indexes)}
    completed = ",".join(str(it) for it in range(4) if it not in numbers)
    status = {"failedIndexes": indexes, "completedIndexes": completed, "conditions": [condition]}
    api.change(kinds.JOB, f"sweep-{ID}", status=status)


def test_doctor_of_an_array_names_the_log_of_the_failed_index(
    run: Run, api: FakeCluster, send: Submitter
) -> None:
    send("name: sweep\nrun: x\n", array="0-3")
    pod = api.start(f"sweep-{ID}")
    item = api.get(kinds.POD, pod)
    item["metadata"].setdefault("annotations", {})[job_status.INDEX] = "2"
    api.put(item)
    api.finish(f"sweep-{ID}", 3)
    assert f"next: see `kubectl sky logs {ID} --rank 2`\n" in run("doctor", ID)[1]


def test_doctor_without_rights_prints_the_role_of_that_namespace(
    run: Run, api: FakeCluster
) -> None:
    api.forbidden = {"list jobs", "list pods"}
    out = run("doctor", "-n", "team")[1]
    assert out.endswith(
        "`kubectl sky doctor --role -n team` prints a Role for a cluster admin to apply\n"
    )


def test_doctor_of_user_without_extra_rights_lists_none_as_missing(
    run: Run, api: FakeCluster
) -> None:
    api.forbidden = {"list secrets", "list nodes", "create deployments"}
    code, out, _ = run("doctor")
    assert (code, "MISSING" in out) == (0, False)
    assert "Rights:     all that the commands need\n" in out
    assert "Extras:     without the rights of clean, serve, cluster" in out


def test_doctor_without_a_task_begins_with_those_that_are_not_well(
    run: Run, api: FakeCluster, send: Submitter
) -> None:
    send("name: train\nrun: x\n")
    assert run("doctor")[1].startswith("Context:"), "it just waits"
    api.start(f"train-{ID}")
    api.finish(f"train-{ID}", 3)
    first, second, *_ = run("doctor")[1].splitlines()
    assert first == f"task/{ID} (train) failed: node-0: exit code 3"
    assert second == f"next: kubectl sky doctor {ID}"

    api.forbidden = {"list jobs"}
    code, out, _ = run("doctor")
    assert (code, out.startswith("Context:")) == (3, True)


def test_list_forbidden_hints_at_doctor(run: Run, api: FakeCluster) -> None:
    api.forbidden = {"list jobs"}
    code, _, err = run("list")
    assert (code, "hint: run `kubectl sky doctor -n default` to see" in err) == (3, True)


@pytest.mark.parametrize(
    ("hosts", "is_bad"),
    [
        (["gpu-1", "gpu-7", "gpu-7", "gpu-7"], True),
        (["gpu-1", "gpu-1", "gpu-7", "gpu-7"], False),
        (["gpu-7", "gpu-7", "gpu-7", "gpu-7"], False),  # they ran nowhere else
    ],
)
def test_doctor_of_failed_task_names_node_on_which_most_have_failed(
    api: FakeCluster, run: Run, send: Submitter, hosts: list[str], is_bad: bool
) -> None:
    for number, host in enumerate(hosts):
        task_id = f"train00{number}"
        send("name: train\nrun: exit 3\n", task_id=task_id)
        pod = api.start(f"train-{task_id}")
        api.change(kinds.POD, pod, spec={"nodeName": host})
        api.finish(f"train-{task_id}", 3)
    headline, _, rest = run("doctor", "train003")[1].partition("\n")
    assert "exit code 3" in headline and "gpu-7" not in headline
    bad = "3 of the last 4 failed nodes of your tasks ran on gpu-7"
    assert (bad in rest, "next: submit with --exclude-node gpu-7" in rest) == (is_bad, is_bad)
