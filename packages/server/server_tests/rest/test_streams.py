"""Logs and events: as text, as events that resume, and for readers that are slow or gone."""

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from starlette.testclient import TestClient

from kubectl_sky.cluster import backoff
from kubectl_sky_server.rest import metrics
from kubectl_sky_server.rest.config import Config, Limits
from server_tests.rest.conftest import ALICE, HELLO, Client, bearer, serving, submitted
from tests.builders import ID
from tests.fake_cluster import FakeCluster, lost
from tests.polling import eventually

SSE = {"Accept": "text/event-stream"}


def events(text: str) -> list[dict[str, Any]]:
    """Parse Server-Sent Events."""
    result = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if line[:1] != ":")
        if fields:
            result.append(fields | {"data": json.loads(fields["data"])})
    return result


def lines(text: str) -> list[str]:
    return [event["data"]["text"] for event in events(text) if event["event"] == "line"]


@pytest.fixture
def finished(alice: TestClient, cluster: FakeCluster) -> str:
    """A task of two nodes that has written six lines."""
    task_id = submitted(alice, HELLO | {"num_nodes": 2})
    pods = [cluster.start(f"hello-{task_id}-node-{rank}") for rank in range(2)]
    for number in range(3):
        for pod, name in zip(pods, "ab", strict=True):
            cluster.log(pod, f"{name}{number}\n".encode())
    for rank in range(2):
        cluster.finish(f"hello-{task_id}-node-{rank}")
    return task_id


def test_logs_as_text_have_the_names_of_nodes(alice: TestClient, finished: str) -> None:
    answer = alice.get(f"/tasks/{finished}/logs")
    assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert sorted(answer.text.splitlines()) == [
        "node-0 | a0", "node-0 | a1", "node-0 | a2", "node-1 | b0", "node-1 | b1", "node-1 | b2",
    ]  # fmt: skip


def test_logs_of_one_rank_with_tail_and_timestamps(alice: TestClient, finished: str) -> None:
    query = {"rank": "1", "tail": "1", "timestamps": "true", "follow": "false"}
    text = alice.get(f"/tasks/{finished}/logs", params=query).text
    assert text.startswith("node-1 | 2026-01-01T00:00:00.0")
    assert text.endswith("Z b2\n")


@pytest.mark.parametrize(
    "query",
    ["rank=9", "rank=x", "tail=-1", "since=soon", "since=999999d", "follow=maybe", "tail=99999999"],
)
def test_wrong_log_queries_are_refused(alice: TestClient, finished: str, query: str) -> None:
    answer = alice.get(f"/tasks/{finished}/logs?{query}")
    if query == "rank=9":  # known only when the stream has started
        assert answer.text == f"error: task {finished} has no rank 9\n"
    else:
        assert answer.status_code == 400


def test_logs_as_events_end_with_the_state(alice: TestClient, finished: str) -> None:
    answer = alice.get(f"/tasks/{finished}/logs", headers=SSE)
    assert answer.headers["Content-Type"].startswith("text/event-stream")
    assert sorted(lines(answer.text)) == ["a0", "a1", "a2", "b0", "b1", "b2"], answer.text
    *_, end = events(answer.text)
    assert (end["event"], end["data"]) == ("end", {"state": "completed"})


def test_logs_of_a_failed_task_end_with_its_reason(alice: TestClient, cluster: FakeCluster) -> None:
    task_id = submitted(alice)
    cluster.start(f"hello-{task_id}")
    cluster.finish(f"hello-{task_id}", 3)
    *_, end = events(alice.get(f"/tasks/{task_id}/logs", headers=SSE).text)
    assert end["data"]["state"] == "failed"
    assert "exit code 3" in end["data"]["message"]


