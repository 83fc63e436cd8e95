"""A hostile or broken API server."""

import base64
import gzip
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kubectl_sky.cluster import objects, transport
from kubectl_sky.cluster import session as session_module
from kubectl_sky.cluster.connection import Connection
from kubectl_sky.cluster.core import CoreManager
from kubectl_sky.cluster.session import Session
from kubectl_sky.cluster.watch import ObjectSelection, watch_kinds
from kubectl_sky.cluster.websocket import connect
from kubectl_sky.errors import ClusterError
from kubectl_sky.words import kinds
from tests.attacks.hostile import Attack, HostileServer, answer, forever
from tests.contract.configs import make_config
from tests.e2e.command import PROGRAM
from tests.forked import Forked, limit_memory

MEMORY = 1200 << 20  # of address space
SECONDS = 60.0
TOKEN = "t0p-s3cret"
LIST = b'{"kind": "List", "metadata": {"resourceVersion": "1"}, "items": []}'

Serve = Callable[[Attack], HostileServer]


@pytest.fixture
def serve() -> Iterator[Serve]:
    servers: list[HostileServer] = []

    def start(attack: Attack) -> HostileServer:
        servers.append(HostileServer(attack))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


def constant(data: bytes) -> Attack:
    return lambda _head: iter([data])


def head(*lines: str) -> bytes:
    return "\r\n".join(("HTTP/1.1 200 OK", "Content-Type: application/json", *lines)).encode()


def endless(start: bytes, piece: bytes, seconds: float = 0.0) -> Attack:
    """Send a piece again and again."""

    def attack(_head: str) -> Iterator[bytes]:
        yield start
        yield from forever(piece, seconds)

    return attack


CHUNKED = head("Transfer-Encoding: chunked") + b"\r\n\r\n"
HUGE = "Content-Length: 1000000000000"
HEADERS: dict[str, Attack] = {
    "silence": endless(b"", b"", 0.2),
    "headers-without-end": endless(head() + b"\r\n", b"X-More: " + b"y" * 60_000 + b"\r\n"),
    "header-line-without-end": endless(head() + b"\r\nX-Long: ", b"y" * 65536),
    "refusal-without-end": endless(f"HTTP/1.1 503 x\r\n{HUGE}\r\n\r\n".encode(), b"x" * 65536),
}


def gzip_bomb(layers: int) -> bytes:
    data = gzip.compress(b" " * 2**20) * 1024
    for _ in range(layers - 1):
        data = gzip.compress(data)
    return answer(data, Content_Encoding=", ".join(["gzip"] * layers))


def refusal(message: object, status: str = "403 Forbidden", **fields: Any) -> bytes:
    body = {"kind": "Status", "message": message} | fields
    return answer(json.dumps(body).encode(), status)


