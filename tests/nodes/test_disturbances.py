"""Cluster nodes whose link is cut, or whose kubelet stops, and which come back."""

import json
import time

import pytest

from tests.cluster.node_faults import NodeFaults
from tests.e2e.command import Command
from tests.e2e.support import submit
from tests.nodes.support import NODES, hosts, until_lines

RESOURCES = {"image_id": "python:3.13-slim", "cpus": "50m", "memory": "64Mi"}


def count(seconds: int) -> str:
    """Return the file of a task of three nodes that print a line a second."""
    run = f"for i in $(seq {seconds}); do echo line $i; sleep 1; done"
    return json.dumps({"name": "lines", "num_nodes": 3, "resources": RESOURCES, "run": run})


def lines(seconds: int) -> list[str]:
    """Return all of its output, sorted."""
    return sorted(f"node-{rank} | line {i + 1}" for rank in range(3) for i in range(seconds))


@pytest.mark.parametrize("backend", ["jobs", pytest.param("indexed", marks=pytest.mark.faults)])
def test_logs_follow_cut_cluster_node_prints_every_line_once(
    sky: Command, faults: NodeFaults, backend: str
) -> None:
    """For half a minute: then its pods are not marked as lost yet."""
    submit(sky, count(45), "cutnode1", "--backend", backend)
    follower = sky.start("logs", "cutnode1", "-f")
    waiter = sky.start("wait", "cutnode1")
    until_lines(sky, "cutnode1", "line 3\n", 3)
    host = hosts(sky, "cutnode1")[1]
    faults.cut(host)
    time.sleep(30)
    faults.join(host)

    out, err = follower.communicate(timeout=90)
    assert (follower.returncode, sorted(out.splitlines())) == (0, lines(45)), err
    _, err = waiter.communicate(timeout=30)
    assert waiter.returncode == 0, err
    assert set(hosts(sky, "cutnode1")) == NODES


@pytest.mark.faults
def test_followers_of_silent_cluster_node_that_comes_back_miss_no_line(
    sky: Command, faults: NodeFaults
) -> None:
    """Kubelet and container runtime stop for two minutes, in which the program goes on."""
    follower = sky.start("submit", sky.write("t.yaml", count(150)), "--id", "silent01")
    until_lines(sky, "silent01", "line 3\n", 3)
    reader = sky.start("logs", "silent01", "-f")
    waiter = sky.start("wait", "silent01")
    host = hosts(sky, "silent01")[2]
    faults.pause(host)
    time.sleep(120)
    faults.resume(host)

    for process in (follower, reader):
        out, err = process.communicate(timeout=120)
        printed = [line for line in out.splitlines() if line.startswith("node-")]
        assert (process.returncode, sorted(printed)) == (0, lines(150)), err
    _, err = waiter.communicate(timeout=30)
    assert waiter.returncode == 0, err
