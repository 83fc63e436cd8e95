"""Where the nodes of a task run, and how they reach each other and what they share."""

import json
from typing import Any

import pytest

from tests.e2e.command import Command
from tests.e2e.support import submit
from tests.nodes.support import NODES, hosts
from tests.polling import eventually

SMALL = {"image_id": "python:3.13-slim", "cpus": "50m", "memory": "64Mi"}
# Each rank answers with its number, and asks each of the addresses: that shows their order, too.
MEET = """
import os, socket, threading, time
rank = os.environ["SKYPILOT_NODE_RANK"]
addresses = os.environ["SKYPILOT_NODE_IPS"].split()
server = socket.create_server(("", 8701))

def answer():
    for _ in addresses:
        connection, _ = server.accept()
        connection.sendall(rank.encode())
        connection.close()

def ask(address):
    for _ in range(100):
        try:
            with socket.create_connection((address, 8701), 10) as connection:
                return connection.recv(9).decode()
        except ConnectionRefusedError:
            time.sleep(0.1)

thread = threading.Thread(target=answer)
thread.start()
print("reached", *map(ask, addresses), flush=True)
thread.join()
"""


def text(**fields: Any) -> str:
    """Return the file of a task of three nodes."""
    return json.dumps({"name": "three", "num_nodes": 3, "resources": SMALL} | fields)


@pytest.mark.parametrize("backend", ["jobs", "indexed"])
def test_three_nodes_run_on_three_cluster_nodes_and_reach_each_other(
    sky: Command, backend: str
) -> None:
    script = f"cat > meet.py <<'END'{MEET}END\npython3 meet.py\n"
    flags = ("--id", "meeting1", "--backend", backend)
    done = sky("submit", "-", *flags, stdin=text(run=script))
    assert done.returncode == 0, done.stderr
    lines = sorted(done.stdout.splitlines()[1:])
    assert lines == [f"node-{rank} | reached 0 1 2" for rank in range(3)]
    assert set(hosts(sky, "meeting1")) == NODES


def test_submit_exclude_node_runs_on_the_other_cluster_nodes(sky: Command) -> None:
    submit(sky, text(run="echo done"), "without1", "--exclude-node", "n2")
    assert sky("wait", "without1").returncode == 0
    assert set(hosts(sky, "without1")) == {"n1", "n3"}


def test_volume_of_many_writers_is_shared_by_three_cluster_nodes(sky: Command) -> None:
    created = sky("volumes", "create", "shared", "1Gi", "--access-modes", "RWX")
    assert created.returncode == 0, created.stderr
    script = "touch /data/$NODE_RANK; until [ $(ls /data | wc -l) = 3 ]; do sleep 0.1; done"
    submit(sky, text(volumes={"/data": "shared"}, run=script), "shared01")
    waited = sky("wait", "shared01")
    assert waited.returncode == 0, waited.stderr
    assert set(hosts(sky, "shared01")) == NODES


def test_ports_service_is_reached_from_other_cluster_nodes(sky: Command) -> None:
    """By its ClusterIP, which the kube-proxy of each cluster node leads to the pod."""
    serve = "mkdir www; echo hello > www/index.html; exec python3 -m http.server 8702 -d www"
    submit(sky, text(num_nodes=1, run=serve), "served01", "--ports", "8702")
    eventually(lambda: sky.json("ports", "served01")["ready"])
    (port,) = sky.json("ports", "served01")["ports"]
    (host,) = hosts(sky, "served01")

    fetch = f"from urllib.request import urlopen as u; print(u('http://{port['address']}').read())"
    asking = text(num_nodes=2, run=f'python3 -c "{fetch}"')
    done = sky("submit", "-", "--id", "asking01", "--exclude-node", host, stdin=asking)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()[1:]) == [f"node-{rank} | b'hello\\n'" for rank in (0, 1)]
    assert set(hosts(sky, "asking01")) == NODES - {host}


def test_cordoned_cluster_node_gets_no_node(sky: Command, kubectl: Command, faults: object) -> None:
    assert kubectl("cordon", "n2").returncode == 0
    submit(sky, text(run="echo done"), "cordon01")
    assert sky("wait", "cordon01").returncode == 0
    assert set(hosts(sky, "cordon01")) == {"n1", "n3"}