ATTACKS: dict[str, Attack] = HEADERS | {
    "not-http": constant(b"SSH-2.0-OpenSSH_9.9\r\n"),
    "zeros": endless(b"", b"\0" * 65536),
    "status-line-without-end": endless(b"", b"H" * 65536),
    "body-drip": endless(head("Content-Length: 1000000") + b"\r\n\r\n", b" ", 0.2),
    "body-without-end": endless(head(HUGE) + b'\r\n\r\n{"items": ["', b"x" * 65536),
    "chunks-without-end": endless(CHUNKED, b"10000\r\n" + b" " * 65536 + b"\r\n"),
    "chunk-size-without-end": endless(CHUNKED, b"0" * 65536),
    "length-of-10^5000": constant(head(f"Content-Length: {'9' * 5000}") + b"\r\n\r\n{}"),
    "negative-length": constant(head("Content-Length: -5") + b"\r\n\r\n{}"),
    "cut-body": constant(head("Content-Length: 100", "Connection: close") + b"\r\n\r\n{}"),
    "gzip-bomb": lambda _head: iter([gzip_bomb(1)]),
    "gzip-bomb-in-gzip": lambda _head: iter([gzip_bomb(3)]),
    "damaged-gzip": constant(answer(b"\x1f\x8b" + b"x" * 100, Content_Encoding="gzip")),
    "html": constant(answer(b"<html>log in</html>", kind="text/html")),
    "json-called-html": constant(answer(LIST, kind="text/html")),
    "malformed-json": constant(answer(b'{"items": [')),
    "deep-json": constant(answer(b'{"metadata": ' + b"[" * 5_000_000)),
    "json-array": constant(answer(b"[]")),
    "json-null": constant(answer(b"null")),
    "not-utf-8": constant(answer(b'{"metadata": {}, "items": "\xff\xfe"}')),
    "no-metadata": constant(answer(b'{"items": [], "status": []}')),
    "items-of-numbers": constant(answer(b'{"metadata": {}, "items": [1, 2]}')),
    "items-without-metadata": constant(answer(b'{"metadata": {}, "items": [{}]}')),
    "pages-without-end": constant(answer(b'{"metadata": {"continue": "x"}, "items": []}')),
    "redirect": constant(answer(b"", "302 Found", Location="http://evil.invalid/x?token=1")),
    "redirect-to-nowhere": constant(answer(b"", "307 x", Location="http://[\x1b]0;x:99999999/")),
    "not-modified": constant(answer(b"", "304 Not Modified")),
    "switching": constant(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n"),
    "retry-after-10^9": constant(answer(b"", "429 Busy", Retry_After="1000000000")),
    "retry-after-10^5000": constant(answer(b"", "429 Busy", Retry_After="9" * 5000)),
    "retry-after-year-9999": constant(
        answer(b"", "503 Busy", Retry_After="Fri, 31 Dec 9999 23:59:59 GMT")
    ),
    "retry-after-nonsense": constant(answer(b"", "503 Busy", Retry_After="soon\x1b[2J")),
    "escapes-in-a-message": constant(refusal("a\x1b]0;x\x07b\u202ec\r\nerror: d")),
    "message-of-1-mb": constant(refusal("x " * 500_000)),
    "status-of-other-types": constant(
        refusal([1], "404 Not Found", details=[{"causes": 3}], reason={}, code="x")
    ),
    "causes-of-other-types": constant(
        refusal("x", "422 Invalid", details={"causes": [1, {"field": []}], "kind": 7, "name": []})
    ),
    "unauthorized": constant(refusal("no", "401 Unauthorized")),
}


@pytest.mark.parametrize("name", list(ATTACKS))
def test_list_from_hostile_server_prints_short_error(
    serve: Serve, tmp_path: Path, name: str
) -> None:
    server = serve(ATTACKS[name])
    config = make_config(tmp_path / "config", user={"token": TOKEN}, cluster={"server": server.url})
    environment = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}
    sky = Forked(PROGRAM, environment, tmp_path, prepare=partial(limit_memory, MEMORY))
    flags = ("--kubeconfig", str(config), "--user", "u", "--request-timeout", "1")
    done = sky("list", *flags, timeout=SECONDS)
    assert (done.returncode, done.stdout) == (3, ""), done.stderr
    assert done.stderr.count("\n") <= 2, done.stderr  # error and hint
    assert done.stderr.startswith("error: ")
    assert len(done.stderr) < 5000
    assert done.stderr.replace("\n", "").isprintable()
    assert "internal error" not in done.stderr
    assert server.requests
    assert not any(TOKEN in request for request in server.requests), "a token over http"


def session_with(server: HostileServer, seconds: float = 60) -> Session:
    return Session.connect(Connection(server=server.url, kubeconfig=None, request_timeout=seconds))


@pytest.fixture(autouse=True)
def no_kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)


def test_request_redirect_is_not_followed_and_names_target(serve: Serve) -> None:
    target = serve(constant(answer(LIST)))
    server = serve(constant(answer(b"", "302 Found", Location=f"{target.url}/x?secret=1")))
    with pytest.raises(ClusterError) as caught:
        objects.list_all(session_with(server), kinds.POD, "default")
    assert f"redirect to {target.url} (HTTP 302), which is not followed" in str(caught.value)
    assert "secret" not in str(caught.value)
    assert target.requests == []


