"""The token of the start barrier: where it is, and a task without it."""

import base64

import pytest

from tests.e2e.command import Command

TASK = """
name: ring
num_nodes: 3
run: |
  echo "addresses $(echo $SKYPILOT_NODE_IPS)"
  env | grep -c TOKEN
  true
"""


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
