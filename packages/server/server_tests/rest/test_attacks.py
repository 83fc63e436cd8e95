"""Clients that send or read slowly, too much, or what a proxy would read in another way."""

import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace

import anyio
import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Message

from kubectl_sky_server.rest import connection
from kubectl_sky_server.rest.app import create_app
from kubectl_sky_server.rest.config import Config, Limits
from server_tests.rest.conftest import ALICE, BOB, serving
from tests.fake_cluster import FakeCluster
from tests.polling import eventually

CHUNKED = "Transfer-Encoding: chunked"


def head(method: str, path: str, *headers: str, token: str = ALICE) -> bytes:
    """Return the head of a request."""
    lines = (f"{method} {path} HTTP/1.1", "Host: x", f"Authorization: Bearer {token}", *headers)
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def read(client: socket.socket) -> bytes:
    """Read until the server closes the connection."""
    text = b""
    with suppress(ConnectionResetError):
        while part := client.recv(65536):
            text += part
    return text


@contextmanager
def sent(port: int, data: bytes) -> Iterator[socket.socket]:
    """Connect and send something."""
    with socket.create_connection(("127.0.0.1", port), 20) as client:
        client.sendall(data)
        yield client


def status(client: socket.socket) -> int:
    """Read the status of an answer."""
    return int(client.recv(12).split()[1])


def test_request_with_two_lengths_is_refused_and_closed(config: Config) -> None:
    """A proxy that counts otherwise would take the rest for the request of somebody else."""
    hidden = head("GET", "/whoami")
    request = head("POST", "/validate", CHUNKED, "Content-Length: 5") + b"0\r\n\r\n" + hidden
    with serving(config) as (port, _), sent(port, request) as client:
        answer = read(client)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1") == 1


@pytest.mark.parametrize(
    "path", ["/volumes/create", "/tasks/submit", "/kubernetes/api/v1/namespaces", "/nothing"]
)
def test_caller_is_known_before_the_body_is_read(config: Config, path: str) -> None:
    for headers in (["Content-Length: 900000"], [CHUNKED]):
        request = head("POST", path, "Content-Type: application/json", *headers, token="wrong")
        with serving(config) as (port, _), sent(port, request) as client:
            assert status(client) == 401


@pytest.mark.parametrize(
    ("path", "token"), [("/login", ALICE), ("/ui/", ALICE), ("/validate", "wrong")]
)
def test_body_in_chunks_of_unknown_caller_is_refused_and_closed(
    config: Config, path: str, token: str
) -> None:
    request = head("POST", path, CHUNKED, token=token) + b"1\r\na\r\n" * (connection.MAX_CHUNKS + 1)
    with serving(config) as (port, _), sent(port, request) as client:
        answer = read(client)
    assert answer.startswith(b"HTTP/1.1 401 " if token == "wrong" else b"HTTP/1.1 411 ")


@pytest.mark.parametrize("count", [connection.MAX_CHUNKS, connection.MAX_CHUNKS + 1])
def test_body_of_many_chunks_is_refused_over_the_limit(config: Config, count: int) -> None:
    form = head("POST", "/validate", "Content-Type: application/yaml", CHUNKED, "Connection: close")
    body = b"1\r\n \r\n" * (count - 1) + b"16\r\n" + b"{name: a, run: 'true'}" + b"\r\n0\r\n\r\n"
    with serving(config) as (port, _), sent(port, form + body) as client:
        answer = read(client)
    if count > connection.MAX_CHUNKS:
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert b"\r\nthe body has more than 1,000 chunks\r\n" in answer
    else:
        assert answer.startswith(b"HTTP/1.1 200 ")


def test_request_after_an_unread_body_in_chunks_is_answered(config: Config) -> None:
    last = head("POST", "/validate", CHUNKED, "Connection: close") + b"1\r\n{\r\n0\r\n\r\n"
    request = head("POST", "/nothing", CHUNKED) + b"1\r\na\r\n0\r\n\r\n"
    with serving(config) as (port, _), sent(port, request * 2 + last) as client:
        answers = read(client)
    assert [answers.count(status) for status in (b"HTTP/1.1 404 ", b"HTTP/1.1 ")] == [2, 3]


def test_invalid_chunk_after_an_answer_closes_without_error(
    config: Config, caplog: pytest.LogCaptureFixture
) -> None:
    request = head("POST", "/nothing", CHUNKED)
    with serving(config) as (port, _), sent(port, request) as client:
        assert status(client) == 404
        client.sendall(b"no chunk\r\n")
        read(client)
    assert "Fatal error" not in caplog.text


