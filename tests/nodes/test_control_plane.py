"""A control plane that does not answer for a while, with kubelets on three cluster nodes."""

import json
import signal
import time

import pytest

from tests.cluster.node_faults import NodeFaults
from tests.e2e.command import Command
from tests.e2e.support import kill_api_server_during_submit
from tests.nodes.support import hosts, until_lines

pytestmark = [pytest.mark.faults, pytest.mark.timeout(300)]

RESOURCES = {"image_id": "busybox:1.36", "cpus": "10m", "memory": "16Mi"}
LINES = 60
COUNT = f"for i in $(seq {LINES}); do echo line $i; sleep 1; done"


def text(nodes: int, run: str) -> str:
    task = {"name": "many", "num_nodes": nodes, "resources": RESOURCES, "run": run}
    return json.dumps(task)


def test_submit_with_killed_api_server_creates_every_job_once(
    sky: Command, kubectl: Command, faults: NodeFaults
) -> None:
    process = sky.start("submit", sky.write("t.yaml", text(20, "echo done")), "--id", "killed01")
    out = kill_api_server_during_submit(kubectl, faults, process, "killed01", nodes=20, seconds=10)
    printed = [line for line in out.splitlines() if line.startswith("node-")]
    assert sorted(printed) == sorted(f"node-{rank} | done" for rank in range(20))
    assert set(hosts(sky, "killed01")) == {"n1", "n2", "n3"}


def test_commands_with_stopped_etcd_go_on_afterwards(sky: Command, faults: NodeFaults) -> None:
    """Of a running task no line is lost, and what is submitted meanwhile runs once."""
    follower = sky.start("submit", sky.write("t.yaml", text(3, COUNT)), "--id", "etcdrun1")
    until_lines(sky, "etcdrun1", "line 3\n", 3)
    waiter = sky.start("wait", "etcdrun1")
    faults.send(signal.SIGSTOP, "etcd")
    second = sky.start("submit", sky.write("u.yaml", text(3, "echo done")), "--id", "etcdnew1")
    time.sleep(20)
    faults.send(signal.SIGCONT, "etcd")

    out, err = second.communicate(timeout=120)
    assert second.returncode == 0, out + err
    assert out.count("| done\n") == 3
    out, err = follower.communicate(timeout=120)
    assert follower.returncode == 0, err
    printed = [line for line in out.splitlines() if line.startswith("node-")]
    expected = [f"node-{rank} | line {i + 1}" for rank in range(3) for i in range(LINES)]
    assert sorted(printed) == sorted(expected), err
    _, err = waiter.communicate(timeout=60)
    assert waiter.returncode == 0, err
