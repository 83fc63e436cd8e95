"""What is wrong with a request, in the same words on both clusters."""

import json

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
YAML, PROTOBUF = "application/yaml", "application/vnd.kubernetes.protobuf"
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
    (Bad("POST", MAPS, b'{"metadata":'), 400, "unexpected end of JSON input"),
    (Bad("POST", MAPS, b""), 400, "unexpected end of JSON input"),
    (Bad("POST", MAPS, b"[]"), 400, "cannot unmarshal array"),
    (Bad("POST", MAPS, b"1"), 400, "cannot unmarshal number"),
    (Bad("POST", MAPS, b'"x"'), 400, "cannot unmarshal string"),
    (Bad("POST", MAPS, b"\xff\xfe{}"), 400, "looking for beginning of value"),
    (Bad("POST", MAPS, NAMED + b" trailing"), 400, "after top-level value"),
    (Bad("POST", MAPS, b'{"a":' * 20000 + b"1" + b"}" * 20000), 400, "exceeded max depth"),
    (Bad("POST", MAPS, b"[" * 100000), 400, "exceeded max depth"),
    (Bad("POST", MAPS, b'{"data":{"a":NaN}}'), 400, "looking for beginning of value"),
    (Bad("POST", MAPS, b'{"metadata":[]}'), 400, "cannot unmarshal array into Go struct field"),
    (Bad("POST", MAPS, b'{"metadata":{"labels":[]}}'), 400, "ObjectMeta.metadata.labels of type"),
    (Bad("POST", MAPS, b'{"data":{"x":"' + b"x" * 4_000_000 + b'"}}'), 413, "limit is 3145728"),
    (Bad("POST", MAPS, b"{}", "text/plain"), 415, "accepted media types include"),
    (Bad("POST", MAPS, b"{}", "application/xml"), 415, "accepted media types include"),
    (Bad("POST", MAPS, b"a: [", YAML), 400, "yaml: line 1: did not find expected node content"),
    (Bad("POST", MAPS, b"nonsense", PROTOBUF), 400, "does not appear to be a protobuf message"),
    (Bad("POST", JOBS, b'{"spec":{"template":5}}'), 400, "cannot unmarshal number into Go struct"),
    (Bad("PUT", KEPT, b'{"metadata":{"name":"b"}}'), 400, "does not match the name on the URL"),
    (Bad("PUT", KEPT, b'{"metadata":{}}'), 400, "name must be provided"),
    (Bad("PUT", f"{MAPS}/a", NAMED), 404, 'configmaps "a" not found'),
    (
        Bad("PUT", KEPT, b'{"metadata":{"name":"kept","resourceVersion":"1"}}'),
        409,
        "the object has been modified",
    ),
    (Bad("PATCH", KEPT, b"{}", "application/json"), 415, "Unsupported Media Type"),
    (Bad("PATCH", KEPT, b"{", MERGE), 400, ""),
    (Bad("PATCH", KEPT, b"{}", STEPS), 400, "cannot unmarshal object into Go value"),
    (Bad("PATCH", KEPT, b'[{"op":"x"}]', STEPS), 422, ""),
    (Bad("PATCH", KEPT, b"{}", APPLY), 422, "fieldManager: Required value"),
    (Bad("PATCH", f"{KEPT}?fieldManager=x", b"a: [", APPLY), 400, "error decoding YAML"),
    (Bad("DELETE", KEPT, b"{"), 400, "unexpected end of JSON input"),
    (Bad("DELETE", KEPT, b'{"propagationPolicy":"no"}'), 422, 'Unsupported value: "no"'),
    (Bad("DELETE", KEPT, b'{"preconditions":{"uid":"no"}}'), 409, "UID in the precondition (no)"),
    (Bad("POST", REVIEWS, b"{}"), 422, "exactly one of nonResourceAttributes or resource"),
)

QUERIES = (
    (Bad("POST", f"{MAPS}?dryRun=no", NAMED), 422, 'dryRun: Unsupported value: ["no"]'),
    (
        Bad("POST", f"{MAPS}?fieldValidation=no", NAMED),
        422,
        'fieldValidation: Unsupported value: "no"',
    ),
    (Bad("POST", f"{MAPS}?fieldManager={'x' * 200}", NAMED), 422, "fieldManager: Too long"),
    (
        Bad("POST", f"{MAPS}?fieldValidation=Strict", b'{"metadata":{"name":"a","name":"b"}}'),
        400,
        'duplicate field "metadata.name"',
    ),
    (Bad("DELETE", f"{KEPT}?propagationPolicy=no"), 422, 'Unsupported value: "no"'),
    (Bad("DELETE", f"{KEPT}?gracePeriodSeconds=x"), 400, 'parsing "x": invalid syntax'),
    (Bad("DELETE", f"{MAPS}?labelSelector=a+in+b"), 400, "found 'b' expected: '('"),
    (Bad("GET", f"{MAPS}?labelSelector=a+in+b"), 400, "found 'b' expected: '('"),
    (Bad("GET", f"{MAPS}?labelSelector=a=b=c"), 400, "expected: ',' or 'end of string'"),
    (Bad("GET", f"{MAPS}?labelSelector={'a' * 300}"), 400, "Invalid value"),
    (Bad("GET", f"{MAPS}?fieldSelector=nosuch=1"), 400, 'only "metadata.name"'),
    (Bad("GET", f"{MAPS}?fieldSelector=nosuch"), 400, "can't understand 'nosuch'"),
    (Bad("GET", f"{MAPS}?limit=abc"), 400, 'parsing "abc": invalid syntax'),
    (Bad("GET", f"{MAPS}?continue=garbage"), 400, "invalid continue token"),
    (Bad("GET", f"{MAPS}?resourceVersion=abc"), 400, "invalid resource version"),
    (Bad("GET", f"{MAPS}?resourceVersion=-1"), 400, "invalid resource version"),
    (Bad("GET", f"{MAPS}?resourceVersion=999999999999"), 504, "Too large resource version"),
    (Bad("GET", f"{MAPS}?resourceVersionMatch=Exact"), 422, "unless resourceVersion is provided"),
    (Bad("GET", f"{MAPS}?watch=1&timeoutSeconds=abc"), 400, 'parsing "abc": invalid syntax'),
    (Bad("GET", f"{MAPS}?watch=1&labelSelector=a+in+b"), 400, "found 'b' expected: '('"),
    (Bad("GET", f"{MAPS}?watch=1&fieldSelector=no=1"), 400, "not a known field selector"),
    (Bad("GET", f"{LOG}?tailLines=x"), 400, 'parsing "x": invalid syntax'),
    (Bad("GET", f"{LOG}?tailLines=-1"), 422, "must be greater than or equal to 0"),
)