def test_client_that_leaves_within_a_body_is_no_internal_error(
    config: Config, caplog: pytest.LogCaptureFixture
) -> None:
    messages: list[Message] = [
        {"type": "http.disconnect"},
        {"type": "http.request", "body": b"x", "more_body": 1},
    ]
    headers = {"host": "testserver", "authorization": f"Bearer {ALICE}"}
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/validate",
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }

    async def receive() -> Message:
        return messages.pop()

    async def send(message: Message) -> None:
        pytest.fail(f"sent {message}")

    anyio.run(create_app(config), scope, receive, send)
    assert messages == []
    assert "internal error" not in caplog.text


@pytest.mark.parametrize("path", ["/volumes/create", "/tasks/submit", "/validate"])
def test_chunked_body_over_the_limit_is_413(config: Config, path: str) -> None:
    request = head("POST", path, "Content-Type: application/json", CHUNKED)
    with serving(config) as (port, _), sent(port, request) as client:
        for _ in range(257):
            client.sendall(b"1000\r\n" + b"1" * 4096 + b"\r\n")
        assert status(client) == 413


@pytest.mark.parametrize("requests", [[], [head("GET", "/healthz")]])
@pytest.mark.parametrize("part", [b"", b"GET / HTTP/1.1\r\nX: "])
def test_head_of_a_request_has_a_deadline(
    config: Config, monkeypatch: pytest.MonkeyPatch, requests: Sequence[bytes], part: bytes
) -> None:
    monkeypatch.setattr(connection, "HEAD_SECONDS", 0.2)
    monkeypatch.setattr(connection, "_CHECK_SECONDS", 0.05)
    with serving(config) as (port, _), sent(port, b"".join(requests) + part) as client:
        client.settimeout(8)  # less than the default of 10 seconds
        assert read(client).count(b"HTTP/1.1 200 ") == len(requests)


def test_body_that_is_too_slow_is_refused(config: Config) -> None:
    limits = Limits(body_seconds=0.2)
    request = head("POST", "/validate", "Content-Type: application/yaml", "Content-Length: 9")
    with serving(replace(config, limits=limits)) as (port, _), sent(port, request) as client:
        assert read(client).startswith(b"HTTP/1.1 408 ")


def test_rest_of_a_refused_body_is_not_waited_for(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "HEAD_SECONDS", 0.2)
    monkeypatch.setattr(connection, "_CHECK_SECONDS", 0.05)
    request = head("POST", "/validate", "Content-Length: 900000", token="wrong")
    with serving(config) as (port, _), sent(port, request) as client:
        client.settimeout(8)
        assert read(client).startswith(b"HTTP/1.1 401 ")


def test_connections_are_limited(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "MAX_CONNECTIONS", 3)
    request = head("GET", "/healthz")
    with serving(config) as (port, _):
        with ExitStack() as clients:
            for _ in range(3):
                assert status(clients.enter_context(sent(port, request))) == 200
            assert status(clients.enter_context(sent(port, b""))) == 503
        eventually(lambda: answers(port, request))


def answers(port: int, request: bytes) -> bool:
    """Return whether a request is answered with 200."""
    with suppress(ConnectionError), sent(port, request) as client:
        return status(client) == 200
    return False


@contextmanager
def large_answers(config: Config) -> Iterator[int]:
    """Serve answers of 30 MB; yield the port."""
    with serving(config) as (port, app):
        app.add_api_route("/large", lambda: PlainTextResponse(b"x" * 30_000_000))
        yield port


def test_large_answer_is_complete_for_a_reader(config: Config) -> None:
    request = head("GET", "/large", "Connection: close")
    with large_answers(config) as port, sent(port, request) as client:
        assert read(client).partition(b"\r\n\r\n")[2] == b"x" * 30_000_000


def test_client_that_reads_nothing_is_disconnected(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "STALL_SECONDS", 0.3)
    monkeypatch.setattr(connection, "_CHECK_SECONDS", 0.05)
    closed = threading.Event()
    original = connection.Connection.connection_lost

    def connection_lost(self: connection.Connection, error: Exception | None) -> None:
        original(self, error)
        closed.set()

    monkeypatch.setattr(connection.Connection, "connection_lost", connection_lost)
    with large_answers(config) as port, sent(port, head("GET", "/large")) as slow:
        assert closed.wait(60)
        assert len(read(slow)) < 30_000_000


def test_slow_reviews_of_new_tokens_delay_no_known_caller(
    config: Config, cluster: FakeCluster
) -> None:
    known = head("GET", "/whoami")
    reviewing = threading.Event()
    stop = threading.Event()

    def wait() -> None:
        reviewing.set()
        stop.wait(60)

    limits = Limits(reviews=1, workers=2)
    with serving(replace(config, limits=limits)) as (port, _), ExitStack() as clients:
        assert answers(port, known)
        cluster.before("create selfsubjectreviews", wait)
        for token in (BOB, "wrong", "wrong", "wrong"):
            clients.enter_context(sent(port, head("GET", "/whoami", token=token)))
        assert reviewing.wait(60)
        assert answers(port, known)
        stop.set()
