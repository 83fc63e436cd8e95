"""`logs` of several nodes, and of nodes without a log, over a cluster in memory."""

import json
from pathlib import Path

import pytest

from kubectl_sky.words import kinds
from tests.actions.conftest import Run, Submitter
from tests.builders import ID
from tests.fake_cluster import FakeCluster

NODES = [f"ring-{ID}-node-{rank}" for rank in range(3)]


@pytest.fixture
def ring(api: FakeCluster, send: Submitter) -> None:
    """A finished task of three nodes, each of which wrote three lines, the last without newline."""
    send("name: ring\nnum_nodes: 3\nrun: echo\n")
    for rank, node in enumerate(NODES):
        api.log(api.start(node), b"start of %d\nloss\nno newline" % rank)
        api.finish(node)


def lines(*ranks: int) -> str:
    texts = ("start of {}", "loss", "no newline")
    return "".join(f"node-{rank} | {text.format(rank)}\n" for rank in ranks for text in texts)


@pytest.mark.usefixtures("ring")
@pytest.mark.parametrize(
    ("flags", "out"),
    [
        ("", lines(0, 1, 2)),
        ("--since 10000d", lines(0, 1, 2)),
        ("--rank 1", lines(1)),
        ("--rank 1 --tail 2", "node-1 | loss\nnode-1 | no newline\n"),
        ("--rank 0,2 --tail 1", "node-0 | no newline\nnode-2 | no newline\n"),
        ("--rank 1-2 --grep ^(start|no) -o raw", "start of 1\nno newline\nstart of 2\nno newline"),
        ("--rank 1 --color always --tail 1", "\x1b[32mnode-1 |\x1b[0m no newline\n"),
    ],
)
def test_logs_flags_choose_lines_of_nodes(run: Run, api: FakeCluster, flags: str, out: str) -> None:
    api.log(f"{NODES[0]}-0", b"")
    assert run("logs", ID, *flags.replace("1h", "10000d").split()) == (0, out, "")


@pytest.mark.usefixtures("ring")
def test_logs_json_has_a_document_per_line(run: Run) -> None:
    documents = [json.loads(line) for line in run("logs", ID, "-o", "json")[1].splitlines()]
    starts = [(item["rank"], item["text"]) for item in documents if "start" in item["text"]]
    assert starts == [(rank, f"start of {rank}") for rank in range(3)]
    assert {item["task"] for item in documents} == {ID}
    assert [item["pod"] for item in documents[::3]] == [f"{node}-0" for node in NODES]
    assert all(item["time"].startswith("2026-01-01T00:00:00.") for item in documents)


@pytest.mark.usefixtures("ring")
def test_logs_output_dir_has_a_file_per_node(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    flags = ("--output-dir", str(folder), "--max-log-requests", "1")
    code, out, _ = run("logs", ID, "-f", *flags)
    assert (code, out) == (0, "")
    assert {path.name: path.read_text() for path in folder.iterdir()} == {
        f"{ID}-node-{rank}.log": f"start of {rank}\nloss\nno newline" for rank in range(3)
    }
    code, _, err = run("logs", ID, "--output-dir", "/dev/null/x")
    assert (code, "cannot write to /dev/null/x" in err) == (2, True)


@pytest.mark.parametrize(
    ("flags", "order", "note"),
    [
        ("", "0101", ""),
        ("--tail 1", "01", ""),
        ("--by-node", "0011", ""),
        ("--max-log-requests 1", "0011", "--max-log-requests 2 prints them in order of time"),
    ],
)
def test_logs_of_alternating_nodes_come_in_order_of_time(
    run: Run, api: FakeCluster, send: Submitter, flags: str, order: str, note: str
) -> None:
    send("name: ring\nnum_nodes: 2\nrun: echo\n")
    pods = [api.start(node) for node in NODES[:2]]
    for pod in pods * 2:
        api.log(pod, b"step\n")
    for node in NODES[:2]:
        api.finish(node)
    code, out, err = run("logs", ID, *flags.split())
    assert (code, out) == (0, "".join(f"node-{rank} | step\n" for rank in order))
    assert (note in err) if note else not err


def test_logs_of_pending_node_print_reason_and_time_out(
    run: Run, api: FakeCluster, send: Submitter
) -> None:
    send("name: slow\nrun: echo\n")
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    condition["message"] = "0/1 nodes are available: 1 Insufficient cpu."
    status = {"phase": "Pending", "conditions": [condition]}
    api.change(kinds.POD, api.start(f"slow-{ID}"), status=status)
    code, out, err = run("logs", ID)
    assert (code, out) == (0, "")
    assert (
        err
        == "node-0 has not started: 1/1 cluster nodes have insufficient cpu: a node requests 0\n"
    )

    code, _, err = run("logs", ID, "-f", "--wait-timeout", "0.2")
    assert code == 1

    cause = "1/1 cluster nodes have insufficient cpu: a node requests 0"
    assert f"slow: pending: {cause}" in err
    assert f"error: task {ID} did not start in time: {cause}" in err


@pytest.mark.usefixtures("ring")
def test_logs_of_deleted_pods_say_why_there_are_none_and_how_to_keep_them(
    run: Run, api: FakeCluster
) -> None:
    for node in NODES[1:]:
        api.remove(kinds.POD, f"{node}-0")
    code, out, err = run("logs", ID)
    assert (code, out) == (0, lines(0))
    told = [f"node-{rank} no longer has a log: its pod was deleted" for rank in (1, 2)]
    *notes, hint = err.splitlines()
    assert notes == told
    assert hint.startswith("hint: a log is deleted with its pod; to keep it, write `config:")
