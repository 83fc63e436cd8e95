"""The REST API with curl, as two users with tokens of their own."""

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import yaml

from tests.cluster.rest_server import RestServer
from tests.cluster.target import OTHERS, Cluster
from tests.e2e.command import Command

TASK = """\
name: training-job
num_nodes: 2
resources: {cpus: 100m, memory: 32Mi, image_id: 'busybox:1.36'}
volumes: {/data: data-vol}
envs: {EPOCHS: '100'}
run: echo rank $SKYPILOT_NODE_RANK of $SKYPILOT_NUM_NODES trained $EPOCHS epochs
"""


@dataclass(frozen=True)
class Curl:
    """curl with the token of a user."""

    url: str
    token: str

    def __call__(self, method: str, path: str, *arguments: str, stdin: str = "") -> tuple[int, str]:
        """Send a request; return the status and the body."""
        header = ("-H", f"Authorization: Bearer {self.token}")
        url = f"{self.url}{path}"
        done = subprocess.run(
            ["curl", "-sSN", "-w", "\n%{http_code}", "-X", method, *header, *arguments, url],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
        body, _, status = done.stdout.rpartition("\n")
        return int(status), body

    def json(self, method: str, path: str, body: object = None) -> Any:
        """Send a request that has to succeed, and return its JSON."""
        header = ("-H", "Content-Type: application/json", "-d", json.dumps(body)) if body else ()
        status, text = self(method, path, *header)
        assert status == 200, text
        return json.loads(text)


@pytest.fixture
def rest_server(cluster: Cluster) -> Iterator[RestServer]:
    with RestServer.start(cluster) as server:
        yield server


@pytest.fixture
def users(
    cluster: Cluster, rest_server: RestServer, sky: Command, kubectl: Command
) -> dict[str, Curl]:
    """Alice and bob, who may do in the namespace what the commands need."""
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    accounts = {context["name"]: context["context"]["user"] for context in config["contexts"]}
    tokens = {user["name"]: user["user"].get("token", "") for user in config["users"]}
    clients = {}
    for name in OTHERS:
        role = sky("doctor", "--role", "--context", name)
        applied = kubectl("apply", "-f", "-", stdin=role.stdout)
        assert applied.returncode == 0, applied.stderr
        clients[name] = Curl(rest_server.url, tokens[accounts[name]])
    return clients


@pytest.mark.practice_only
def test_workflow_of_the_seed_with_curl_for_two_users(
    users: dict[str, Curl], cluster: Cluster, namespace: str
) -> None:
    alice = users["alice"]
    bob = users["bob"]
    where = f"?namespace={namespace}"
    assert alice.json("GET", "/") == {"status": "ok", "service": "k8s-cli-api"}
    assert alice.json("GET", f"/whoami{where}")["user"] == cluster.users["alice"]
    volume = alice.json("POST", f"/volumes/create{where}", {"name": "data-vol", "size": "1Gi"})
    yaml_body = ("-H", "Content-Type: application/yaml", "--data-binary", "@-")
    status, text = alice("POST", f"/tasks/submit{where}", *yaml_body, stdin=TASK)
    assert status == 200, text
    task_id = json.loads(text)["task_id"]

    status, logs = alice("GET", f"/tasks/{task_id}/logs{where}")
    assert sorted(logs.splitlines()) == [
        f"node-{rank} | rank {rank} of 2 trained 100 epochs" for rank in range(2)
    ]
    (listed,) = alice.json("GET", f"/tasks{where}")["tasks"]
    assert (listed["task_id"], listed["status"]) == (task_id, "completed")
    assert listed["username"] == cluster.users["alice"]

    assert bob.json("GET", f"/tasks{where}")["tasks"] == []
    for path in ("", "/logs", "/doctor"):
        assert bob("GET", f"/tasks/{task_id}{path}{where}")[0] == 404
    assert bob("POST", f"/tasks/{task_id}/stop{where}")[0] == 404
    assert bob("DELETE", f"/volumes/{volume['volume_id']}{where}")[0] == 404
    assert len(bob.json("GET", f"/tasks{where}&all_users=true")["tasks"]) == 1
    assert bob("GET", "/tasks?all_users=true&all_namespaces=true")[0] == 403

    assert alice.json("POST", f"/tasks/{task_id}/stop{where}")["status"] == "stopped"
    assert alice("GET", f"/tasks/{task_id}{where}")[0] == 404
    deleted = alice.json("DELETE", f"/volumes/{volume['volume_id']}{where}&force=true")
    assert deleted["status"] == "deleted"
    assert Curl(alice.url, "foreign")("GET", "/tasks")[0] == 401
