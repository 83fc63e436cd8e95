"""A failed node of several, over a cluster in memory: what `wait` says and stops."""

from functools import partial

import pytest

from kubectl_sky.words import kinds
from tests.actions.conftest import Run, Submitter
from tests.builders import ID, condition
from tests.fake_cluster import FakeCluster

NODES = [f"pair-{ID}-node-{rank}" for rank in range(2)]


@pytest.fixture(autouse=True)
def pair(api: FakeCluster, send: Submitter) -> None:
    """A task whose two nodes run."""
    send("name: pair\nnum_nodes: 2\nrun: sleep 300\n")
    for node in NODES:
        api.start(node)


def test_wait_continue_failed_node_stops_remaining_nodes_once(run: Run, api: FakeCluster) -> None:
    api.finish(NODES[1], 3)
    failed = f"task/{ID} (pair) failed: node-1: exit code 3\n"
    note = "pair: node-1: exit code 3; the other nodes"
    code, out, err = run("wait", ID)
    assert (code, out) == (4, failed)
    assert err == f"{note} go on; `kubectl sky wait {ID} --continue` stops them\n"
    code, out, err = run("wait", ID, "--continue")
    assert (code, out, err) == (4, failed, f"{note} are being stopped\n")
    assert api.writes[-1] == f"patch jobs {NODES[0]}"
    assert run("wait", ID, "--continue") == (4, failed, "")


def test_wait_job_that_failed_before_its_pod_is_read_reports_exit_code(
    run: Run, api: FakeCluster
) -> None:
    """Jobs and pods are watched apart: the Job of a failed node may come first."""
    failed = condition("Failed", "BackoffLimitExceeded") | {"lastTransitionTime": api._now()}
    api.after(
        "watch pods", lambda: api.change(kinds.JOB, NODES[1], status={"conditions": [failed]})
    )
    api.before("list pods", partial(api.finish, NODES[1], 3), nth=2)
    code, out, _ = run("wait", ID)
    assert (code, out) == (4, f"task/{ID} (pair) failed: node-1: exit code 3\n")