PATHS = (
    (Bad("POST", KEPT, b"{}"), 405, "does not allow this method"),
    (Bad("PUT", MAPS, b"{}"), 405, "does not allow this method"),
    (Bad("PATCH", MAPS, b"{}"), 405, "does not allow this method"),
    (Bad("OPTIONS", MAPS), 405, "does not allow this method"),
    (Bad("GET", "/api/v1/namespaces/{ns}/nosuch"), 404, "could not find the requested resource"),
    (Bad("GET", "/api/v2/pods"), 404, "could not find the requested resource"),
    (Bad("GET", "/apis/batch/v9/jobs"), 404, "could not find the requested resource"),
    (Bad("GET", "/api/v1/namespaces/{ns}/nodes"), 404, "could not find the requested resource"),
    (Bad("GET", "/api/v1/nodes/nosuch/pods"), 404, "could not find the requested resource"),
    (Bad("GET", "/api/v1/namespaces/{ns}/pods/a/nosuch"), 404, "could not find the requested"),
    (Bad("GET", f"{MAPS}/Bad%20Name"), 404, 'configmaps "Bad Name" not found'),
    (Bad("GET", f"{MAPS}/{'a' * 5000}"), 404, "not found"),
    (Bad("GET", LOG), 404, 'pods "a" not found'),
    (Bad("GET", "/api/v1//configmaps"), 404, "could not find the requested resource"),
    (Bad("GET", MAPS, headers={"Impersonate-Group": "x"}), 400, "without impersonating a user"),
    (
        Bad("GET", MAPS, named=False, headers={"Authorization": "Bearer wrong"}),
        401,
        "Unauthorized",
    ),
)  # fmt: skip


@pytest.fixture
def door(cluster: Cluster, namespace: str) -> Door:
    found = Door.of(cluster)
    objects.create(found.session, make_config_map("kept", namespace))
    return found


@pytest.mark.parametrize("asked", [BODIES, QUERIES, PATHS], ids=["bodies", "queries", "paths"])
def test_refused_alike(door: Door, namespace: str, asked: tuple[tuple[Bad, int, str], ...]) -> None:
    wrong = []
    for bad, code, words in asked:
        told = door.ask(bad, namespace)
        if told[:2] != (code, REASONS[code]) or words not in told.message:
            wrong.append(f"{bad.method} {bad.path[:80]} {(bad.body or b'')[:40]!r}: {told}")
    assert wrong == []
    assert door.ask(Bad("GET", KEPT), namespace).code == 200


def test_a_watch_from_the_future(door: Door, namespace: str) -> None:
    """It waits a little, and then says so or ends; nothing is made up."""
    future = Bad("GET", f"{MAPS}?watch=1&resourceVersion=999999999999&timeoutSeconds=4")
    answer = door.send(future, namespace)
    assert answer.status in (200, 504)
    events = [json.loads(line) for line in answer.data.splitlines()]
    assert [event for event in events if event.get("type") not in (None, "ERROR")] == []


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
@pytest.mark.parametrize("value", [None, "Bearer ", "Basic YTpi", "nonsense"])
def test_nobody_in_particular(door: Door, namespace: str, method: str, value: str | None) -> None:
    """Without a token a cluster knows nobody, or somebody who may do nothing."""
    headers = {"Authorization": value} if value is not None else None
    body = NAMED if method == "POST" else None
    told = door.ask(Bad(method, MAPS, body, named=False, headers=headers), namespace)
    assert (told.code, told.reason) in ((401, "Unauthorized"), (403, "Forbidden"))


def test_a_user_who_may_do_nothing(cluster: Cluster, namespace: str) -> None:
    alice = Door.of(cluster, "alice")
    for bad in (Bad("GET", MAPS), Bad("POST", MAPS, NAMED), Bad("GET", "/api/v1/nodes")):
        told = alice.ask(bad, namespace)
        assert (told.code, told.reason) == (403, "Forbidden")
        assert f'User "{cluster.users["alice"]}" cannot ' in told.message
    admin = Bad("GET", MAPS, headers={"Impersonate-User": "admin"})
    told = alice.ask(admin, namespace)
    assert told.code == 403
    assert "cannot impersonate" in told.message
