"""`compare` over a cluster in memory."""

import json
from pathlib import Path

import pytest

from kubectl_sky.words import kinds, names
from tests.actions.conftest import Run, Submitter
from tests.fake_cluster import FakeCluster

FIRST = "aaaa2345"
SECOND = "bbbb2345"


@pytest.fixture(autouse=True)
def tasks(send: Submitter, api: FakeCluster) -> None:
    """Two tasks of one name, with another rate and script, on other types of cluster nodes."""
    for task_id, rate, loss in ((FIRST, "0.1", b"loss=2"), (SECOND, "0.2", b"loss=1 acc=9")):
        script = f"run: |\n  echo begin\n  train --rate {rate}\n"
        send(f"name: exp\nenvs: {{LR: {rate}, EPOCHS: 3}}\n{script}", task_id=task_id)
        pod = api.start(f"exp-{task_id}")
        api.log(pod, b"loss=9\n" + loss + b"\n")
        item = api.get(kinds.POD, pod)
        item["spec"]["nodeName"] = f"host-{rate}"
        item["status"]["containerStatuses"][0]["imageID"] = "repo@sha256:1"
        api.put(item)
        labels = {"node.kubernetes.io/instance-type": f"type-{rate}"}
        metadata = {"name": f"host-{rate}", "labels": labels}
        api.put({"apiVersion": "v1", "kind": "Node", "metadata": metadata})
    api.finish(f"exp-{SECOND}", 3)


def test_compare_shows_what_differs_and_the_last_numbers(run: Run) -> None:
    code, out, _ = run("compare", FIRST, SECOND)
    lines = out.splitlines()
    assert code == 0
    header = ["TASK", "STATUS", "EXIT", "TIME", "loss", "run", "node", "type"]
    assert lines[0].split() == header
    assert lines[1].split()[:3] == ["exp", "LR=0.1", "running"]
    assert lines[2].split()[:4] == ["exp", "LR=0.2", "failed", "3"]
    assert lines[1].endswith("type-0.1")
    assert "-train --rate 0.1" in lines
    assert "+train --rate 0.2" in lines


def test_compare_as_json_has_all_fields(run: Run) -> None:
    document = json.loads(run("compare", "exp*", FIRST, SECOND, "-o", "json")[1])
    first = next(task for task in document["tasks"] if task["task_id"] == FIRST)
    assert first["fields"]["image digest"] == "repo@sha256:1"
    assert first["fields"]["envs.EPOCHS"] == "3"
    assert document["differing"] == ["envs.LR", "run", "node type"]
    assert document["metrics"] == ["loss"]


def test_compare_without_rights_to_cluster_nodes_or_logs_has_the_rest(
    run: Run, api: FakeCluster
) -> None:
    api.before("list nodes", lambda: 403)
    for number in (1, 2):
        api.before("get pods/log", lambda: 403, nth=number)
    code, out, _ = run("compare", FIRST, SECOND)
    assert code == 0
    assert out.splitlines()[0].split() == ["TASK", "STATUS", "EXIT", "TIME", "run"]


@pytest.mark.parametrize("text", ["x: [", "a: &a [*a]", "a: {[b]: c}"])
def test_compare_takes_an_invalid_file_of_a_task_as_none(
    run: Run, api: FakeCluster, text: str
) -> None:
    kept = api.get(kinds.CONFIG_MAP, f"exp-{FIRST}")
    kept["data"][names.TASK_FILE] = text
    api.put(kept)
    code, out, err = run("compare", FIRST, SECOND, "-o", "json")
    assert code == 0, err
    first = next(task for task in json.loads(out)["tasks"] if task["task_id"] == FIRST)
    assert "envs.LR" not in first["fields"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (FIRST, "compare needs two tasks or indexes"),
        (f"{FIRST} {SECOND}:4", f"task {SECOND} has no rank 4"),
    ],
)
def test_compare_of_one_task_or_a_missing_index_is_refused(
    run: Run, words: str, message: str
) -> None:
    code, _, err = run("compare", *words.split())
    assert code == 2
    assert message in err


def test_compare_name_of_several_tasks_hints_at_the_command_that_compares_them(run: Run) -> None:
    code, _, err = run("compare", "exp")
    assert (code, "hint: compare all tasks named exp*: `kubectl sky compare 'exp*'`" in err) == (
        2,
        True,
    )
    assert run("compare", "exp*")[0] == 0


def test_compare_of_a_sweep_compares_its_indexes(
    run: Run, send: Submitter, api: FakeCluster, tmp_path: Path
) -> None:
    send("name: sweep\nrun: x\n", task_id="cccc2345", sweep=("LR=0.1,0.2", "SEED=1..2"))
    code, out, _ = run("compare", "sweep")
    assert code == 0
    rows = [line.split() for line in out.splitlines()]
    assert rows[0] == ["TASK", "STATUS", "EXIT", "TIME"]
    assert rows[4] == ["sweep", "LR=0.2", "SEED=2", "pending"]
    assert len(run("compare", "sweep:0", "cccc2345:3")[1].splitlines()) == 3
