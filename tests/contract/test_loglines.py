"""Split a log into lines and resume after a lost connection: no line is lost or repeated."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubectl_sky.cluster.loglines import (
    LineSplitter,
    ResumePosition,
    split_messages,
    timestamp_of,
    without_timestamps,
)

CHUNKS = st.lists(st.binary(max_size=20).map(lambda data: data.replace(b"x", b"\n")))


@given(CHUNKS)
def test_line_splitter_keeps_every_byte(chunks: list[bytes]) -> None:
    cutter = LineSplitter()
    lines = [line for chunk in chunks for line in cutter.feed(chunk)]
    assert b"".join(line + b"\n" for line in lines) + cutter.remainder() == b"".join(chunks)
    assert all(b"\n" not in line for line in lines)


def make_log(ticks: Sequence[int], zone: bytes = b"Z") -> list[bytes]:
    """Return log lines with timestamps in tenths of a second after midnight."""
    return [
        b"2026-01-01T00:%02d:%02d.%d00000000%s line %d"
        % (tick // 600, tick // 10 % 60, tick % 10, zone, number)
        for number, tick in enumerate(ticks)
    ]


def since(log: list[bytes], time: str) -> list[bytes]:
    """Filter lines as the server does for `sinceTime`: by timestamp, in file order."""
    return [line for line in log if line[:19] >= time.encode()[:19]]


@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=60),
    st.lists(st.integers(0, 60), max_size=6),
    st.integers(1, 9),
    st.sampled_from([b"Z", b"+05:30"]),
)
def test_resume_position_after_cuts_returns_every_line_once(
    steps: list[int], cuts: list[int], size: int, zone: bytes
) -> None:
    """For any cuts of the connection, and with timestamps slightly out of order."""
    now = 0
    ticks = []
    for step in steps:
        now += step
        ticks.append(max(0, now - (step == 2) * 3))  # some timestamps are slightly late
    log = make_log(ticks, zone)
    place = ResumePosition()
    returned = []

    for cut in [*cuts, None]:
        place.resume()
        answer = since(log, place.since) if place.since else log
        limited = answer if cut is None else answer[:cut]
        for start in range(0, len(limited), size):
            fresh = place.new_lines(limited[start : start + size])
            if fresh:
                place.advance(fresh)
                returned += fresh
    assert returned == log


def test_resume_position_rotated_log_continues_after_newest_line() -> None:
    log = make_log([1, 2, 3, 4, 5, 6, 7])
    place = ResumePosition()
    place.resume()
    place.advance(place.new_lines(log[:4]))
    place.resume()
    assert place.new_lines(log[2:]) == log[4:]
    assert place.rotated


def test_resume_position_compares_fractions_of_any_length() -> None:
    log = [
        b"2026-01-01T00:00:00.5Z a",
        b"2026-01-01T00:00:00.51Z b",
        b"2026-01-01T00:00:01Z c",
        b"2026-01-01T00:00:01.000000001Z d",
    ]
    for read in range(1, 4):
        place = ResumePosition()
        place.resume()
        place.advance(log[:read])
        assert place.last == timestamp_of(log[read - 1])
        place.resume()
        assert place.new_lines(log[read - 1 :]) == log[read:]  # as after a rotation


def test_split_messages_separates_kubelet_errors() -> None:
    good = make_log([1, 2])
    bad = b"unable to retrieve container logs for containerd://1"
    assert split_messages(good) == (good, [])
    assert split_messages([*good, bad]) == (good, [bad])
    assert split_messages([]) == ([], [])
    assert without_timestamps(good) == [b"line 0", b"line 1"]
    assert without_timestamps([b"2026-01-01T00:00:00Z "]) == [b""]
    assert timestamp_of(bad) == b""


@given(st.lists(st.integers(0, 60), max_size=40), st.sampled_from([b"Z", b"+05:30"]), st.data())
def test_encoded_position_resumes_without_loss(
    ticks: list[int], zone: bytes, data: st.DataObject
) -> None:
    log = make_log(sorted(ticks), zone)
    position = ResumePosition()
    received = 0
    while received < len(log):
        count = data.draw(st.integers(1, len(log) - received))
        answer = since(log, position.since) if position.since else log
        position.resume()
        new = position.new_lines(answer)
        assert new == log[received:]
        position.advance(new[:count])
        position = ResumePosition.decode(position.encode())
        received += count


@pytest.mark.parametrize("encoded", [False, True])
@pytest.mark.parametrize("fraction", [b"5", b"%d"])
def test_resume_position_of_tail_returns_later_lines_once(fraction: bytes, encoded: bool) -> None:
    """Lines of one second, with equal or rising timestamps: the tail has the third only."""
    second = b"2026-11-21T04:47:04."
    one, two, three = (
        second + (fraction.replace(b"%d", b"%d" % number)) + b"Z line %d" % number
        for number in (1, 2, 3)
    )
    later = b"2026-11-21T04:47:05.1Z line 4"
    position = ResumePosition(partial=True)
    position.advance(position.new_lines([three]))
    position = ResumePosition.decode(position.encode()) if encoded else position
    position.resume()

    received = [
        line for chunk in ([one], [two, three], [later]) for line in position.new_lines(chunk)
    ]
    assert received == [later]
    assert not position.rotated, "earlier lines of the second were not requested at first"


def test_resume_position_rotated_log_skips_old_lines_of_all_chunks() -> None:
    stamps = [b"2026-11-21T04:47:04.%dZ x" % number for number in range(6)]
    position = ResumePosition()
    position.advance(stamps[:4])
    position.resume()
    received = [line for line in stamps[1:] for line in position.new_lines([line])]
    assert received == stamps[4:]
    assert position.rotated
