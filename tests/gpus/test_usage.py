"""`usage` and `list -o wide`: GPU-hours, over a cluster in memory."""

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from kubectl_sky.cli import output
from kubectl_sky.cli import tasks as task_tables
from kubectl_sky.cluster.session import Session
from kubectl_sky.tasks import history
from kubectl_sky.tasks.find import Scope, list_tasks
from kubectl_sky.words import kinds, names
from tests import clock, fake_cluster
from tests.actions.conftest import Run, Submitter
from tests.builders import ID
from tests.fake_cluster import FakeCluster
from tests.test_documents import check

TASK = "name: train\nresources: {accelerators: 2}\nrun: echo hello\n"
JOB = f"train-{ID}"
OTHER = "qwrt2345"
NOTE = "counted: {} with GPUs; not counted: deleted tasks\n".format
INEXACT = "not exact: 1 task with deleted pods or Jobs; waiting for a cluster node may be counted\n"


def ago(hours: float) -> str:
    time = datetime.fromisoformat(fake_cluster._now()) - timedelta(hours=hours)
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")


def start(api: FakeCluster, job: str, hours: float) -> None:
    """Start the pod of a Job some hours ago, on the cluster node gpu-7."""
    pod = api.start(job)
    item: Any = api.get(kinds.POD, pod)
    spec = item["spec"]
    status = item["status"] | {"startTime": ago(hours)}
    api.change(kinds.POD, pod, spec=spec | {"nodeName": "gpu-7"}, status=status)
    api.change(kinds.JOB, job, status={"active": 1, "startTime": ago(hours + 1)})


@pytest.fixture(autouse=True)
def _tasks(api: FakeCluster, send: Submitter, monkeypatch: pytest.MonkeyPatch) -> None:
    """A running task with two GPUs since three hours, one without, and the cluster node."""
    now = clock.stop(monkeypatch, fake_cluster, task_tables)
    monkeypatch.setattr(Session, "now", lambda _: now)
    labels = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}
    api.put({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "gpu-7", "labels": labels}})
    send(TASK)
    start(api, JOB, 3)
    send("name: small\nrun: echo\n", task_id=OTHER)
    start(api, f"small-{OTHER}", 3)


def finish(api: FakeCluster, hours: float) -> None:
    """Complete the task some hours ago, and let its pod be deleted."""
    api.finish(JOB)
    job: Any = api.get(kinds.JOB, JOB)
    (end,) = job["status"]["conditions"]
    condition = end | {"lastTransitionTime": ago(hours)}
    status = {"startTime": ago(4), "succeeded": 1, "conditions": [condition]}
    api.change(kinds.JOB, JOB, status=status)
    api.remove(kinds.POD, f"{JOB}-0")


def test_usage_adds_up_by_gpu_of_cluster_node(run: Run) -> None:
    code, out, err = run("usage", "--by", "gpu")
    assert (code, err) == (0, NOTE("1 task"))
    assert out == "GPU         TASKS   GPU-HOURS\nA100-80GB   1       6.0\n"


def test_usage_since_cuts_earlier_hours(run: Run) -> None:
    assert run("usage", "--since", "1h")[1].split()[-3:] == ["alice", "1", "2.0"]


def test_usage_without_right_to_list_cluster_nodes_has_no_model(run: Run, api: FakeCluster) -> None:
    api.forbidden.add("list nodes")
    code, out, _ = run("usage", "--by", "gpu")
    assert (code, out.split()[-3:]) == (0, ["nvidia.com/gpu", "1", "6.0"])


def test_usage_json_says_what_was_counted(run: Run) -> None:
    document = json.loads(run("usage", "--since", "7d", "-o", "json")[1])
    check(document)
    row = {"key": "alice", "tasks": 1, "gpu_hours": 6.0}
    assert document["rows"] == [row]
    assert document["total"] == row | {"key": "total"}
    assert document["inexact_tasks"] == 0


def test_usage_counts_finished_task_without_pods(run: Run, api: FakeCluster) -> None:
    finish(api, 1)
    _, out, err = run("usage")
    assert out.split()[-3:] == ["alice", "1", "6.0"]
    assert err == NOTE("1 task") + INEXACT, "it may have waited"
    wide = [line.split() for line in run("list", "-o", "wide")[1].splitlines()]
    assert {line[1]: line[-1] for line in wide[1:]} == {"train": "6.0", "small": "-"}
    job: Any = api.get(kinds.JOB, JOB)
    job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "team"
    api.put(job)
    _, out, err = run("usage")
    assert out.split()[-3:] == ["alice", "1", "6.0"]
    assert err == NOTE("1 task"), "it was admitted when it started"


def test_usage_of_task_without_pods_has_the_model_that_it_requests(
    run: Run, api: FakeCluster
) -> None:
    affinity = {"key": "nvidia.com/gpu.product", "operator": "In", "values": ["NVIDIA-L4"]}
    term = {"nodeSelectorTerms": [{"matchExpressions": [affinity]}]}
    job: Any = api.get(kinds.JOB, JOB)
    spec = job["spec"]["template"]["spec"]
    spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": term}}
    api.put(job)
    finish(api, 1)
    assert run("usage", "--by", "gpu")[1].split()[-3:] == ["L4", "1", "6.0"]


