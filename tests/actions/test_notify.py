"""`wait --notify`: what is sent where, and that a failure is a warning."""

import errno
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any
from unittest.mock import Mock

import pytest

from kubectl_sky.actions import notify
from kubectl_sky.words import kinds
from tests.actions.conftest import Run, Submitter
from tests.builders import ID
from tests.fake_cluster import FakeCluster
from tests.ports import free_port
from tests.test_documents import check

TASK = "name: train\nenvs: {TOKEN: hidden-value}\nrun: echo hello\n"
JOB = f"train-{ID}"
PATH = "/T0/secret-path"


class Hook(HTTPServer):
    """A server on this machine that keeps what it is sent and answers with one status."""

    def __init__(self) -> None:
        self.status = 200
        self.received: list[dict[str, Any]] = []
        self.requests: list[str] = []
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}{PATH}"


class _Handler(BaseHTTPRequestHandler):
    server: Hook

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.requests.append(f"{self.command} {self.path} {self.headers['Content-Type']}")
        self.server.received.append(json.loads(body))
        self.send_response(self.server.status)
        self.send_header("Location", "/elsewhere")
        self.end_headers()

    do_GET = do_POST  # noqa: N815 -- of http.server

    def log_message(self, *arguments: Any) -> None:
        pass


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hook]:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")  # nothing to this machine goes there
    server = Hook()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def finish(api: FakeCluster, exit_code: int = 0) -> None:
    api.start(JOB)
    api.finish(JOB, exit_code)


@pytest.mark.parametrize(
    ("exit_code", "state", "note"), [(0, "completed", ""), (3, "failed", "node-0: exit code 3")]
)
def test_notify_sends_document_when_finished(
    run: Run, send: Submitter, hook: Hook, exit_code: int, state: str, note: str
) -> None:
    send(TASK)
    finish(send.cluster, exit_code)
    expected = 4 if exit_code else 0
    assert run("wait", ID, "--notify", hook.url)[::2] == (expected, "")
    assert hook.requests == [f"POST {PATH} application/json"]
    (document,) = hook.received
    check(document)
    task = {"task_id": ID, "name": "train", "namespace": "default", "status": state, "note": note}
    suffix = f": {note}" if note else ""
    assert document["kind"] == "Notification"
    assert document["status"] == state
    assert document["text"] == f"train ({ID}) {state}{suffix}"
    assert document["tasks"] == [task]
    assert "hidden-value" not in json.dumps(document)


def test_notify_has_no_words_of_the_program(run: Run, send: Submitter, hook: Hook) -> None:
    send(TASK)
    send.cluster.start(JOB)
    words = "ValueError: cannot log in with token hunter2"
    send.cluster.finish(JOB, 1, message=words)
    out = run("wait", ID, "--notify", hook.url)[1]
    assert words in out, "the reader of the terminal may read logs"
    (document,) = hook.received
    assert document["tasks"][0]["note"] == "node-0: exit code 1"
    assert "hunter2" not in json.dumps(document)


def test_notify_says_what_a_rule_says_without_quotes(run: Run, send: Submitter, hook: Hook) -> None:
    send(TASK)
    send.cluster.start(JOB)
    send.cluster.finish(JOB, 1, message="hunter2: CUDA out of memory")
    run("wait", ID, "--notify", hook.url)
    assert hook.received[0]["tasks"][0]["note"] == "node-0: exit code 1: out of GPU memory"


