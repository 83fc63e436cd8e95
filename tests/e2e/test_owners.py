"""Owners of tasks: identity, similar user names, and RBAC."""

import re

import pytest

from tests.cluster.target import Cluster
from tests.e2e.command import Command

QUICK = "name: mine\nresources: {image_id: 'busybox:1.36'}\nrun: sleep 300\n"


def submit(sky: Command, task_id: str, *flags: str) -> None:
    done = sky("submit", "-", "--id", task_id, "--detach", *flags, stdin=QUICK)
    assert done.returncode == 0, done.stderr


def ids(sky: Command, *flags: str) -> set[str]:
    return {task["task_id"] for task in sky.json("list", *flags)["tasks"]}


@pytest.fixture
def allowed(kubectl: Command, cluster: Cluster) -> Command:
    """Grant bob the rights to use this program in the namespace of the test; alice has none."""
    role = ("create", "rolebinding", "sky", "--clusterrole=edit")
    done = kubectl(*role, f"--user={cluster.users['bob']}")
    assert done.returncode == 0, done.stderr
    return kubectl


@pytest.mark.usefixtures("allowed")
def test_commands_without_rbac_rights_are_forbidden(
    sky: Command, cluster: Cluster, namespace: str
) -> None:
    assert sky("auth", "logout").returncode == 0
    submit(sky, "bobs0001", "--context", "bob")
    (task,) = sky.json("list", "--context", "bob")["tasks"]
    assert task["username"] == cluster.users["bob"]

    alice = re.escape(cluster.users["alice"])
    for command, verb in (
        (("list",), "list"),
        (("status", "bobs0001", "--all-users"), "list"),
        (("stop", "bobs0001", "--all-users"), "list"),
        (("stop", "--all", "--all-users", "-y"), "list"),
        (("logs", "bobs0001", "--all-users", "-f"), "list"),
    ):
        done = sky(*command, "--context", "alice")
        assert (done.returncode, done.stdout) == (3, ""), command
        assert re.fullmatch(
            rf"error: forbidden: user {alice} may not {verb} (jobs\.batch|pods) in namespace"
            rf" {namespace}\nhint: run `kubectl sky doctor -n [^`]*` to see all missing rights,"
            r" or ask a cluster admin\n",
            done.stderr,
        ), done.stderr
    refused = sky("submit", "-", "--context", "alice", stdin=QUICK)
    assert refused.returncode == 3
    assert refused.stderr.startswith("error: forbidden: user ")
    assert ids(sky, "--context", "bob") == {"bobs0001"}
    assert sky("stop", "bobs0001", "--context", "bob").returncode == 0


def test_commands_with_edit_role_succeed(sky: Command, allowed: Command) -> None:
    bob = ("--context", "bob")
    assert sky("volumes", "create", "notes", "1Gi", *bob).returncode == 0
    script = (
        "num_nodes: 2\nsecrets: {T: x}\nresources: {image_id: 'busybox:1.36'}\n"
        "run: echo $NODE_RANK ${#T}\n"
    )
    done = sky("submit", "-", "--id", "edits001", *bob, stdin=script)
    assert done.returncode == 0, done.stderr
    assert "node-1 | 1 1" in done.stdout
    assert sky("submit", "-", "--id", "edits001", *bob, stdin=script).returncode == 0
    assert sky("clean", "--dry-run", *bob).returncode == 0
    assert sky("stop", "edits001", *bob).returncode == 0
    assert sky("volumes", "delete", "notes", "--force", *bob).returncode == 0
