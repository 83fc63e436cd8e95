"""The loop of controllers: what is processed when, and what goes on after errors and outages."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from kubectl_sky.cluster.watch import WatchEvent
from kubectl_sky.errors import ClusterError
from kubectl_sky.words import kinds
from kubectl_sky_server.controllers import loop as loops
from kubectl_sky_server.controllers.loop import Controller, Loop, Numbers, Schedule, Watch
from tests.actions.conftest import shorten_waits
from tests.fake_cluster import FakeCluster
from tests.polling import eventually


class Letters(Controller[str]):
    """Keys are letters; the group of a key is its first one."""

    watches = (Watch(kinds.CONFIG_MAP, "of=test"),)

    def __init__(self, process: Callable[[str], float | None] = lambda key: None) -> None:
        self.work = process
        self.log: list[str] = []
        self.events: list[str] = []
        self.is_stopped = False

    def stop(self) -> None:
        self.is_stopped = True

    def group(self, key: str) -> str:
        return key[0]

    def changed(self, event: WatchEvent) -> tuple[str, float] | None:
        name = event.object.metadata.name
        self.events.append(f"{event.type} {name}")
        return (name, 0.0) if name != "ignored" else None

    def process(self, key: str) -> float | None:
        self.log.append(f"+{key}")
        try:
            return self.work(key)
        finally:
            self.log.append(f"-{key}")


@contextmanager
def running(controller: Letters, api: FakeCluster | None = None) -> Iterator[Loop[str]]:
    api = api or FakeCluster()
    loop = Loop(controller, api.session(), api.namespace)
    loop.start()
    try:
        yield loop
    finally:
        loop.stop()
        loop.join(60)
        assert controller.is_stopped


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    shorten_waits(monkeypatch)
    monkeypatch.setattr(loops, "_FIRST_RETRY_SECONDS", 0.02)
    monkeypatch.setattr(loops, "_MAX_RETRY_SECONDS", 0.1)
    return FakeCluster()


def put(api: FakeCluster, name: str, of: str = "test") -> None:
    manifest = {"apiVersion": "v1", "kind": "ConfigMap"}
    api.put(manifest | {"metadata": {"name": name, "labels": {"of": of}}, "data": {}})


def test_schedule_key_is_taken_once_at_its_earliest_time() -> None:
    schedule = Schedule(Letters())
    schedule.add("a", 9)
    schedule.add("a", 5)
    schedule.add("a", 7)
    assert schedule.next_time == 5
    assert [schedule.take(now) for now in (4, 5, 9)] == [None, "a", None]


def test_schedule_key_added_while_it_is_processed_is_taken_once_more() -> None:
    schedule = Schedule(Letters())
    schedule.add("a", 0)
    assert schedule.take(0) == "a"
    for _ in range(5):
        schedule.add("a", 1)
    assert schedule.take(1) is None, "it is being processed"
    schedule.done("a", 2, 1, None)
    assert (schedule.take(2), schedule.take(2)) == ("a", None)
    schedule.done("a", 3, 1, None)
    assert schedule.take(99) is None
    assert not schedule._entries and not schedule._running and not schedule._waiting


def test_schedule_key_is_taken_again_after_the_seconds_that_it_returned() -> None:
    schedule = Schedule(Letters())
    schedule.add("a", 0)
    schedule.take(0)
    schedule.done("a", 1, 1, 30.0)
    assert (schedule.take(30), schedule.take(31)) == (None, "a")


def test_schedule_key_rests_in_proportion_to_its_duration() -> None:
    controller = Letters()
    controller.rest = 0.5
    controller.rest_factor = 10
    schedule = Schedule(controller)
    schedule.add("a", 0)
    schedule.take(0)
    schedule.done("a", 3, 3, 60.0)
    schedule.add("a", 3)
    assert (schedule.take(33), schedule.take(33.5)) == (None, "a")


def test_schedule_failed_key_backs_off_up_to_limit_and_changes_do_not_shorten_it() -> None:
    schedule = Schedule(Letters())
    now = 0.0
    pauses = []
    schedule.add("a", 0)
    for _ in range(10):
        assert schedule.take(now) == "a"
        schedule.failed("a", now)
        schedule.add("a", now)
        pauses.append(schedule.next_time - now)
        now = schedule.next_time
    assert pauses == [2, 4, 8, 16, 32, 64, 128, 256, 300, 300]

    schedule.take(now)
    schedule.done("a", now, 0, 1.0)
    schedule.take(now + 1)
    schedule.failed("a", now + 1)
    assert schedule.next_time == now + 3, "the first failure after a success"


def test_schedule_keys_of_a_group_wait_for_each_other_not_those_of_another() -> None:
    schedule = Schedule(Letters())
    slow = [f"s{number}" for number in range(16)]
    for key in (*slow, "team"):
        schedule.add(key, 0)
    taken = [schedule.take(0) for _ in range(6)]
    assert taken == ["s0", "s1", "s2", "s3", "team", None]
    schedule.done("s2", 1, 1, 60.0)
    assert (schedule.take(1), schedule.take(1)) == ("s4", None)


def test_loop_processes_different_keys_in_parallel() -> None:
    both = threading.Barrier(2, timeout=60)

    def process(key: str) -> None:
        both.wait()

    controller = Letters(process)
    with running(controller) as loop:
        loop.add("a")
        loop.add("b")
        eventually(lambda: len(controller.log) == 4)
    assert not both.broken


def test_loop_processes_first_keys_and_changes_of_selected_objects(api: FakeCluster) -> None:
    put(api, "old")
    put(api, "foreign", of="other")
    controller = Letters()
    controller.first = ("first",)
    with running(controller, api):
        eventually(lambda: {"+first", "+old"} <= set(controller.log))
        put(api, "new")
        put(api, "ignored")
        eventually(lambda: {"+new"} <= set(controller.log))
        api.remove(kinds.CONFIG_MAP, "old")
        eventually(lambda: "DELETED old" in controller.events)
    assert "+ignored" not in controller.log
    assert "foreign" not in str(controller.events)


def test_loop_logs_problem_of_a_key_once_and_its_end(
    api: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    results: list[Exception | None] = [ClusterError("no"), ClusterError("no"), KeyError("s3cret")]

    def process(key: str) -> None:
        error = results.pop(0) if results else None
        if error:
            raise error

    caplog.set_level("INFO")
    controller = Letters(process)
    with running(controller, api) as loop:
        loop.add("a")
        eventually(lambda: "works again" in caplog.text)
        loop.add("b")
        eventually(lambda: "-b" in controller.log)
    logged = [record for record in caplog.records if record.name == loops.__name__]
    lines = [record.getMessage() for record in logged]
    assert [line.partition(", line")[0] for line in lines] == [
        "a: no; retrying",
        "a: internal error: KeyError in process",
        "a: works again",
    ]


def test_loop_watch_that_is_refused_is_opened_again(
    api: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    api.forbidden.add("watch configmaps")
    put(api, "a")
    controller = Letters()
    with running(controller, api):
        eventually(lambda: "cannot watch configmaps" in caplog.text)
        time.sleep(0.1)
        api.forbidden.clear()
        eventually(lambda: "+a" in controller.log)
    assert caplog.text.count("cannot watch") == 1


def test_loop_bug_in_changed_does_not_end_watch(api: FakeCluster) -> None:
    controller = Letters()
    changed = controller.changed
    calls = []

    def fail_first(event: WatchEvent) -> tuple[str, float] | None:
        calls.append(event)
        if len(calls) == 1:
            raise KeyError("a bug")
        return changed(event)

    controller.changed = fail_first  # type: ignore[method-assign]
    put(api, "a")
    with running(controller, api):
        eventually(lambda: "+a" in controller.log)


def test_loop_without_memory_for_a_thread_tries_again(
    api: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    controller = Letters()
    with running(controller, api) as loop:
        start = loop._thread
        refused = list[object]()

        def refuse_first(work: Callable[[], None]) -> None:
            if not refused:
                refused.append(work)
                raise RuntimeError("can't start new thread")
            start(work)

        monkeypatch.setattr(loop, "_thread", refuse_first)
        loop.add("a")
        eventually(lambda: "-a" in controller.log)
    assert refused


def test_loop_stop_waits_for_running_key_and_starts_no_other(api: FakeCluster) -> None:
    entered = threading.Event()
    finish = threading.Event()

    def process(key: str) -> float:
        entered.set()
        finish.wait(60)
        return 0.0

    controller = Letters(process)
    with running(controller, api) as loop:
        loop.add("a")
        assert entered.wait(60)
        loop.stop()
        loop.join(0.05)
        assert controller.log == ["+a"]
        finish.set()
    assert controller.log == ["+a", "-a"]
    assert not [thread for thread in threading.enumerate() if thread.name == "Letters"]


def test_schedule_numbers_count_what_is_due_runs_and_is_late() -> None:
    schedule = Schedule(Letters())
    for number in range(16):
        schedule.add(f"s{number}", 5)
    schedule.add("later", 60)
    assert schedule.numbers(4) == Numbers()
    while schedule.take(5):
        pass
    assert schedule.numbers(8) == Numbers(queue=12, running=4, lag=3)


def test_loop_numbers_count_reconciles_errors_and_refused_watches(api: FakeCluster) -> None:
    def process(key: str) -> None:
        if key == "bad":
            raise ClusterError("full")

    api.forbidden.add("watch configmaps")
    with running(Letters(process), api) as loop:
        loop.add("good")
        loop.add("bad")
        eventually(lambda: loop.numbers.errors > 1 and loop.numbers.watch_errors > 1)
        assert loop.numbers.reconciles == loop.numbers.errors + 1
        assert loop.numbers.seconds > 0
