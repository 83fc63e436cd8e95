"""Malformed requests get the same status codes and reasons on both clusters."""

import json
from itertools import product

import pytest

from kubectl_sky.cluster import objects
from tests.cluster.target import Cluster
from tests.contract.makers import make_config_map
from tests.practice.door import Bad, Door

MAPS = "/api/v1/namespaces/{ns}/configmaps"
KEPT = f"{MAPS}/kept"
JOBS = "/apis/batch/v1/namespaces/{ns}/jobs"
LOG = "/api/v1/namespaces/{ns}/pods/a/log"
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
NAMED = b'{"metadata":{"name":"a"}}'
RELABELED = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"labels":{"of":"x"}}}'
YAML = "application/yaml"
MERGE, STEPS = "application/merge-patch+json", "application/json-patch+json"
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
    504: "Timeout",
}

BODIES = (
    (Bad("POST", MAPS, b'{"metadata":'), 400),
    (Bad("POST", MAPS, b""), 400),
    (Bad("POST", MAPS, b"[]"), 400),
    (Bad("POST", MAPS, b"1"), 400),
    (Bad("POST", MAPS, b'"x"'), 400),
    (Bad("POST", MAPS, b"\xff\xfe{}"), 400),
    (Bad("POST", MAPS, NAMED + b" trailing"), 400),
    (Bad("POST", MAPS, b'{"a":' * 20000 + b"1" + b"}" * 20000), 400),
    (Bad("POST", MAPS, b"[" * 100000), 400),
    (Bad("POST", MAPS, b'{"data":{"a":NaN}}'), 400),
    (Bad("POST", MAPS, b'{"metadata":[]}'), 400),
    (Bad("POST", MAPS, b'{"metadata":{"labels":[]}}'), 400),
    (Bad("POST", MAPS, b'{"data":{"x":"' + b"x" * 4_000_000 + b'"}}'), 413),
    (Bad("POST", MAPS, b"{}", "text/plain"), 415),
    (Bad("POST", MAPS, b"{}", "application/xml"), 415),
    (Bad("POST", MAPS, b"a: [", YAML), 400),
    (Bad("POST", JOBS, b'{"spec":{"template":5}}'), 400),
    (Bad("PUT", KEPT, b'{"metadata":{"name":"b"}}'), 400),
    (Bad("PUT", KEPT, b'{"metadata":{}}'), 400),
    (Bad("PUT", f"{MAPS}/a", NAMED), 404),
    (Bad("PUT", KEPT, b'{"metadata":{"name":"kept","resourceVersion":"1"}}'), 409),
    (Bad("PATCH", KEPT, b"{}", "application/json"), 415),
    (Bad("PATCH", KEPT, b"{", MERGE), 400),
    (Bad("PATCH", KEPT, b"{}", STEPS), 400),
    (Bad("PATCH", KEPT, b'[{"op":"x"}]', STEPS), 422),
    (Bad("PATCH", KEPT, b"{}", APPLY), 422),
    (Bad("PATCH", f"{KEPT}?fieldManager=x", b"a: [", APPLY), 400),
    (Bad("PATCH", f"{KEPT}?fieldManager=x", RELABELED, APPLY), 409),
    (Bad("DELETE", KEPT, b"{"), 400),
    (Bad("DELETE", KEPT, b'{"propagationPolicy":"no"}'), 422),
    (Bad("DELETE", KEPT, b'{"preconditions":{"uid":"no"}}'), 409),
    (Bad("POST", REVIEWS, b"{}"), 422),
)

QUERIES = (
    (Bad("POST", f"{MAPS}?dryRun=no", NAMED), 422),
    (Bad("POST", f"{MAPS}?fieldValidation=no", NAMED), 422),
    (Bad("POST", f"{MAPS}?fieldManager={'x' * 200}", NAMED), 422),
    (Bad("DELETE", f"{KEPT}?propagationPolicy=no"), 422),
    (Bad("DELETE", f"{KEPT}?gracePeriodSeconds=x"), 400),
    (Bad("DELETE", f"{MAPS}?labelSelector=a+in+b"), 400),
    (Bad("GET", f"{MAPS}?labelSelector=a+in+b"), 400),
    (Bad("GET", f"{MAPS}?labelSelector=a=b=c"), 400),
    (Bad("GET", f"{MAPS}?labelSelector={'a' * 300}"), 400),
    (Bad("GET", f"{MAPS}?fieldSelector=nosuch=1"), 400),
    (Bad("GET", f"{MAPS}?fieldSelector=nosuch"), 400),
    (Bad("GET", f"{MAPS}?limit=abc"), 400),
    (Bad("GET", f"{MAPS}?continue=garbage"), 400),
    (Bad("GET", f"{MAPS}?resourceVersion=abc"), 400),
    (Bad("GET", f"{MAPS}?resourceVersion=-1"), 400),
    (Bad("GET", f"{MAPS}?resourceVersion=999999999999"), 504),
    (Bad("GET", f"{MAPS}?resourceVersionMatch=Exact"), 422),
    (Bad("GET", f"{MAPS}?watch=1&timeoutSeconds=abc"), 400),
    (Bad("GET", f"{MAPS}?watch=1&labelSelector=a+in+b"), 400),
    (Bad("GET", f"{MAPS}?watch=1&fieldSelector=no=1"), 400),
    (Bad("GET", f"{LOG}?tailLines=x"), 400),
    (Bad("GET", f"{LOG}?tailLines=-1"), 422),
)

