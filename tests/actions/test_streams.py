"""Logs of a cluster in memory: threads that end, and lines of pods that are deleted."""

from threading import Thread

import pytest

from kubectl_sky.cluster.tail import Batch, LogOptions, LogSource, Tail
from kubectl_sky.words import kinds
from tests.builders import make_pod
from tests.fake_cluster import FakeCluster

POD = make_pod(0, state={"running": {}})
NAME = POD["metadata"]["name"]
SOURCE = LogSource("default", NAME, "main")


def tail(api: FakeCluster) -> Tail:
    api.put(POD)
    return Tail(api.session(), SOURCE, LogOptions(follow=True))


def test_log_closed_while_it_is_requested_ends_its_thread(api: FakeCluster) -> None:
    log = tail(api)
    api.before("get pods/log", log.close, nth=2)
    reader = Thread(target=lambda: list(log.batches()), daemon=True)
    reader.start()
    reader.join(60)
    blocked = reader.is_alive()
    api.break_streams()
    assert not blocked


def test_log_rotated_before_pod_is_deleted_prints_new_lines(api: FakeCluster) -> None:
    def rotate() -> None:
        api.rotate(NAME)
        api.log(NAME, b"new\n")

    log = tail(api)
    batches = list[Batch]()
    api.log(NAME, b"old\n")
    api.before("get pods/log", rotate, nth=3)
    api.before(f"get pods {NAME}", lambda: api.remove(kinds.POD, NAME), nth=2)
    api.after("get pods/log", lambda: api.change(kinds.POD, NAME, status={"phase": "Pending"}), 2)
    for batch in log.batches():
        batches.append(batch)
    assert [line for batch in batches for line in batch.lines] == [b"old", b"new"]
    assert batches[-1].note == f"pod {NAME} was deleted"


def test_log_of_restarted_container_keeps_last_line_without_newline(api: FakeCluster) -> None:
    """The container of a service restarts in its pod, and its log begins again."""

    def restart() -> None:
        api.rotate(NAME)
        api.log(NAME, b"new\n")

    def stop() -> None:
        api.change(kinds.POD, NAME, status=running | {"phase": "Pending"})

    log = tail(api)
    state = {"name": "main", "state": {"running": {"startedAt": "2026-02-01T00:00:00Z"}}}
    running = {"phase": "Running", "containerStatuses": [state]}
    api.change(kinds.POD, NAME, status=running)
    api.log(NAME, b"old\nlast words")
    api.after("get pods/log", stop, nth=2)
    api.before("get pods/log", restart, nth=3)
    batches = list[Batch]()
    for batch in log.batches():
        batches.append(batch)
        if b"new" in batch.lines:
            log.close()
    assert [line for batch in batches for line in batch.lines] == [b"old", b"last words", b"new"]
    assert [batch.note for batch in batches if batch.note] == []


@pytest.mark.parametrize(
    ("start", "size", "note"),
    [
        (
            "2025-12-31T23:59:00Z",
            1 << 20,
            f"the log of pod {NAME} begins at 00:00:00 UTC, 60 s after the start: its cluster"
            " node keeps about 10 MiB",
        ),
        ("2025-12-31T23:59:59Z", 1 << 20, ""),  # a log of 1 MiB in the first second
        ("2025-12-31T23:59:00Z", 1 << 10, ""),  # a program that is silent first
        ("2025-12-99T23:59:00Z", 1 << 20, ""),
    ],
)
def test_log_begins_too_late_for_its_size_is_noted(
    api: FakeCluster, start: str, size: int, note: str
) -> None:
    api.put(make_pod(0, state={"running": {}}))
    state = {"name": "main", "state": {"running": {"startedAt": start}}}
    api.change(kinds.POD, NAME, status={"phase": "Running", "containerStatuses": [state]})
    api.log(NAME, (b"x" * 99 + b"\n") * (size // 100))
    batches = list(Tail(api.session(), SOURCE, LogOptions()).batches())
    assert "".join(batch.note for batch in batches) == note
    limited = list(Tail(api.session(), SOURCE, LogOptions(tail=9999999)).batches())
    assert not any(batch.note for batch in limited)