def test_usage_deleted_task_is_not_counted(run: Run) -> None:
    assert run("stop", ID, "-y")[0] == 0
    hint = "hint: only GPUs are counted; `kubectl sky top TASK` shows CPU and memory\n"
    assert run("usage") == (0, "", NOTE("0 tasks") + hint)


def test_usage_needs_cluster_nodes_only_for_models(run: Run, api: FakeCluster) -> None:
    api.requests.clear()
    run("list")
    default = sorted(api.requests)
    api.requests.clear()
    run("usage")
    assert sorted(api.requests) == default
    run("usage", "--by", "gpu")
    assert [request for request in api.requests if "nodes" in request]


def test_list_wide_has_gpu_hours_and_default_has_not(run: Run, api: FakeCluster) -> None:
    lines = [line.split() for line in run("list", "-o", "wide")[1].splitlines()]
    assert lines[0][-2:] == ["GPU-HOURS", "REASON"]
    hours = {line[1]: line[-1] for line in lines[1:]}
    assert hours == {"train": "6.0", "small": "-"}
    assert "GPU-HOURS" not in run("list")[1]
    assert run("stop", ID, "-y")[0] == 0
    assert "GPU-HOURS" not in run("list", "-o", "wide")[1], "no task has GPUs"


def test_list_wide_of_all_contexts_has_gpu_hours(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    parts = {"clusters": "cluster", "users": "user"}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "contexts": [{"name": "west", "context": {"cluster": "a", "user": "b"}}],
        **{key: [{"name": key[0], name: {}}] for key, name in parts.items()},
    }
    (tmp_path / "config").write_text(json.dumps(config))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    code, out, err = run("list", "-o", "wide", "--all-contexts")
    assert (code, err) == (0, "")
    assert out == "west:\n" + run("list", "-o", "wide")[1]


def test_list_wide_with_watch_has_gpu_hours(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def show(screen: output.LiveText, text: str) -> None:
        output.out(text)
        raise KeyboardInterrupt

    monkeypatch.setattr(output.LiveText, "show", show)
    code, out, _ = run("list", "-o", "wide", "--watch")
    listed = run("list", "-o", "wide")[1]
    assert (code, out.split()[-2:]) == (130, listed.split()[-2:])
    assert out.split()[6] == listed.split()[6] == "GPU-HOURS"


def test_list_wide_sends_no_more_requests(run: Run, api: FakeCluster) -> None:
    run("list")
    api.requests.clear()
    run("list")
    default = sorted(api.requests)
    api.requests.clear()
    run("list", "-o", "wide")
    assert sorted(api.requests) == default


def test_usage_has_bars_on_a_terminal(
    run: Run, send: Submitter, api: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(TASK.replace("train", "long"), task_id="long2345")
    start(api, "long-long2345", 6)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    long, train, total = (line.split() for line in run("usage", "--by", "name")[1].splitlines()[1:])
    assert (long[0], long[-1], train[-1]) == ("long", "#" * 20, "#" * 10)
    assert total == ["total", "2", "18.0"]


def annotate(api: FakeCluster, text: str) -> None:
    metadata: Any = api.get(kinds.JOB, JOB)["metadata"]
    metadata["annotations"][names.GOODPUT] = text
    api.change(kinds.JOB, JOB, metadata=metadata)


def test_usage_and_list_show_recorded_goodput(run: Run, api: FakeCluster) -> None:
    finish(api, 1)
    assert "goodput" not in run("usage")[2]
    assert "GOODPUT" not in run("list", "-o", "wide")[1]
    annotate(api, '{"uses": {"queue": 100, "start": 50, "steps": 150}, "steps": 9}')
    assert (
        "goodput: 75% of the GPU-hours of 1 finished task went into new steps\n" in run("usage")[2]
    )
    goodput = json.loads(run("usage", "-o", "json")[1])["goodput"]
    assert goodput == {"percent": 75.0, "known": 1, "finished": 1}
    head, *rows = run("list", "-o", "wide")[1].splitlines()
    column = head.split().index("GOODPUT")
    assert {row.split()[1]: row.split()[column] for row in rows} == {"train": "50%", "small": "-"}
    assert json.loads(run("status", ID, "-o", "json")[1])["metadata"]["goodput_percent"] == 50.0


def test_status_goodput_without_pods_shows_what_was_recorded(run: Run, api: FakeCluster) -> None:
    finish(api, 1)
    annotate(api, '{"uses": {"queue": 100, "start": 50, "steps": 150}, "steps": 9}')
    out = run("status", ID, "--goodput")[1]
    assert "50% of 5m went into new steps" in out
    assert "its logs are gone: recorded of node-0 when the task ended" in out

    history.record(api.session(), "default", list_tasks(api.session(), Scope("default", None)), 9)
    api.remove(kinds.JOB, JOB)
    assert run("status", ID)[0] == 2
    code, again, _ = run("status", ID, "--goodput")
    assert (code, again) == (0, out)
    assert " 50%" in run("list", "--deleted", "-o", "wide")[1]