def test_followed_logs_with_a_silent_kubelet_go_on_and_end_as_the_task(
    alice: TestClient, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def go_on() -> None:
        cluster.log(f"{jobs[0]}-0", b"a1\n")
        cluster.start_kubelet("n1")
        cluster.log(silent, b"b1\n")
        for job in jobs:
            cluster.finish(job)

    monkeypatch.setattr(backoff, "TIMEOUT_SECONDS", 0.1)
    task_id = submitted(alice, HELLO | {"num_nodes": 2})
    jobs = [f"hello-{task_id}-node-{rank}" for rank in range(2)]
    cluster.log(cluster.start(jobs[0], "n0"), b"a0\n")
    silent = cluster.start(jobs[1], "n1")
    cluster.log(silent, b"b0\n")
    cluster.stop_kubelet("n1")
    cluster.before(f"get pods/log {silent}", go_on, 7)

    text = alice.get(f"/tasks/{task_id}/logs", headers=SSE).text
    assert sorted(lines(text)) == ["a0", "a1", "b0", "b1"]
    notes = [event["data"]["text"] for event in events(text) if event["event"] == "note"]
    note = "node-1: its cluster node n1 does not respond; its log continues when it can be read"
    assert notes.count(note) == 1
    assert events(text)[-1]["data"] == {"state": "completed"}


@pytest.mark.parametrize("follow", ["true", "false"])
def test_logs_resume_after_any_event_without_loss(
    alice: TestClient, finished: str, follow: str
) -> None:
    path = f"/tasks/{finished}/logs?follow={follow}"
    first = [event for event in events(alice.get(path, headers=SSE).text) if "id" in event]
    assert len(first) == 6
    for count in range(6):
        headers = SSE | {"Last-Event-ID": first[count]["id"]}
        rest = lines(alice.get(path, headers=headers).text)
        seen = [event["data"]["text"] for event in first[: count + 1]]
        assert sorted(seen + rest) == ["a0", "a1", "a2", "b0", "b1", "b2"]


def test_hostile_log_text_is_data(alice: TestClient, cluster: FakeCluster) -> None:
    task_id = submitted(alice)
    pod = cluster.start(f"hello-{task_id}")
    cluster.log(pod, b"data: x\\n\\nevent: end\r\n\xff\x00<script>\n")
    cluster.finish(f"hello-{task_id}")
    text = alice.get(f"/tasks/{task_id}/logs", headers=SSE).text
    assert lines(text) == ["data: x\\n\\nevent: end\r", "\ufffd\x00<script>"]
    assert [event["event"] for event in events(text)] == ["line", "line", "end"]


@pytest.mark.parametrize(
    "cursor",
    ["x", ":", "a:b", "a:1.1_2", "a:1.1_2_Q", "a:zz.1_2_Z",
     "a:1.1_1_1_1_Z", "a:1_Z", "x" * 61_000],
)  # fmt: skip
def test_foreign_event_ids_are_refused(alice: TestClient, finished: str, cursor: str) -> None:
    headers = SSE | {"Last-Event-ID": cursor}
    assert alice.get(f"/tasks/{finished}/logs", headers=headers).status_code == 400


def test_events_of_a_finished_task_end(alice: TestClient, finished: str) -> None:
    first, *_, end = events(alice.get(f"/tasks/{finished}/events").text)
    assert (first["event"], first["data"]["status"]) == ("task", "completed")
    assert end["event"] == "end"
    headers = {"Last-Event-ID": first["id"]}
    [only] = events(alice.get(f"/tasks/{finished}/events", headers=headers).text)
    assert only["event"] == "end"


def test_evidence_is_not_kept_on_the_server(
    alice: TestClient, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object) -> None:
        raise AssertionError("the server's cache is used")

    for name in ("_folder", "_read"):
        monkeypatch.setattr(f"kubectl_sky.tasks.evidence.{name}", fail)
    # The recorder finds its folder when it is created; that reads nothing.
    monkeypatch.setattr("kubectl_sky.tasks.evidence._folder", lambda: None)
    task_id = submitted(alice)
    cluster.start(f"hello-{task_id}")
    cluster.finish(f"hello-{task_id}", 3)
    assert alice.get(f"/tasks/{task_id}/logs").status_code == 200
    assert alice.get(f"/tasks/{task_id}").json()["status"] == "failed"


def test_too_many_streams_of_one_user_are_refused(client: Client, cluster: FakeCluster) -> None:
    alice = client(bearer(ALICE), limits=Limits(streams=0))
    task_id = submitted(alice)
    answer = alice.get(f"/tasks/{task_id}/logs")
    assert answer.status_code == 429
    assert answer.json()["detail"] == "more than 0 open streams"


def connect(port: int, path: str) -> socket.socket:
    """Send a request for events and return the connection."""
    client = socket.create_connection(("127.0.0.1", port), timeout=60)
    client.sendall(
        f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {ALICE}\r\n"
        "Accept: text/event-stream\r\n\r\n".encode()
    )
    return client


def read_until(client: socket.socket, done: Callable[[bytes], bool]) -> bytes:
    text = b""
    while not done(text):
        chunk = client.recv(65536)
        assert chunk, text
        text += chunk
    return text


def test_lines_arrive_while_the_task_runs_and_a_gone_reader_frees_everything(
    alice: TestClient, cluster: FakeCluster, config: Config
) -> None:
    submitted(alice, id=ID)
    pod = cluster.start(f"hello-{ID}")
    threads = {thread.name for thread in threading.enumerate()}

    with serving(config) as (port, app):
        with connect(port, f"/tasks/{ID}/logs") as client:
            cluster.log(pod, b"one\n")
            read_until(client, lambda text: b'"one"' in text)
            cluster.log(pod, b"two\n")
            read_until(client, lambda text: b'"two"' in text)
            assert app.state.streams.total == 1
        eventually(lambda: app.state.streams.total == 0)
        eventually(
            lambda: "stream" not in {thread.name for thread in threading.enumerate()} - threads
        )
        eventually(lambda: "log" not in {thread.name for thread in threading.enumerate()} - threads)


def test_list_events_follow_changes(
    alice: TestClient, cluster: FakeCluster, config: Config
) -> None:
    with serving(config) as (port, app), connect(port, "/tasks/events") as client:
        read_until(client, lambda text: b'"tasks":[]' in text)
        submitted(alice, id=ID)
        read_until(client, lambda text: b'"pending"' in text)
        cluster.start(f"hello-{ID}")
        read_until(client, lambda text: b'"running"' in text)
        assert app.state.streams.total == 1


def test_list_events_go_on_after_the_api_server_was_away(
    alice: TestClient, cluster: FakeCluster, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = threading.Event()
    original = cluster.answer

    def answer(*arguments: Any) -> Any:
        if away.is_set():
            lost()
        return original(*arguments)

    monkeypatch.setattr(cluster, "answer", answer)
    monkeypatch.setattr(metrics, "_READY_SECONDS", 0.0)
    anyone = b"GET /readyz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    with serving(config) as (port, app), connect(port, "/tasks/events") as client:

        def readiness() -> bytes:
            return _first_line(("127.0.0.1", port), anyone)

        read_until(client, lambda text: b'"tasks":[]' in text)
        away.set()
        cluster.break_streams()
        eventually(lambda: b" 503 " in readiness())  # from then on the page is stale
        assert app.state.streams.total == 1  # the stream waits for the API server
        away.clear()
        submitted(alice, id=ID)
        read_until(client, lambda text: b'"pending"' in text)
        assert b" 200 " in readiness()


def _first_line(address: tuple[str, int], request: bytes, seconds: float = 20) -> bytes:
    with socket.create_connection(address, seconds) as client:
        client.sendall(request)
        with suppress(OSError):  # also a reset, by a server that has not read the whole request
            return client.recv(100).partition(b"\r\n")[0]
    return b""


def test_slow_reader_of_a_log_holds_back_the_log(
    alice: TestClient, cluster: FakeCluster, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    submitted(alice, id=ID)
    pod = cluster.start(f"hello-{ID}")
    line = b"x" * 60_000 + b"\n"
    cluster.log(pod, line * 1000)  # 60 MB
    sent = 0
    original = cluster._lines

    def counted(*arguments: Any) -> Iterator[bytes]:
        nonlocal sent
        for part in original(*arguments):
            sent += len(part)
            yield part

    monkeypatch.setattr(cluster, "_lines", counted)
    with serving(config) as (port, _), connect(port, f"/tasks/{ID}/logs") as client:
        client.recv(100)
        eventually(lambda: sent > 1_000_000)
        previous = -1
        while previous != sent:  # until nothing moves
            previous = sent
            time.sleep(1)
        assert sent < 30_000_000
        received = 0
        while received < 40_000_000:
            part = client.recv(1 << 20)
            assert part
            received += len(part)
