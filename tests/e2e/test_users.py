"""A user with a quota, from `users add` to `users remove`, as the admin and as the user."""

import json
import secrets
from typing import Any

import pytest

from tests.cluster.target import Cluster
from tests.e2e.command import Command
from tests.polling import eventually

TASK = "name: small\nresources: {image_id: 'busybox:1.36'}\nrun: echo done\n"
DISK = """
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: disk}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 900Ti}}}
"""
LONG = TASK.replace("echo done", "sleep 600")


@pytest.fixture
def where() -> str:
    return f"users-{secrets.token_hex(4)}"


def test_users_add_enforces_quota_until_remove(
    sky: Command, kubectl: Command, cluster: Cluster, where: str
) -> None:
    alice = cluster.users["alice"]
    as_alice = ("-n", where, "--context", "alice")
    added = sky("users", "add", alice, "-n", where, "--cpus", "1", "--tasks", "2", "--storage", "1")
    assert added.returncode == 0, added.stderr
    assert f"namespace/{where} created" in added.stdout

    try:
        assert sky("users", "add", alice, "-n", where).stdout.count(" unchanged") == 5
        eventually(lambda: kubectl.json("get", "quota", "-n", where)["items"][0]["status"]["used"])
        done = sky("submit", "-", *as_alice, stdin=TASK)  # without cpus: the LimitRange adds them
        assert (done.returncode, "done" in done.stdout) == (0, True), done.stderr
        over = sky("submit", "-", "--cpus", "2", "--num-nodes", "3", *as_alice, stdin=TASK)
        assert "pods: requested 3, used 0 of 2" in over.stderr
        assert "requests.cpu: requested 6, used 0 of 1" in over.stderr
        task = sky("submit", "-", "--detach", "-o", "name", *as_alice, stdin=LONG).stdout.strip()
        eventually(lambda: "500m/1" in sky("users", "list", "-n", where).stdout)
        full = sky("submit", "-", "--cpus", "600m", *as_alice, stdin=TASK)
        assert "requests.cpu: requested 600m, used 500m of 1" in full.stderr
        disk = kubectl("create", "-f", "-", *as_alice, stdin=DISK)
        assert "exceeded quota" in disk.stderr and "requests.storage=900Ti" in disk.stderr
        shown = sky.json("users", "show", *as_alice)
        assert {row["resource"] for row in shown["quotas"]} == {
            "requests.cpu",
            "pods",
            "requests.storage",
            "services.loadbalancers",
            "services.nodeports",
            "services",
            "persistentvolumeclaims",
            "configmaps",
        }
        assert sky("users", "add", "eve", *as_alice).returncode == 3
        assert "not finished" in sky("users", "remove", alice, "-n", where, "--yes").stderr
        assert sky("stop", task, *as_alice).returncode == 0
        eventually(lambda: sky("users", "remove", alice, "-n", where, "--yes").returncode == 0)
        eventually(lambda: kubectl("get", "namespace", where).returncode != 0)
        assert sky("users", "show", alice, "-n", where).returncode == 2
    finally:
        kubectl("delete", "namespace", where, "--wait=false", "--ignore-not-found")


def make_service(**spec: Any) -> dict[str, Any]:
    ports = [{"port": 443}]
    metadata = {"name": "trial"}
    spec = {"selector": {"a": "b"}, "ports": ports, **spec}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}


def make_pod(port: dict[str, int], **spec: Any) -> dict[str, Any]:
    containers = [{"name": "main", "image": "busybox:1.36", "ports": [port]}]
    spec = {"containers": containers, **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "trial"}, "spec": spec}


def make_ingress(host: str, **spec: Any) -> dict[str, Any]:
    backend = {"service": {"name": "trial", "port": {"number": 80}}}
    rule = {"http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": backend}]}}
    rules = [rule | {"host": host} if host else rule]
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": {"name": "trial"},
        "spec": {"rules": rules, **spec},
    }


