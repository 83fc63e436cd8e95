"""Strangers at the start barrier of a task in a cluster, and the token that keeps them out."""

import base64
import json
from typing import Any

import pytest
import yaml

from tests.e2e.command import Command

TASK = """
name: ring
num_nodes: 3
run: |
  echo "addresses $(echo $SKYPILOT_NODE_IPS)"
  env | grep -c TOKEN
  true
"""

# A pod that calls rank 0 with lines of all kinds, with an endless line, and with silence.
STRANGER = """
import os, socket, time

silent = []
while True:
    for text in (b"2 6.6.6.6;$(id)\\n", b"2 REDACTED\\n", b"x" * 10_000_000, b""):
        try:
            silent.append(socket.create_connection((os.environ["TARGET"], 61137), 5))
            silent[-1].sendall(text)
        except OSError as error:
            print(error, flush=True)
        print("called", flush=True)
    del silent[:-20]
    time.sleep(0.1)
"""


def stranger(target: str) -> dict[str, Any]:
    container = {
        "name": "main",
        "image": "python:3.13-slim",
        "command": ["python3", "-c", STRANGER],
        "env": [{"name": "TARGET", "value": target}],
    }
    spec = {"terminationGracePeriodSeconds": 1, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "stranger"}, "spec": spec}


def apply(kubectl: Command, *items: object) -> None:
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    done = kubectl("apply", "-f", "-", stdin=text)
    assert done.returncode == 0, done.stderr


def address(kubectl: Command, selector: str) -> str:
    waited = kubectl("wait", "--for=condition=Ready", "pod", "-l", selector, "--timeout=90s")
    assert waited.returncode == 0, waited.stderr
    (pod,) = kubectl.json("get", "pods", "-l", selector)["items"]
    return str(pod["status"]["podIP"])


def test_barrier_with_stranger_in_cluster_gives_correct_addresses(
    sky: Command, kubectl: Command
) -> None:
    """The last node starts after the stranger has called rank 0."""
    done = sky("render", "-", "--id", "barrier1", "--show-secrets", stdin=TASK)
    assert done.returncode == 0, done.stderr
    *items, last = yaml.safe_load_all(done.stdout)
    assert last["metadata"]["labels"]["node-idx"] == "2"
    apply(kubectl, *items)
    right = [address(kubectl, f"task-id=barrier1,node-idx={rank}") for rank in (0, 1)]
    apply(kubectl, stranger(right[0]))
    kubectl("wait", "--for=condition=Ready", "pod/stranger", "--timeout=90s")
    apply(kubectl, last)
    ended = kubectl(
        "wait", "--for=condition=Complete", "job", "-l", "task-id=barrier1", "--timeout=90s"
    )
    assert ended.returncode == 0, ended.stderr
    (pod,) = kubectl.json("get", "pods", "-l", "task-id=barrier1,node-idx=2")["items"]
    right.append(pod["status"]["podIP"])
    for rank in range(3):
        lines = kubectl("logs", f"job/ring-barrier1-node-{rank}").stdout.splitlines()
        assert lines == [f"addresses {' '.join(right)}", "0"]
    assert "called" in kubectl("logs", "stranger").stdout


@pytest.mark.practice_only
def test_barrier_token_is_only_in_secret_and_unchanged(sky: Command, kubectl: Command) -> None:
    arguments = ("submit", "-", "--id", "barrier2", "--detach")
    assert sky(*arguments, stdin=TASK).returncode == 0
    (secret,) = kubectl.json("get", "secrets", "-l", "task-id=barrier2")["items"]
    (token,) = (base64.b64decode(value).decode() for value in secret["data"].values())
    assert len(token) > 40
    again = sky(*arguments, stdin=TASK)
    assert again.returncode == 0, again.stderr
    assert sky("wait", "barrier2").returncode == 0
    assert kubectl.json("get", "secrets", "-l", "task-id=barrier2")["items"] == [secret]
    everything = kubectl("get", "configmaps,jobs,pods,services", "-o", "yaml").stdout
    shown = everything + sky("logs", "barrier2").stdout + sky("render", "-", stdin=TASK).stdout
    shown += sky("submit", "-", "--id", "barrier2", "--dry-run=client", stdin=TASK).stdout
    assert token not in shown
    assert secret["data"]["KUBECTL_SKY_TOKEN"] not in shown


def test_barrier_rendered_task_without_secrets_uses_dns(sky: Command, kubectl: Command) -> None:
    text = TASK + "resources: {image_id: 'busybox:1.36'}\n"
    done = sky("render", "-", "--id", "barrier3", "--user", "tester", stdin=text)
    assert kubectl("apply", "-f", "-", stdin=done.stdout).returncode == 0
    assert sky("wait", "barrier3").returncode == 0
    logs = sky("logs", "barrier3").stdout
    assert logs.count("addresses") == 3
    assert len({line.partition("|")[2] for line in logs.splitlines() if "addresses" in line}) == 1
    again = sky("submit", "-", "--id", "barrier3", "--detach", stdin=text)
    assert again.returncode == 0, again.stderr