ITEM = {"metadata": {"name": "a", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"}}
PAGE = answer(json.dumps({"metadata": {"continue": "x"}, "items": [ITEM] * 500}).encode())


def test_list_without_end_ends_after_150000_objects(serve: Serve) -> None:
    page = answer(json.dumps({"metadata": {"continue": "x"}, "items": [ITEM]}).encode())
    server = serve(constant(page))
    with pytest.raises(ClusterError, match="the list of configmaps does not end: 300 objects"):
        objects.list_all(session_with(server), kinds.CONFIG_MAP, "default")
    assert len(server.requests) * objects.PAGE_SIZE == 150_000


def test_list_of_too_many_bytes_in_memory_is_refused(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(objects, "_MAX_KEPT_BYTES", 10_000)
    monkeypatch.setattr(objects, "_MAX_LIST_BYTES", 100_000)
    session = session_with(serve(constant(PAGE)))
    with pytest.raises(ClusterError, match="does not end: 500 objects"):
        objects.list_all(session, kinds.CONFIG_MAP, "default")
    with pytest.raises(ClusterError, match=r"does not end: \d,\d00 objects"):
        objects.extract(session, kinds.CONFIG_MAP, "default", {}, lambda _item: None)


def test_list_of_slow_pages_ends(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter(range(0, 10_000, 50))
    monkeypatch.setattr(objects, "monotonic", lambda: next(times))
    server = serve(constant(PAGE))
    with pytest.raises(ClusterError, match="does not end: 1,000 objects"):
        objects.list_all(session_with(server), kinds.CONFIG_MAP, "default")


def test_request_huge_retry_after_waits_30_seconds(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    # Not time.sleep itself: threads of other tests may sleep meanwhile.
    fake_time = SimpleNamespace(sleep=waits.append, monotonic=time.monotonic)
    monkeypatch.setattr("kubectl_sky.cluster.transport.time", fake_time)
    server = serve(constant(answer(b"", "429 Busy", Retry_After="1000000000")))
    with pytest.raises(ClusterError, match="is overloaded"):
        objects.list_all(session_with(server, 600), kinds.POD, "default")
    assert waits == [30.0]
    server = serve(constant(answer(b"", "429 Busy", Retry_After="12")))
    with pytest.raises(ClusterError, match="is overloaded"):
        objects.list_all(session_with(server, 600), kinds.POD, "default")
    assert waits[1:] == [12.0, 12.0, 6.0], "30 seconds in all"


def test_request_unauthorized_over_http_explains_missing_credentials(serve: Serve) -> None:
    server = serve(ATTACKS["unauthorized"])
    with pytest.raises(ClusterError, match="credentials are not sent to http://127"):
        objects.list_all(session_with(server), kinds.POD, "default")


def test_request_without_timeout_flag_uses_default_timeout(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_module, "_REQUEST_SECONDS", 1.0)
    connection = Connection(server=serve(ATTACKS["body-drip"]).url)
    with pytest.raises(ClusterError, match="did not answer GET pods in time"):
        objects.list_all(Session.connect(connection), kinds.POD, "default")


def test_stream_without_content_is_empty(serve: Serve) -> None:
    """API servers answer like this for an empty log."""
    server = serve(constant(b"HTTP/1.1 204 No Content\r\n\r\n"))
    with session_with(server).stream("/api/v1/namespaces/a/pods/b/log", {}) as stream:
        assert list(stream) == []


def test_response_of_maximum_size_is_read(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "MAX_ANSWER_BYTES", len(LIST))
    server = serve(constant(answer(LIST)))
    assert objects.list_all(session_with(server), kinds.POD, "default") == []
    monkeypatch.setattr(transport, "MAX_ANSWER_BYTES", len(LIST) - 1)
    with pytest.raises(ClusterError, match="with more than the"):
        objects.list_all(session_with(server), kinds.POD, "default")


HANDSHAKES: dict[str, Attack] = HEADERS | {
    "no-accept": constant(
        b"HTTP/1.1 101 x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Protocol: v4\r\n\r\n"
    ),
    "wrong-accept": constant(
        b"HTTP/1.1 101 x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Accept: AAAA\r\nSec-WebSocket-Protocol: v4\r\n\r\n"
    ),
    "ok-instead": constant(answer(b"{}")),
    "html": constant(answer(b"<html>", "200 OK", "text/html")),
    "redirect": constant(answer(b"", "302 Found", Location="ws://evil.invalid/")),
    "garbage": constant(b"\0" * 4096),
    "closed": constant(b""),
}


@pytest.mark.parametrize("name", list(HANDSHAKES))
def test_websocket_invalid_handshake_is_refused(serve: Serve, name: str) -> None:
    server = serve(HANDSHAKES[name])
    begun = time.monotonic()
    with pytest.raises(ClusterError) as caught:
        connect(session_with(server, 2), "/exec", {"a": "b"}, ["v4"])
    assert "\n" not in str(caught.value)
    assert time.monotonic() - begun < 60


def websocket(*frames: bytes, protocol: str = "v4") -> Attack:
    """Accept the handshake and send frames with it, then wait."""

    def attack(request: str) -> Iterator[bytes]:
        key = next(
            line.partition(":")[2].strip()
            for line in request.splitlines()
            if line.lower().startswith("sec-websocket-key")
        )
        magic = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        accept = base64.b64encode(hashlib.sha1((key + magic).encode()).digest()).decode()
        yield (
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Accept: {accept}\r\nSec-WebSocket-Protocol: {protocol}\r\n\r\n"
        ).encode() + b"".join(frames)
        yield from forever(b"", 0.1)

    return attack


def test_websocket_frames_sent_with_handshake_are_read(serve: Serve) -> None:
    server = serve(websocket(b"\x82\x02hi", b"\x02\x01a", b"\x80\x01b", b"\x88\x00"))
    with connect(session_with(server), "/exec", {}, ["v5", "v4"]) as opened:
        assert opened.protocol == "v4"
        assert [opened.receive(), opened.receive(), opened.receive()] == [b"hi", b"ab", None]


def test_websocket_only_pings_times_out(serve: Serve) -> None:
    def attack(request: str) -> Iterator[bytes]:
        yield next(websocket()(request))
        yield from forever(b"\x89\x00" * 1000, 0.01)

    opened = connect(session_with(serve(attack)), "/exec", {}, ["v4"])
    with opened, pytest.raises(TimeoutError):
        opened.receive(until=time.monotonic() + 1)


def test_websocket_unknown_subprotocol_is_refused(serve: Serve) -> None:
    with pytest.raises(ClusterError, match="does not switch to a WebSocket"):
        connect(session_with(serve(websocket(protocol="v9"))), "/exec", {}, ["v4"])


@pytest.mark.parametrize(
    "event",
    [
        b"x" * (9 * 2**20),
        b"[]\n",
        b'{"type": "ADDED"}\n',
        b'{"type": "ADDED", "object": 3}\n',
        b'{"type": "ADDED", "object": {}}\n',
        b'{"type": "STRANGE", "object": {"metadata": {"uid": "u", "resourceVersion": "1"}}}\n',
        b'{"type": "ERROR", "object": {"code": "x", "message": ["y"]}}\n',
    ],
)
def test_watch_malformed_events_are_cluster_error(
    serve: Serve, event: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kubectl_sky.cluster.backoff.TIMEOUT_SECONDS", 0.5)
    monkeypatch.setattr("kubectl_sky.cluster.watch.MAX_EVENT_BYTES", 8 * 2**20)

    def attack(request: str) -> Iterator[bytes]:
        yield answer(event) if "watch=1" in request else answer(LIST)

    session = session_with(serve(attack))
    with pytest.raises(ClusterError):
        for _ in watch_kinds(session, ObjectSelection((kinds.POD,), "default")):
            pass


def test_whoami_malformed_answer_is_cluster_error(serve: Serve) -> None:
    for body in (b"{}", b'{"status": []}', b'{"status": {"userInfo": {"username": []}}}'):
        with pytest.raises(ClusterError):
            CoreManager(session_with(serve(constant(answer(body))))).whoami()