ALIAS = make_ingress("a.alice.example.com")
ALIAS["metadata"]["annotations"] = {"nginx.ingress.kubernetes.io/server-alias": "b.example.com"}
NOT_ALLOWED = {
    "annotations server-alias and snippets": [ALIAS],
    "externalIPs of Services": [make_service(externalIPs=["203.0.113.7"])],
    "types NodePort and LoadBalancer": [
        make_service(type="NodePort"),
        make_service(type="LoadBalancer"),
    ],
    "hostNetwork": [make_pod({"containerPort": 80, "hostPort": 80}, hostNetwork=True)],
    "hostPort": [make_pod({"containerPort": 80, "hostPort": 80})],
    "other hosts than the annotation": [
        make_ingress("chat.example.com"),
        make_ingress("alice.example.com"),
        make_ingress("a.alice.example.com", tls=[{"hosts": ["chat.example.com"]}]),
        make_ingress(""),
    ],
}
ALLOWED = [
    make_service(clusterIP="None"),
    make_pod({"containerPort": 80}),
    make_ingress("a.alice.example.com", tls=[{"hosts": ["a.alice.example.com"]}]),
]


def test_users_add_policy_refuses_ways_out_of_namespace(
    sky: Command, kubectl: Command, cluster: Cluster, where: str
) -> None:
    def trial(item: dict[str, Any]) -> str:
        done = kubectl("create", "-n", where, "--dry-run=server", "-f", "-", stdin=json.dumps(item))
        return done.stderr if done.returncode else ""

    # Pod Security does not refuse hostNetwork here, and the quota no ports: the policy does.
    add = ("users", "add", cluster.users["alice"], "-n", where, "--pod-security", "privileged")
    added = sky(*add, "--policy")
    assert added.returncode == 0, added.stderr
    kinds = "validatingadmissionpolicy,validatingadmissionpolicybinding"

    try:
        hosts = "kubectl-sky/ingress-hosts=*.alice.example.com"
        kubectl("annotate", "namespace", where, hosts)
        kubectl("delete", "quota", "--all", "-n", where)
        allowed = make_ingress("a.alice.example.com")
        eventually(lambda: trial(make_service(externalIPs=["203.0.113.7"])))
        eventually(lambda: not trial(allowed))
        for message, items in NOT_ALLOWED.items():
            for item in items:
                assert message in trial(item), item
        assert [trial(item) for item in ALLOWED] == ["", "", ""]

        unlimited = sky.json("users", "show", cluster.users["alice"], "-n", where)["unlimited"]
        assert "storage" in unlimited
        assert "Services with externalIPs" not in unlimited
        policy = kubectl.json("get", "validatingadmissionpolicy", "kubectl-sky-users")
        assert policy["status"]["typeChecking"] == {}
    finally:
        kubectl("delete", kinds, "kubectl-sky-users")
        kubectl("delete", "namespace", where, "--wait=false", "--ignore-not-found")


def test_users_add_keeps_fields_of_admin_and_refuses_changed_ones(
    sky: Command, kubectl: Command, cluster: Cluster, namespace: str
) -> None:
    add = ("users", "add", cluster.users["alice"], "-n", namespace, "--cpus")
    assert sky(*add, "1").returncode == 0
    (role,) = kubectl.json("get", "role", "-n", namespace)["items"]
    name = role["metadata"]["name"]
    kubectl("patch", "quota", name, "-n", namespace, "-p", '{"spec": {"hard": {"secrets": "9"}}}')
    assert sky(*add, "2").returncode == 0
    hard = kubectl.json("get", "quota", name, "-n", namespace)["spec"]["hard"]
    assert (hard["requests.cpu"], hard["secrets"]) == ("2", "9")
    kubectl("patch", "role", name, "-n", namespace, "-p", '{"rules": []}')
    refused = sky(*add, "3")
    assert refused.returncode == 3
    assert f"{name} was changed by somebody else: Apply failed" in refused.stderr
