"""`/kubernetes`: the API server behind this one."""

from urllib.parse import unquote

import anyio
import pytest
from starlette.testclient import TestClient
from starlette.types import Message
from starlette.websockets import WebSocketDisconnect

from kubectl_sky_server.rest.config import Limits
from kubectl_sky_server.rest.identity import SESSION_HEADER
from server_tests.rest.conftest import ALICE, BOB, SECRET, Client, bearer
from tests.fake_cluster import FakeCluster

PODS = "/kubernetes/api/v1/namespaces/default/pods"
MAPS = "/kubernetes/api/v1/namespaces/default/configmaps"


def config_map(name: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}


def test_list_is_that_of_the_api_server(alice: TestClient) -> None:
    answer = alice.get(PODS)
    assert (answer.status_code, answer.json()["items"]) == (200, [])


def test_create_sends_the_body(alice: TestClient, cluster: FakeCluster) -> None:
    assert alice.post(MAPS, json=config_map("a")).status_code == 201
    assert cluster.names() == ["configmaps a"]


def test_refusal_of_the_api_server_is_passed_on(alice: TestClient) -> None:
    answer = alice.get(f"{MAPS}/none")
    assert (answer.status_code, answer.json()["reason"]) == (404, "NotFound")


def test_internal_error_is_a_status_without_details(
    alice: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kubectl_sky_server.rest.proxy._path", lambda request: 1 // 0)
    body = alice.get(PODS).json()
    message = "kubectl-sky: internal error; see the server's log"
    assert (body["kind"], body["code"], body["message"]) == ("Status", 500, message)


def test_request_carries_the_caller_s_token_only(client: Client, cluster: FakeCluster) -> None:
    client(bearer(BOB)).get(PODS)
    tokens = {request.headers.get("Authorization") for request in cluster.sent}
    assert f"Bearer {BOB}" in tokens
    assert not any(SECRET in str(token) or ALICE in str(token) for token in tokens)


def test_impersonation_reaches_the_api_server(alice: TestClient, cluster: FakeCluster) -> None:
    groups = [("Impersonate-Group", "a"), ("Impersonate-Group", "b")]
    alice.get(PODS, headers=[("Impersonate-User", "carol"), *groups])
    last = cluster.sent[-1].headers
    assert last["Impersonate-User"] == "carol"
    assert last.getlist("Impersonate-Group") == ["a", "b"]


@pytest.mark.parametrize(
    "name", ["Cookie", "X-Forwarded-For", "X-Remote-User", "Connection", "X-User"]
)
def test_other_headers_are_dropped(name: str, alice: TestClient, cluster: FakeCluster) -> None:
    alice.get(PODS, headers={name: "x"})
    assert name not in cluster.sent[-1].headers


def test_request_without_a_token_is_a_status(client: Client, cluster: FakeCluster) -> None:
    answer = client().get(PODS)
    body = answer.json()
    assert (answer.status_code, body["kind"], body["code"]) == (401, "Status", 401)
    assert "Authorization: Bearer" in body["message"]


def test_session_of_a_browser_does_not_count(client: Client) -> None:
    browser = client()
    session = browser.post("/login", json={"token": ALICE}).json()["session"]
    answer = browser.get(PODS, headers={SESSION_HEADER: session})
    assert answer.status_code == 401


@pytest.mark.parametrize(
    "headers", [{"Sec-Fetch-Site": "cross-site"}, {"Origin": "https://evil.example"}]
)
def test_request_of_another_site_is_refused(headers: dict[str, str], alice: TestClient) -> None:
    answer = alice.post(MAPS, json=config_map("a"), headers=headers)
    assert (answer.status_code, answer.json()["kind"]) == (403, "Status")


def test_page_of_a_pod_runs_no_script(alice: TestClient) -> None:
    assert alice.get(PODS).headers["Content-Security-Policy"].startswith("sandbox")


def test_body_over_the_limit_is_refused(client: Client) -> None:
    server = client(bearer(ALICE), limits=Limits(proxy_body_bytes=1000))
    assert server.post(MAPS, content=b"x" * 1001).status_code == 413


def test_stream_over_the_limit_is_refused(client: Client) -> None:
    answer = client(bearer(ALICE), limits=Limits(streams=0)).get(PODS)
    assert (answer.status_code, answer.json()["reason"]) == (429, "TooManyRequests")


@pytest.mark.parametrize(
    "path",
    [
        "/kubernetes%2f@evil.example:10250/pods",
        "/kubernetes%2F/api",
        "/kubernetes/../../v3/token",
        "/kubernetes/api/%2e%2e/v3",
        "/kubernetes/api/v1%2f..%2f..%2fv3",
        "/kubernetes/api%0d%0aX: y",
        "/kubernetes/api%5cv1",
    ],
)
def test_path_that_leaves_the_api_server_is_not_sent(
    path: str, client: Client, cluster: FakeCluster
) -> None:
    sent: list[Message] = []
    scope = {
        "type": "http",
        "method": "GET",
        "path": unquote(path),
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(b"host", b"testserver"), (b"authorization", f"Bearer {ALICE}".encode())],
    }

    async def receive() -> Message:
        return {"type": "http.request", "body": b""}

    async def send(message: Message) -> None:
        sent.append(message)

    anyio.run(client().app, scope, receive, send)
    assert sent[0]["status"] == 404
    assert not any("/pods" in request.url or "v3" in request.url for request in cluster.sent)


@pytest.mark.parametrize(
    "path", ["/../../whoami", "/%2e%2e/whoami", "//evil.example/api", "/a%0d%0ab", "/\udcff"]
)
def test_odd_path_stays_with_the_api_server(
    path: str, alice: TestClient, cluster: FakeCluster
) -> None:
    before = len(cluster.sent)
    answer = alice.get(f"/kubernetes{path}".encode("utf-8", "surrogateescape").decode("latin-1"))
    assert answer.status_code < 500
    assert all(request.url.startswith("https://fake.example/") for request in cluster.sent[before:])


def test_websocket_without_a_token_is_refused(client: Client) -> None:
    with pytest.raises(WebSocketDisconnect), client().websocket_connect(f"{PODS}/a/exec"):
        pass


@pytest.mark.parametrize(
    ("media_type", "content", "body"),
    [
        ("Application/JSON; charset=utf-8", b'{"a": "1"}', {"a": "1"}),
        ("application/merge-patch+json", b"{}", {}),
        ("application/apply-patch+yaml", b"a: 1", b"a: 1"),
        ("text/json", b"{}", b"{}"),
        ("text/plain", b"", None),
    ],
)
def test_body_that_the_kubernetes_client_encodes_is_decoded(
    alice: TestClient, cluster: FakeCluster, media_type: str, content: bytes, body: object
) -> None:
    alice.patch(f"{MAPS}/a", content=content, headers={"Content-Type": media_type})
    assert cluster.sent[-1].body == body
    assert ("Content-Type" in cluster.sent[-1].headers) == (body is not None)


def test_body_that_is_not_json_is_refused(alice: TestClient, cluster: FakeCluster) -> None:
    answer = alice.post(MAPS, content=b"{", headers={"Content-Type": "application/json"})
    assert answer.status_code == 400
    assert answer.json()["message"] == "kubectl-sky: the body is not JSON"
    assert not any("configmaps" in request for request in cluster.requests)
