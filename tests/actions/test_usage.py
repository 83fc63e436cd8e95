"""`usage` and `list -o wide`: GPU-hours, over a cluster in memory."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from kubectl_sky.actions import evidence, find
from kubectl_sky.actions.evidence import EvidenceRecorder
from kubectl_sky.cli import output
from kubectl_sky.cli.main import main
from kubectl_sky.words import kinds
from kubectl_sky.words.owners import named
from tests.actions.conftest import Run, Submitter
from tests.builders import ID
from tests.fake_cluster import FakeCluster
from tests.test_models import check

TASK = "name: train\nrun: echo hello\n"
OTHER = "qwrt2345"
NOTE = (
    "counted: {} with GPUs and {} recorded failed pod{}; not counted: other deleted pods\n".format
)


def ago(hours: float) -> str:
    return (datetime.now(UTC) - timedelta(hours=hours)).strftime("%Y-%m-%dT%H:%M:%SZ")


def start(api: FakeCluster, job: str, hours: float, gpus: int = 2) -> str:
    """Start the pod of a Job with GPUs, some hours ago, on the cluster node gpu-7."""
    pod = api.start(job)
    item: Any = api.get(kinds.POD, pod)
    limits = {"limits": {"nvidia.com/gpu": str(gpus)}} if gpus else {}
    spec = item["spec"] | {"nodeName": "gpu-7"}
    spec["containers"][0]["resources"] = limits
    api.change(kinds.POD, pod, spec=spec, status=item["status"] | {"startTime": ago(hours)})
    return pod


@pytest.fixture(autouse=True)
def _tasks(api: FakeCluster, send: Submitter) -> None:
    """A running task with two GPUs since three hours, one without, and the cluster node."""
    labels = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}
    api.put({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "gpu-7", "labels": labels}})
    send(TASK)
    start(api, f"train-{ID}", 3)
    send("name: small\nrun: echo\n", task_id=OTHER)
    start(api, f"small-{OTHER}", 3, gpus=0)


def prices(folder: Path, text: str) -> None:
    (folder / "settings.yaml").write_text(f"prices: {text}\n")


def test_usage_adds_up_by_gpu_of_cluster_node(run: Run) -> None:
    code, out, err = run("usage", "--by", "gpu")
    assert (code, err) == (0, NOTE("1 existing pod", 0, "s"))
    assert out == "GPU         TASKS   GPU-HOURS\nA100-80GB   1       6.0\n"


def test_usage_since_cuts_earlier_hours(run: Run) -> None:
    assert run("usage", "--since", "1h")[1].split()[-3:] == ["alice", "1", "2.0"]


def test_usage_without_right_to_list_cluster_nodes_has_no_model(run: Run, api: FakeCluster) -> None:
    api.forbidden.add("list nodes")
    code, out, _ = run("usage", "--by", "gpu")
    assert (code, out.split()[-3:]) == (0, ["nvidia.com/gpu", "1", "6.0"])


def test_usage_with_prices_has_cost(run: Run, tmp_path: Path) -> None:
    prices(tmp_path, "{A100: 1.25}")
    out = run("usage", "--by", "name")[1]
    assert out == "NAME    TASKS   GPU-HOURS   COST\ntrain   1       6.0         7.50\n"
    prices(tmp_path, "{H100: 1}")
    _, out, err = run("usage")
    assert out.split()[-1] == "-"
    assert err.endswith("warning: no price for A100-80GB: set prices in the settings\n")


def test_usage_json_says_what_was_counted(run: Run, tmp_path: Path) -> None:
    prices(tmp_path, "{A100: 1.25}")
    document = json.loads(run("usage", "--since", "7d", "-o", "json")[1])
    check(document)
    row = {"key": "alice", "tasks": 1, "gpu_hours": 6.0, "cost": 7.5}
    assert document["rows"] == [row]
    assert document["total"] == row | {"key": "total"}
    assert (document["pods"], document["recorded_pods"], document["unpriced"]) == (1, 0, [])


def test_usage_counts_recorded_pod_of_deleted_task(run: Run, api: FakeCluster) -> None:
    job = f"train-{ID}"
    api.finish(job, 3)
    pod = api.get(kinds.POD, f"{job}-0")
    api.change(kinds.POD, f"{job}-0", status=pod["status"] | {"startTime": ago(3)})
    ended: Any = api.get(kinds.POD, f"{job}-0")
    ended["status"]["containerStatuses"][0]["state"]["terminated"]["finishedAt"] = ago(1)
    api.put(ended)
    session = api.session()
    task = find.get_task(session, find.Scope("default", named("alice")), ID)
    EvidenceRecorder(session).record_failures(task, [ended])
    assert evidence.of_task(session, task)
    assert run("usage")[2] == NOTE("1 existing pod", 0, "s"), "it is not counted twice"
    assert run("stop", ID, "-y")[0] == 0
    code, out, err = run("usage")
    assert (code, out.split()[-3:]) == (0, ["alice", "1", "4.0"])
    assert err == NOTE("0 existing pods", 1, "")
    api.user = "bob"
    assert run("usage")[1:] == ("", NOTE("0 existing pods", 0, "s"))


def test_usage_pod_with_forged_labels_is_not_counted(run: Run, api: FakeCluster) -> None:
    pod: Any = api.get(kinds.POD, f"train-{ID}-0")
    pod["metadata"] |= {"name": "forged", "ownerReferences": []}
    pod["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "1000"}}
    api.put(pod)
    assert run("usage")[1].split()[-3:] == ["alice", "1", "6.0"]


def test_list_wide_has_gpu_hours_and_default_has_not(run: Run, api: FakeCluster) -> None:
    lines = [line.split() for line in run("list", "-o", "wide")[1].splitlines()]
    assert lines[0][-2:] == ["GPU-HOURS", "NOTE"]
    hours = {line[1]: line[-1] for line in lines[1:]}
    assert hours == {"train": "6.0", "small": "-"}
    assert "GPU-HOURS" not in run("list")[1]
    api.remove(kinds.POD, f"train-{ID}-0")
    assert "GPU-HOURS" not in run("list", "-o", "wide")[1], "no task has GPUs"


def test_list_wide_of_all_contexts_has_gpu_hours(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    names = {"clusters": "cluster", "users": "user"}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "contexts": [{"name": "west", "context": {"cluster": "a", "user": "b"}}],
        **{key: [{"name": key[0], name: {}}] for key, name in names.items()},
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
    assert (code, out) == (130, run("list", "-o", "wide")[1])


def test_list_wide_sends_no_more_requests(run: Run, api: FakeCluster) -> None:
    run("list")
    api.requests.clear()
    run("list")
    default = sorted(api.requests)
    api.requests.clear()
    run("list", "-o", "wide")
    assert sorted(api.requests) == default


def test_usage_help_says_what_is_not_counted(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["usage", "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "Stopped tasks and other deleted pods are not known to the cluster." in text