PATHS = (
    (Bad("POST", KEPT, b"{}"), 405),
    (Bad("PUT", MAPS, b"{}"), 405),
    (Bad("PATCH", MAPS, b"{}"), 405),
    (Bad("OPTIONS", MAPS), 405),
    (Bad("GET", "/api/v1/namespaces/{ns}/nosuch"), 404),
    (Bad("GET", "/api/v2/pods"), 404),
    (Bad("GET", "/apis/batch/v9/jobs"), 404),
    (Bad("GET", "/api/v1/namespaces/{ns}/nodes"), 404),
    (Bad("GET", "/api/v1/nodes/nosuch/pods"), 404),
    (Bad("GET", "/api/v1/namespaces/{ns}/pods/a/nosuch"), 404),
    (Bad("GET", f"{MAPS}/Bad%20Name"), 404),
    (Bad("GET", f"{MAPS}/{'a' * 5000}"), 404),
    (Bad("GET", LOG), 404),
    (Bad("GET", "/api/v1//configmaps"), 404),
    (Bad("GET", MAPS, headers={"Impersonate-Group": "x"}), 400),
    (Bad("GET", MAPS, named=False, headers={"Authorization": "Bearer wrong"}), 401),
)


@pytest.fixture
def door(cluster: Cluster, namespace: str) -> Door:
    opened = Door.of(cluster)
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


@pytest.mark.practice_only
def test_create_persistent_volume_is_not_implemented(door: Door, namespace: str) -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}}
    volume = {"metadata": {"name": namespace}, "spec": {**spec, "hostPath": {"path": "/x"}}}
    answer = door.ask(Bad("POST", "/api/v1/persistentvolumes", json.dumps(volume).encode()), "")
    assert answer[:2] == (501, "NotImplemented")
    assert "create a PersistentVolumeClaim" in answer.message


def test_watch_future_version_returns_no_events(door: Door, namespace: str) -> None:
    """The server waits, then ends the watch or reports a timeout."""
    future = Bad("GET", f"{MAPS}?watch=1&resourceVersion=999999999999&timeoutSeconds=4")
    answer = door.send(future, namespace)
    assert answer.status in (200, 504)
    events = [json.loads(line) for line in answer.data.splitlines()]
    assert [event for event in events if event.get("type") not in (None, "ERROR")] == []


def test_request_without_valid_token_is_unauthorized_or_forbidden(
    door: Door, namespace: str
) -> None:
    """Without a valid token, the request is anonymous, without rights."""
    for method, value in product(
        ("GET", "POST", "DELETE"), (None, "Bearer ", "Basic YTpi", "nonsense")
    ):
        headers = {"Authorization": value} if value is not None else None
        body = NAMED if method == "POST" else None
        response = door.ask(Bad(method, MAPS, body, named=False, headers=headers), namespace)
        assert (response.code, response.reason) in ((401, "Unauthorized"), (403, "Forbidden")), (
            method
        )


def test_request_without_rights_is_forbidden(cluster: Cluster, namespace: str) -> None:
    alice = Door.of(cluster, "alice")
    for bad in (Bad("GET", MAPS), Bad("POST", MAPS, NAMED), Bad("GET", "/api/v1/nodes")):
        response = alice.ask(bad, namespace)
        assert (response.code, response.reason) == (403, "Forbidden")
        assert f'User "{cluster.users["alice"]}" cannot ' in response.message
    admin = Bad("GET", MAPS, headers={"Impersonate-User": "admin"})
    response = alice.ask(admin, namespace)
    assert response.code == 403
    assert "cannot impersonate" in response.message
