"""Follow several logs of real pods: in order, complete, and in bounded memory."""

import threading
import time
import tracemalloc
from collections.abc import Iterator

import pytest

from kubectl_sky.cluster import streams
from kubectl_sky.cluster.session import Session
from kubectl_sky.cluster.streams import Following, LogOptions, LogSource
from kubectl_sky.errors import ClusterError
from tests.contract.lines import FOLLOW, lines, merged, run_pod, until_finished
from tests.contract.proxies import CuttingProxy
from tests.polling import eventually


def test_merged_logs_preserve_order_per_log(
    session: Session, cut_session: Session, proxy: CuttingProxy, namespace: str
) -> None:
    for rank in range(3):
        run_pod(session, namespace, f"for i in $(seq 1 300); do echo {rank} $i; done", f"p{rank}")
    proxy.budget = 8_000
    proxy.cuts = 3

    def appearing() -> Iterator[LogSource]:
        for rank in range(3):
            yield LogSource(namespace, f"p{rank}", "main", rank)
            time.sleep(0.3)

    printed = list(merged(cut_session, appearing(), FOLLOW))
    for rank in range(3):
        texts = [line.text for line in printed if line.source.rank == rank]
        assert texts == [b"%d %d" % (rank, number) for number in range(1, 301)]


@pytest.mark.practice_only
def test_merged_logs_error_in_log_is_raised(session: Session, namespace: str) -> None:
    source = run_pod(session, namespace, "echo one; sleep 600")
    next(lines(session, source, FOLLOW))
    wrong = LogSource(namespace, "a", "wrong")
    with pytest.raises(ClusterError, match="logs of pod a: "):
        list(merged(session, [source, wrong], FOLLOW))
    assert_no_threads()


def test_existing_logs_of_two_pods_come_in_order_of_time(
    session: Session, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "_HOLD_SECONDS", 60.0)
    script = "for i in 1 2 3 4 5 6; do echo $i; sleep 0.5; done"
    for name in "ba":  # even if they do not overlap, the order of time is not that of the ranks
        run_pod(session, namespace, script, name)
    sources = [LogSource(namespace, name, "main", rank) for rank, name in enumerate("ab")]
    for source in sources:
        until_finished(session, source)
    for follow in (False, True):
        with Following(session, LogOptions(follow=follow, timestamps=True)) as following:
            following.add_all([sources])
            lines = [line for block in following.blocks() if block for line in block.lines]
        times = [text for _, text in lines]
        assert len(times) == 12
        assert times == sorted(times)

        ranks = [source.rank for source, _ in lines]
        assert ranks != sorted(ranks)


def assert_no_threads() -> None:
    eventually(lambda: not any(thread.name.startswith("log ") for thread in threading.enumerate()))


@pytest.mark.practice_only
def test_merged_logs_close_stops_threads(session: Session, namespace: str) -> None:
    source = run_pod(session, namespace, "echo one; sleep 600")
    reading = merged(session, [source], FOLLOW)
    assert next(reading).text == b"one"
    reading.close()  # type: ignore[attr-defined]
    assert_no_threads()


@pytest.mark.practice_only
def test_following_added_source_is_read_once(session: Session, namespace: str) -> None:
    source = run_pod(session, namespace, "echo one")
    with Following(session, FOLLOW) as following:
        following.add_all([[source, source], [source]])
        lines = [line for block in following.blocks() if block for line in block.lines]
    assert lines == [(source, b"one")]


@pytest.mark.practice_only
def test_following_large_logs_use_bounded_memory(session: Session, namespace: str) -> None:
    """The reader sleeps while 18 MB wait: memory must not exceed the queue.

    Three logs, because a kubelet rotates a log at 10 MiB.
    """
    script = "head -c 6000000 /dev/zero | tr '\\0' x | fold -w 100; echo; echo end; sleep 2"
    sources = [run_pod(session, namespace, script, name=f"log-{number}") for number in range(3)]
    for source in sources:
        until_finished(session, source)
    tracemalloc.start()
    with Following(session, LogOptions()) as following:
        following.add_all([sources])
        time.sleep(2)
        total = sum(len(block.lines) for block in following.blocks() if block)
        _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert total == 3 * 60_001
    assert peak < 12_000_000


@pytest.mark.practice_only
def test_following_max_streams_limits_open_logs(session: Session, namespace: str) -> None:
    sources = [run_pod(session, namespace, f"echo {name}; sleep 1", name) for name in "abcd"]
    with Following(session, FOLLOW, max_streams=2) as following:
        following.add_all([[source] for source in sources])
        blocks = [block for block in following.blocks() if block]
    texts = [text for block in blocks for _, text in block.lines]
    assert sorted(texts) == [b"a", b"b", b"c", b"d"]
    assert [block.note for block in blocks if block.note] == [
        "reading 2 logs at a time; the remaining logs follow as these end"
    ]
