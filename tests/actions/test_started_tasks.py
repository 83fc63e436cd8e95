"""Tasks that cannot start, wait in a queue, or run a service once, over a cluster in memory."""

import time
from pathlib import Path

import pytest

from kubectl_sky.tasks import pending
from kubectl_sky.words import kinds
from tests.actions.conftest import Run, Submitter
from tests.builders import ID
from tests.fake_cluster import FakeCluster

SERVICE = (
    "name: hello\nservice: {readiness_probe: /, replicas: 2}\nresources: {ports: 80}\nrun: x\n"
)
POOL = "name: p\npool: {workers: 2}\nsetup: echo ready\n"


@pytest.mark.parametrize("text", [SERVICE, POOL], ids=["service", "pool"])
def test_submit_service_or_pool_requires_as_task(run: Run, api: FakeCluster, text: str) -> None:
    Path("task.yaml").write_text(text)
    code, _, err = run("submit", "task.yaml")
    assert (code, "--as-task" in err) == (2, True)
    assert ("kubectl sky serve up" in err) is (text is SERVICE)
    # render and validate take a service as `serve` does
    assert run("render", "task.yaml")[0] == (0 if text is SERVICE else 2)
    assert run("validate", "--strict", "task.yaml")[0] == (0 if text is SERVICE else 2)
    assert api.writes == []
    code, _, err = run("submit", "task.yaml", "--as-task", "--detach")
    assert (code, "run as one task: one " in err) == (0, True), err


def test_submit_provision_timeout_of_file_is_the_limit_of_the_start(run: Run) -> None:
    Path("task.yaml").write_text("run: x\nconfig: {kubernetes: {provision_timeout: 1}}\n")
    code, _, err = run("submit", "task.yaml")
    assert (code, "did not start in time" in err) == (1, True), err


def test_submit_time_in_queue_does_not_count_as_start(
    run: Run, api: FakeCluster, send: Submitter, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("_FIRST_LOOK", "_LOOK_INTERVAL"):
        monkeypatch.setattr(pending, name, 0.1)
    queue = kinds.LOCAL_QUEUE
    api.kinds |= {queue, kinds.QUEUED_WORKLOAD}
    api.put({"apiVersion": queue.api_version, "kind": queue.kind, "metadata": {"name": "team"}})
    send("name: patient\nrun: x\nconfig: {kubernetes: {kueue: {local_queue_name: team}}}\n")
    job = f"patient-{ID}"
    spec = api.get(kinds.JOB, job)["spec"]
    assert spec["suspend"] is True
    status = run("status", ID)[1]
    assert "pending (queued) — node-0: Queued" in status
    assert "in the queue team" in status

    def admit() -> None:
        api.change(kinds.JOB, job, spec=spec | {"suspend": False})
        api.log(api.start(job), b"let in\n")
        api.finish(job)

    api.after("list workloads", admit, nth=30)
    begun = time.monotonic()
    code, out, err = run("logs", ID, "-f", "--wait-timeout", "2")
    assert time.monotonic() - begun > 2
    assert (code, out) == (0, "let in\n"), err


def test_doctor_of_completed_and_failed_tasks(run: Run, api: FakeCluster, send: Submitter) -> None:
    send("name: ring\nnum_nodes: 3\nrun: x\n")
    nodes = [f"ring-{ID}-node-{rank}" for rank in range(3)]
    for node in nodes:
        api.start(node)
        api.finish(node)
    assert "no problem seen" in run("doctor", ID)[1]
    for node, exit_code in zip(nodes, (3, 3, 4), strict=True):
        api.finish(node, exit_code)
    for command in ("doctor", "why"):
        out = run(command, ID)[1]
        assert "node-0 to node-1: exit code 3" in out
        assert "node-2: exit code 4" in out


def test_gpus_of_running_task_are_counted_for_its_owner(
    run: Run, api: FakeCluster, send: Submitter
) -> None:
    labels = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}
    sizes = {"cpu": "8", "nvidia.com/gpu": "8"}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "worker-1", "labels": labels}}
    ready = {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": sizes}
    api.put(node | {"status": ready, "spec": {}})
    send("name: train\nresources: {accelerators: 'A100-80GB:2'}\nrun: x\n")
    pod = api.start(f"train-{ID}")
    api.change(kinds.POD, pod, spec=api.get(kinds.POD, pod)["spec"] | {"nodeName": "worker-1"})
    code, out, err = run("gpus")
    assert code == 0, err
    assert "ACCELERATOR" in out and "MOST ON ONE" in out
    assert "CLUSTER NODES" in out and "MACHINE" not in out
    assert "alice" in out


def test_top_without_metrics_api_is_cluster_error(
    run: Run, api: FakeCluster, send: Submitter
) -> None:
    send("name: train\nrun: x\n")
    api.start(f"train-{ID}")
    code, out, err = run("top", ID)
    assert (code, out) == (3, "")
    assert "no metrics API" in err and "metrics-server" in err