def test_notify_url_may_come_from_environment(
    run: Run, send: Submitter, hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECTL_SKY_NOTIFY", hook.url)
    send(TASK)
    finish(send.cluster)
    assert run("wait", ID)[0] == 0
    assert len(hook.received) == 1


def test_notify_stopped_task_is_failed(run: Run, send: Submitter, hook: Hook) -> None:
    send(TASK)
    api = send.cluster
    api.start(JOB)
    api.after("watch jobs", lambda: api.remove(kinds.JOB, JOB))
    code, _, err = run("wait", ID, "--notify", hook.url)
    assert (code, "was stopped" in err) == (4, True)
    (document,) = hook.received
    check(document)
    assert (document["status"], document["tasks"]) == ("failed", [])
    assert document["text"] == f"task {ID} (train) was stopped: its Jobs have been deleted"


def test_notify_is_sent_if_output_cannot_be_written(
    run: Run, send: Submitter, hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(TASK)
    finish(send.cluster)
    full = OSError(errno.ENOSPC, "No space left on device")
    monkeypatch.setattr("kubectl_sky.cli.tasks.line", Mock(side_effect=full))
    assert run("wait", ID, "--notify", hook.url)[0] == 1
    assert len(hook.received) == 1


def test_notify_timeout_of_wait_sends_nothing(run: Run, send: Submitter, hook: Hook) -> None:
    send(TASK)
    assert run("wait", ID, "--timeout", "10ms", "--notify", hook.url)[0] == 1
    assert hook.received == []


@pytest.mark.parametrize("status", [302, 307, 404, 500])
def test_notify_refused_is_warning_without_path(
    run: Run, send: Submitter, hook: Hook, status: int
) -> None:
    hook.status = status
    send(TASK)
    finish(send.cluster)
    code, out, err = run("wait", ID, "--notify", hook.url)
    assert (code, out) == (0, f"task/{ID} (train) completed\n")
    assert err == f"warning: cannot notify 127.0.0.1: HTTP {status}\n"
    assert len(hook.requests) == 1, "redirects are not followed"


def test_notify_unreachable_is_warning_without_path(run: Run, send: Submitter) -> None:
    send(TASK)
    finish(send.cluster)
    code, _, err = run("wait", ID, "--notify", f"http://localhost:{free_port()}{PATH}")
    assert (code, err) == (0, "warning: cannot notify localhost: Connection refused\n")


def test_notify_slow_server_is_bounded_in_time(
    run: Run, send: Submitter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It sends a byte now and then, without end, so that no read times out."""
    monkeypatch.setattr(notify, "_SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def drip() -> None:
            with server.accept()[0] as connection, suppress(ConnectionError):  # the client leaves
                connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
                while True:
                    connection.sendall(b"x")
                    time.sleep(0.05)

        thread = threading.Thread(target=drip, daemon=True)
        thread.start()
        send(TASK)
        finish(send.cluster)
        url = f"http://127.0.0.1:{server.getsockname()[1]}{PATH}"
        code, _, err = run("wait", ID, "--notify", url)
        thread.join()
    warning = "warning: cannot notify 127.0.0.1: no answer within 0.3 seconds\n"
    assert (code, err) == (0, warning)


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        (f"http://hooks.example.com{PATH}", "must be https; http only to this machine"),
        (f"http://127.0.0.1.example.com{PATH}", "must be https; http only to this machine"),
        (f"file://{PATH}", "must be https; http only to this machine"),
        (f"example.com{PATH}", "not a URL"),
        (f"file://localhost{PATH}", "must be https; http only to this machine"),
        (f"https://user:pass@example.com{PATH}", "with a user or password is not supported"),
        (f"https://{PATH}", "not a URL"),
        (f"https://example.com:99999{PATH}", "not a URL"),
        (f"https://example.com{PATH} x", "not a URL"),
        (f"https://example.com{PATH}\r\nX: y", "not a URL"),
        (f"https://ex\u0430mple.com{PATH}", "not a URL"),
        (f"https://[::1{PATH}", "not a URL"),
        (f"https://example..com{PATH}", "not a URL"),
        ("", "not a URL"),
    ],
)
def test_notify_invalid_url_is_refused_before_the_wait(run: Run, url: str, reason: str) -> None:
    code, _, err = run("wait", ID, "--notify", url)
    assert (code, reason in err, "secret-path" in err) == (2, True, False)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.8.9.10", "[::1]"])
def test_notify_http_to_this_machine_is_accepted(run: Run, host: str) -> None:
    code, _, err = run("wait", ID, "--notify", f"http://{host}:8080/x")
    assert (code, f'task "{ID}" not found' in err) == (2, True), "what comes next"
