"""Malformed requests get the same status codes and reasons on both clusters."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
import urllib3

from kubectl_sky.cluster import kubeconfig, objects
from kubectl_sky.cluster.session import Connection, Session
from tests.cluster.target import Cluster
from tests.contract.makers import make_config_map

MAPS = "/api/v1/namespaces/{ns}/configmaps"
KEPT = f"{MAPS}/kept"
LOG = "/api/v1/namespaces/{ns}/pods/a/log"
NAMED = b'{"metadata":{"name":"a"}}'
RELABELED = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"labels":{"of":"x"}}}'
JSON = "application/json"
MERGE = "application/merge-patch+json"
STEPS = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"
REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    409: "Conflict",
    413: "RequestEntityTooLarge",
    415: "UnsupportedMediaType",
    422: "Invalid",
}


class Answer(NamedTuple):
    """The code of an answer, and the reason and message of its Status."""

    code: int
    reason: str = ""
    message: str = ""


@dataclass(frozen=True)
class Bad:
    """A request; `{ns}` in its path is an existing namespace."""

    method: str
    path: str
    body: bytes | None = None
    type: str = JSON
    headers: Mapping[str, str] | None = None


class Door:
    """The API of a cluster, for requests byte for byte of one user."""

    def __init__(self, cluster: Cluster, context: str = "test") -> None:
        connection = Connection(kubeconfig=str(cluster.kubeconfig), context=context)
        self._target = kubeconfig.resolve(connection)
        self.session = Session(connection, self._target)

    def send(self, bad: Bad, namespace: str) -> urllib3.BaseHTTPResponse:
        headers = {"Accept": JSON, "Authorization": self._target.authorization}
        if bad.body is not None:
            headers["Content-Type"] = bad.type
        return self._target.client.pool_manager.request(
            bad.method,
            self.session.server + bad.path.replace("{ns}", namespace),
            body=bad.body,
            headers={**headers, **(bad.headers or {})},
            retries=False,
            redirect=False,
            timeout=60,
        )

    def ask(self, bad: Bad, namespace: str) -> Answer:
        response = self.send(bad, namespace)
        try:
            status: Any = json.loads(response.data)
        except ValueError:
            return Answer(response.status, "", response.data.decode(errors="replace").strip())
        if status.get("kind") != "Status":
            return Answer(response.status)
        return Answer(response.status, status.get("reason", ""), status.get("message", ""))


BODIES = (
    (Bad("POST", MAPS, b'{"metadata":'), 400),
    (Bad("POST", MAPS, b""), 400),
    (Bad("POST", MAPS, b"[]"), 400),
    (Bad("POST", MAPS, b"\xff\xfe{}"), 400),
    (Bad("POST", MAPS, b"[" * 100000), 400),
    (Bad("POST", MAPS, b'{"metadata":{"labels":[]}}'), 400),
    (Bad("POST", MAPS, b'{"data":{"x":"' + b"x" * 4_000_000 + b'"}}'), 413),
    (Bad("POST", MAPS, b"{}", "text/plain"), 415),
    (Bad("PUT", KEPT, b'{"metadata":{"name":"b"}}'), 400),
    (Bad("PUT", f"{MAPS}/a", NAMED), 404),
    (Bad("PUT", KEPT, b'{"metadata":{"name":"kept","resourceVersion":"1"}}'), 409),
    (Bad("PATCH", KEPT, b"{}", JSON), 415),
    (Bad("PATCH", KEPT, b"{", MERGE), 400),
    (Bad("PATCH", KEPT, b'[{"op":"x"}]', STEPS), 422),
    (Bad("PATCH", KEPT, b"{}", APPLY), 422),
    (Bad("PATCH", f"{KEPT}?fieldManager=x", RELABELED, APPLY), 409),
    (Bad("DELETE", KEPT, b'{"propagationPolicy":"no"}'), 422),
    (Bad("DELETE", KEPT, b'{"preconditions":{"uid":"no"}}'), 409),
)
QUERIES = (
    (Bad("POST", f"{MAPS}?dryRun=no", NAMED), 422),
    (Bad("POST", f"{MAPS}?fieldValidation=no", NAMED), 422),
    (Bad("GET", f"{MAPS}?labelSelector=a+in+b"), 400),
    (Bad("GET", f"{MAPS}?fieldSelector=nosuch=1"), 400),
    (Bad("GET", f"{MAPS}?limit=abc"), 400),
    (Bad("GET", f"{MAPS}?watch=1&timeoutSeconds=abc"), 400),
    (Bad("GET", f"{MAPS}?watch=1&labelSelector=a+in+b"), 400),
)
PATHS = (
    (Bad("POST", KEPT, b"{}"), 405),
    (Bad("PUT", MAPS, b"{}"), 405),
    (Bad("GET", "/api/v1/namespaces/{ns}/nosuch"), 404),
    (Bad("GET", "/apis/batch/v9/jobs"), 404),
    (Bad("GET", "/api/v1/namespaces/{ns}/nodes"), 404),
    (Bad("GET", "/api/v1/namespaces/{ns}/pods/a/nosuch"), 404),
    (Bad("GET", f"{MAPS}/Bad%20Name"), 404),
    (Bad("GET", LOG), 404),
    (Bad("GET", MAPS, headers={"Authorization": "Bearer wrong"}), 401),
)


@pytest.fixture
def door(cluster: Cluster, namespace: str) -> Door:
    opened = Door(cluster)
    objects.create(opened.session, make_config_map("kept", namespace))
    return opened


@pytest.mark.parametrize("requests", [BODIES, QUERIES, PATHS], ids=["bodies", "queries", "paths"])
def test_malformed_request_is_refused_with_status_and_reason(
    door: Door, namespace: str, requests: tuple[tuple[Bad, int], ...]
) -> None:
    wrong = []
    for bad, code in requests:
        response = door.ask(bad, namespace)
        if response[:2] != (code, REASONS[code]):
            wrong.append(f"{bad.method} {bad.path[:80]} {(bad.body or b'')[:40]!r}: {response}")
    assert wrong == []
    assert door.ask(Bad("GET", KEPT), namespace).code == 200


@pytest.mark.parametrize("value", ["", "Bearer ", "Basic YTpi", "nonsense"])
def test_request_without_valid_token_is_unauthorized_or_forbidden(
    door: Door, namespace: str, value: str
) -> None:
    """Without a valid token, the request is anonymous, without rights."""
    for method, body in (("GET", None), ("POST", NAMED), ("DELETE", None)):
        response = door.ask(Bad(method, MAPS, body, headers={"Authorization": value}), namespace)
        assert (response.code, response.reason) in ((401, "Unauthorized"), (403, "Forbidden"))


def test_request_without_rights_is_forbidden(cluster: Cluster, namespace: str) -> None:
    alice = Door(cluster, "alice")
    for bad in (Bad("GET", MAPS), Bad("POST", MAPS, NAMED), Bad("GET", "/api/v1/nodes")):
        response = alice.ask(bad, namespace)
        assert (response.code, response.reason) == (403, "Forbidden")
        assert f'User "{cluster.users["alice"]}" cannot ' in response.message


@pytest.mark.parametrize("header", ["User", "Group", "Uid", "Extra-Example.com%2FScope"])
def test_impersonation_without_rights_is_forbidden(
    cluster: Cluster, namespace: str, header: str
) -> None:
    """One of the users may impersonate jane, and nothing else."""
    admin = Session.connect(Connection(kubeconfig=str(cluster.kubeconfig)))
    rule = {"apiGroups": [""], "resources": ["users"], "verbs": ["impersonate"]}
    rules = [rule | {"resourceNames": ["jane"]}]
    subject = {"kind": "User", "name": cluster.users["alice"]}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": namespace}
    kind = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": namespace}}
    role = kind | {"kind": "ClusterRole", "rules": rules}
    binding = kind | {"kind": "ClusterRoleBinding", "roleRef": reference, "subjects": [subject]}
    path = "/apis/rbac.authorization.k8s.io/v1"
    admin.send("POST", f"{path}/clusterroles", body=role)
    admin.send("POST", f"{path}/clusterrolebindings", body=binding)

    try:
        alice = Door(cluster, "alice")
        jane = {"Impersonate-User": "jane"}
        allowed = alice.ask(Bad("GET", MAPS, headers=jane), namespace)
        headers = jane | {f"Impersonate-{header}": "admin"}
        response = alice.ask(Bad("GET", MAPS, headers=headers), namespace)
    finally:
        admin.send("DELETE", f"{path}/clusterrolebindings/{namespace}")
        admin.send("DELETE", f"{path}/clusterroles/{namespace}")
    assert 'User "jane" cannot list' in allowed.message
    assert response.code == 403
    assert f'User "{cluster.users["alice"]}" cannot impersonate' in response.message


@pytest.mark.parametrize("header", ["Group", "Uid", "Extra-Scope"])
def test_impersonation_without_user_is_bad_request(door: Door, namespace: str, header: str) -> None:
    bad = Bad("GET", MAPS, headers={f"Impersonate-{header}": "x"})
    assert door.ask(bad, namespace)[:2] == (400, "BadRequest")
