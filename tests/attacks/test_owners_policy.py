"""The admission policy of `users policy`: nobody creates tasks and volumes in another's name."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from kubectl_sky.words.owners import named
from tests.attacks.foreign import FOREIGN_POD
from tests.cluster.target import Cluster
from tests.e2e.command import Command
from tests.polling import eventually

TASK = "name: small\nresources: {image_id: 'busybox:1.36'}\nrun: echo done\n"
Json = dict[str, Any]


def make_job(name: str, user: str, **metadata: Any) -> Json:
    label = named(user).label
    labels = {"skypilot-task": "true", "task-id": name, "username": label}
    annotations = {"kubectl-sky/user": user}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": labels, "annotations": annotations, **metadata},
        "spec": {"suspend": True, "template": {"spec": FOREIGN_POD}},
    }


@pytest.fixture
def users(sky: Command, kubectl: Command, cluster: Cluster, namespace: str) -> Iterator[Json]:
    """Two users in a namespace where the policy is enforced."""
    for name in cluster.users.values():
        done = sky("users", "add", name, "-n", namespace)
        assert done.returncode == 0, done.stderr
    may_edit = ("--clusterrole=edit", f"--user={cluster.users['bob']}")
    assert kubectl("create", "rolebinding", "bob-edit", *may_edit).returncode == 0
    policy, binding = yaml.safe_load_all(sky("users", "policy").stdout)
    selector = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    binding["spec"]["matchResources"] = {"namespaceSelector": selector}
    items = {"apiVersion": "v1", "kind": "List", "items": [policy, binding]}
    done = kubectl("apply", "-f", "-", stdin=json.dumps(items))
    assert done.returncode == 0, done.stderr
    alice, bob = cluster.users["alice"], cluster.users["bob"]
    try:
        early = make_job("early", alice)
        eventually(
            lambda: "has to be you" in create(kubectl, "bob", early),
            30,
            lambda: create(kubectl, "bob", early),
        )
        yield {"alice": alice, "bob": bob}
    finally:
        kubectl("delete", "-f", "-", "--ignore-not-found", stdin=json.dumps(items))


def create(kubectl: Command, context: str, item: Json) -> str:
    """Create an object as a user in a dry run; return the error."""
    command = ("create", "--context", context, "--dry-run=server", "-f", "-")
    return kubectl(*command, stdin=json.dumps(item)).stderr


def test_policy_denies_tasks_and_volumes_of_another_user(
    sky: Command, kubectl: Command, users: Json
) -> None:
    alice, bob = users["alice"], users["bob"]
    denied = f"the owner of this Job has to be you, {bob}, and not {alice}"
    assert denied in create(kubectl, "bob", make_job("forged", alice))
    assert sky("auth", "logout").returncode == 0
    done = sky("submit", "-", "--detach", "--context", "bob", "--user", alice, stdin=TASK)
    assert done.returncode == 3
    assert denied in done.stderr
    done = sky("volumes", "create", "data", "1Gi", "--context", "bob", "--user", alice)
    assert done.returncode == 3
    assert "the owner of this PersistentVolumeClaim has to be you" in done.stderr
    mine = make_job("mine", bob)
    assert kubectl("create", "--context", "bob", "-f", "-", stdin=json.dumps(mine)).returncode == 0
    for change in (
        {"labels": {"username": named(alice).label}},
        {"annotations": {"kubectl-sky/user": alice}},
    ):
        patch = json.dumps({"metadata": change})
        done = kubectl("patch", "job", "mine", "--context", "bob", "-p", patch)
        assert "has to be you" in done.stderr
    (node,) = kubectl.json("get", "nodes")["items"]
    reference = {"apiVersion": "v1", "kind": "Node", "name": node["metadata"]["name"]}
    reference |= {"uid": node["metadata"]["uid"], "controller": True}
    owned = make_job("owned", alice, ownerReferences=[reference])
    assert kubectl("create", "--context", "bob", "-f", "-", stdin=json.dumps(owned)).returncode == 0
    patch = json.dumps({"metadata": {"ownerReferences": None}})
    done = kubectl("patch", "job", "owned", "--context", "bob", "--type=merge", "-p", patch)
    assert "has to be you" in done.stderr
    assert sky.json("list", "--context", "alice")["tasks"] == []


def test_policy_allows_own_tasks_controllers_and_admins(
    sky: Command, kubectl: Command, users: Json
) -> None:
    assert sky("auth", "logout").returncode == 0
    as_alice = ("--context", "alice")
    assert sky("volumes", "create", "data", "1Gi", *as_alice).returncode == 0
    nodes = ("--num-nodes", "2", "--backend", "indexed")
    done = sky("submit", "-", *nodes, *as_alice, stdin=TASK)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("done") == 2
    done = sky("submit", "-", "--user", users["alice"], "--detach", stdin=TASK)  # as an admin
    assert done.returncode == 0, done.stderr
    assert len(sky.json("list", *as_alice)["tasks"]) == 2
    done = kubectl("label", "jobs", "--all", "queue=main", "--context", "bob")
    assert done.returncode == 0, done.stderr
