"""The logs of tasks and nodes on the whole screen."""

import pytest

from kubectl_sky.words import kinds
from tests.actions.conftest import Submitter
from tests.builders import ID
from tests.fake_cluster import FakeCluster
from ui_tests.conftest import NARROW, Play, Screen

HELLO = "name: hello\nrun: echo hello\n"
JOB = f"hello-{ID}"


def test_logs_show_lines_as_they_come(api: FakeCluster, send: Submitter, play: Play) -> None:
    send(HELLO)
    pod = api.start(JOB)
    api.log(pod, b"first\n")

    async def act(screen: Screen) -> None:
        await screen.shows("running")
        await screen.press("l")
        await screen.shows("first", f"logs hello {ID}")
        api.log(pod, b"second\n")
        await screen.shows("first", "second")
        api.finish(JOB)
        await screen.shows(f"task {ID} completed")
        await screen.press("escape")
        await screen.shows("1 task")

    play(act, NARROW)


def test_logs_of_failed_task_end_with_reason(api: FakeCluster, send: Submitter, play: Play) -> None:
    send(HELLO)
    api.log(api.start(JOB), b"last words\n")
    api.finish(JOB, 3)

    async def act(screen: Screen) -> None:
        await screen.shows("failed")
        await screen.press("l")
        await screen.shows("last words", "failed: node-0: exit code 3")

    play(act)


def test_logs_of_several_nodes_have_prefixes_and_node_key_selects_one(
    api: FakeCluster, send: Submitter, play: Play
) -> None:
    send(HELLO + "num_nodes: 2\n")
    for rank in (0, 1):
        api.log(api.start(f"{JOB}-node-{rank}"), f"from {rank}\n".encode())

    async def act(screen: Screen) -> None:
        await screen.shows("2/2")
        await screen.press("l")
        await screen.shows("node-0 | from 0", "node-1 | from 1")
        await screen.press("escape", "enter")
        await screen.shows("RESTARTS")
        await screen.press("down", "enter")
        await screen.shows("from 1", f"node-1 {ID}")
        assert "from 0" not in screen.text

    play(act)


def test_logs_keys_filter_and_show_times(api: FakeCluster, send: Submitter, play: Play) -> None:
    send(HELLO)
    api.log(api.start(JOB), b"loss 1\nother\nloss 2\n" + b"long " * 100 + b"\n")

    async def act(screen: Screen) -> None:
        await screen.shows("running")
        await screen.press("l")
        await screen.shows("loss 1", "other")

        rows = screen.text.count("long")
        await screen.press("w")
        await screen.until(lambda: 0 < screen.text.count("long") < rows)

        await screen.press("t")
        await screen.shows("2026-01-01T00:00:00")
        await screen.press("t")
        await screen.lacks("2026-01-01T00:00:00")

        await screen.press("slash", *"LOSS", "enter")
        await screen.lacks("other")
        await screen.shows("loss 1", "loss 2", "/LOSS")
        await screen.press("escape")
        await screen.shows("other")

    play(act)


@pytest.mark.usefixtures("few_lines")
def test_logs_stay_where_user_reads_while_many_lines_arrive(
    api: FakeCluster, send: Submitter, play: Play
) -> None:
    send(HELLO)
    pod = api.start(JOB)
    api.log(pod, b"".join(b"old %d.\n" % number for number in range(50)))

    async def act(screen: Screen) -> None:
        await screen.shows("running")
        await screen.press("l")
        await screen.shows("old 49.")
        await screen.press("g")
        await screen.shows("old 0.")
        _, feed = screen.log_view
        api.log(pod, b"".join(b"new %d.\n" % number for number in range(500)))
        await screen.until(lambda: feed._skipped == 450)
        await screen.pilot.pause(0.1)
        assert "old 0." in screen.text
        await screen.press("G")
        await screen.shows("new 499.", "450 lines skipped: they come faster")

    play(act)


def test_logs_without_right_show_error(api: FakeCluster, send: Submitter, play: Play) -> None:
    send(HELLO)
    api.log(api.start(JOB), b"first\n")
    for nth in range(1, 20):
        api.before("get pods/log", lambda: 403, nth)

    async def act(screen: Screen) -> None:
        await screen.shows("running")
        await screen.press("l")
        await screen.shows("error: ", "Forbidden")
        await screen.press("escape")
        await screen.shows("1 task")

    play(act)


def test_logs_wrap_again_when_screen_is_resized(
    api: FakeCluster, send: Submitter, play: Play
) -> None:
    send(HELLO)
    api.log(api.start(JOB), b"a" * 50 + b" " + b"z" * 50 + b"\n")

    async def act(screen: Screen) -> None:
        await screen.shows("running")
        await screen.press("l")
        await screen.shows("a" * 50 + " " + "z" * 50)
        await screen.pilot.resize_terminal(*NARROW)
        await screen.until(lambda: "z" * 50 in screen.lines)

    play(act)


def test_logs_of_pending_task_say_what_it_waits_for(
    api: FakeCluster, send: Submitter, play: Play
) -> None:
    send(HELLO)
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    condition["message"] = "0/2 nodes are available: 2 Insufficient cpu."
    pod = api.start(JOB)
    api.change(kinds.POD, pod, status={"phase": "Pending", "conditions": [condition]})

    async def act(screen: Screen) -> None:
        await screen.shows("pending")
        await screen.press("l")
        await screen.shows("insufficient cpu")

    play(act)


def test_logs_are_read_again_without_repeats_after_lost_connection(
    api: FakeCluster, send: Submitter, play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kubectl_sky.cluster.backoff.TIMEOUT_SECONDS", 0.0)
    send(HELLO)
    pod = api.start(JOB)
    api.log(pod, b"first\n")

    async def act(screen: Screen) -> None:
        await screen.shows("running")
        await screen.press("l")
        await screen.shows("first")
        down = True
        for nth in range(1, 500):
            for request in ("watch pods", "watch jobs", "get pods/log", "get pods"):
                api.before(request, lambda: 503 if down else None, nth)
        api.break_streams()
        await screen.shows("retrying")
        down = False
        api.log(pod, b"second\n")
        await screen.shows("second")
        assert screen.text.count("first") == 1

    play(act)


def test_logs_view_that_is_closed_stops_reading(
    api: FakeCluster, send: Submitter, play: Play
) -> None:
    send(HELLO)
    api.log(api.start(JOB), b"first\n")

    async def act(screen: Screen) -> None:
        await screen.shows("running")
        await screen.press("l")
        await screen.shows("first")
        _, feed = screen.log_view
        await screen.press("escape")
        await screen.until(feed.stop.is_set)

    play(act)
