"""Merge logs in order of time: which lines come next, which wait, and that none is lost."""

from collections.abc import Iterator, Sequence
from heapq import merge as heap_merge

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubectl_sky.cluster.loglines import sort_keys
from kubectl_sky.cluster.merge import Block, Log, take
from kubectl_sky.cluster.tail import Batch, LogSource
from kubectl_sky.errors import ClusterError


def stamped(second: int, text: str = "") -> bytes:
    return b"2026-01-01T00:%02d:%02d.000000000Z " % divmod(second, 60) + text.encode()


def make_batch(rank: int, lines: Sequence[bytes], note: str = "", newline: bool = True) -> Batch:
    source = LogSource("default", f"pod-{rank}", "", rank)
    keys = sort_keys(lines) if lines else []
    return Batch(source, list(lines), keys, newline, note)


def make_log(rank: int, *items: Sequence[bytes] | str | ClusterError, live: bool = True) -> Log:
    """Return a log with batches of lines, notes and errors; by default nothing more is awaited."""
    log = Log((rank, rank))
    for item in items:
        if isinstance(item, ClusterError):
            log.items.append(item)
        elif isinstance(item, str):
            log.items.append(make_batch(rank, [], item))
        else:
            log.items.append(make_batch(rank, item))
    log.is_live = live
    return log


def blocks(logs: Sequence[Log], *, by_node: bool = False) -> Iterator[Block]:
    while block := take([log for log in logs if log.items or not log.is_live], by_node=by_node):
        yield block


def merged(*logs: Log, by_node: bool = False) -> list[tuple[int, bytes]]:
    lines = [line for block in blocks(logs, by_node=by_node) for line in block.lines]
    return [(source.rank, text) for source, text in lines]


def test_merge_alternating_lines_come_in_order_of_time() -> None:
    first = [stamped(0), stamped(2)]
    second = [stamped(1), stamped(3)]
    expected = [(second % 2, stamped(second)) for second in range(4)]
    assert merged(make_log(1, second), make_log(0, first)) == expected


def test_merge_equal_times_come_by_rank() -> None:
    lines = [stamped(5, "a"), stamped(5, "b")]
    assert [rank for rank, _ in merged(make_log(1, lines), make_log(0, lines))] == [0, 0, 1, 1]


def test_merge_by_node_ignores_times() -> None:
    late = make_log(0, [stamped(9)])
    early = make_log(1, [stamped(1)])
    assert [rank for rank, _ in merged(early, late, by_node=True)] == [0, 1]


def test_merge_by_node_waits_for_first_log_only() -> None:
    silent = make_log(1, live=False)
    assert merged(make_log(0, [stamped(9)]), silent, by_node=True) == [(0, stamped(9))]
    assert merged(silent, make_log(2, [stamped(9)]), by_node=True) == []


def test_merge_waits_for_next_existing_line_of_each_log() -> None:
    slow = make_log(0, [stamped(1)], live=False)
    other = make_log(1, [stamped(0), stamped(2)])
    assert merged(slow, other) == [(1, stamped(0)), (0, stamped(1))]
    assert merged(slow, other) == []
    slow.items.append(make_batch(0, [stamped(3)]))
    assert merged(slow, other) == [(1, stamped(2)), (0, stamped(3))]
    other.items.append(make_batch(1, [stamped(4)]))
    assert merged(slow, other) == []
    slow.is_live = True
    assert merged(slow, other) == [(1, stamped(4))]


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        (b"2026-01-01T01:00:00.5+02:00 a", b"2025-12-31T23:00:00.500000001Z b"),
        (b"2026-01-01T00:00:00Z a", b"2026-01-01T00:00:00.1Z b"),
        (b"2026-01-01T00:00:00.12Z a", b"2026-01-01T00:00:00.123Z b"),
        (b"2025-12-31T19:00:00.000000000-05:00 a", b"2026-01-01T00:00:00.000000001Z b"),
        (b"2026-01-99T00:00:00Z a", b"2026-02-01T00:00:00Z b"),  # of a broken kubelet
    ],
)
def test_merge_times_of_other_zones_and_digits_are_compared(earlier: bytes, later: bytes) -> None:
    assert merged(make_log(0, [later]), make_log(1, [earlier])) == [(1, earlier), (0, later)]


def test_merge_note_comes_between_lines_of_its_log() -> None:
    logs = [make_log(0, [stamped(0)], "rotated", [stamped(2)]), make_log(1, [stamped(1)])]
    first, note, *rest = blocks(logs)
    assert [source.rank for source, _ in first.lines] == [0]
    assert (note.note, note.lines) == ("rotated", [])
    assert [source.rank for block in rest for source, _ in block.lines] == [1, 0]


def test_merge_error_is_raised_after_lines_before_it() -> None:
    reading = blocks([make_log(0, [stamped(0)], ClusterError("forbidden"))])
    assert len(next(reading).lines) == 1
    with pytest.raises(ClusterError, match="forbidden"):
        next(reading)


@pytest.mark.parametrize(("second", "final_newline"), [(0, True), (2, False)])
def test_merge_line_without_newline_counts_at_end(second: int, final_newline: bool) -> None:
    log = make_log(0)
    log.items.append(make_batch(0, [stamped(second)], newline=False))
    blocks_ = list(blocks([log, make_log(1, [stamped(1)])]))
    assert blocks_[-1].final_newline is final_newline


def test_merge_block_is_bounded() -> None:
    lines = [b"2026-01-01T00:00:00.%09dZ" % number for number in range(30_000)]
    sizes = [len(block.lines) for block in blocks([make_log(0, lines), make_log(1, lines)])]
    assert sum(sizes) == 60_000
    assert max(sizes) < 12_000


LOGS = st.lists(st.lists(st.lists(st.integers(0, 99), min_size=1)), max_size=5)


@given(LOGS)
def test_merge_of_sorted_logs_is_stable_and_complete(times: list[list[list[int]]]) -> None:
    """The batches of a log are cut anywhere; `heapq.merge` says what is right."""
    logs = []
    expected = []
    for rank, batches in enumerate(times):
        ordered = iter(sorted(time for batch in batches for time in batch))
        lines = [
            [stamped(next(ordered), f"{number} {index}") for index in range(len(batch))]
            for number, batch in enumerate(batches)
        ]
        logs.append(make_log(rank, *lines))
        expected.append([(line[:29], rank, line) for batch in lines for line in batch])
    in_order = heap_merge(*expected, key=lambda entry: entry[:2])
    assert merged(*logs) == [(rank, line) for _, rank, line in in_order]


@given(LOGS)
def test_merge_of_logs_with_changed_clocks_keeps_each_in_order(
    times: list[list[list[int]]],
) -> None:
    logs = []
    expected = []
    for rank, batches in enumerate(times):
        lines = [[stamped(time, str(rank)) for time in batch] for batch in batches]
        logs.append(make_log(rank, *lines))
        expected.append([(rank, line) for batch in lines for line in batch])
    result = merged(*logs)
    assert [[line for line in result if line[0] == rank] for rank in range(len(times))] == expected
