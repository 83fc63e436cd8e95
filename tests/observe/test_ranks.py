"""The rhythm of a node, from the last lines of its log."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import pytest

from kubectl_sky.observe.ranks import find_behind, read_rhythm

START = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)


def lines_at(seconds: Iterable[float], text: str = "step") -> list[str]:
    times = (START + timedelta(seconds=second) for second in seconds)
    return [f"{time.isoformat()} {text}" for time in times]


def limit(*seconds: float) -> float | None:
    return read_rhythm(0, 0, lines_at(seconds)).limit


def test_rhythm_is_that_of_many_lines() -> None:
    assert limit() is None
    assert limit(5) is None
    assert limit(0, 1, 2, 3) is None, "warnings at its start are no rhythm"
    assert limit(*range(50)) == 10, "at least"
    bursts = [at for epoch in range(0, 600, 30) for at in (epoch, epoch + 0.1)]
    assert limit(*bursts) == pytest.approx(59.8)
    assert limit(*range(0, 800, 40)) == 80


def test_rhythm_does_not_know_the_start_but_every_later_pause() -> None:
    started = [0, 300, *range(301, 330)]
    assert limit(*started) == 10
    evaluated = [*range(60), *range(120, 180)]
    assert limit(*evaluated) == 61 * 1.5


def test_lines_of_the_entry_script_and_of_dumps_do_not_count() -> None:
    own = lines_at([0, 2, 4, 6, 8])
    others = ("kubectl-sky: run begins", "Current thread 0x1 (most recent call first):")
    frame = '  File "/app/train.py", line 3 in wait'
    texts = (*others, frame, "", "  ...", "  <no Python frame>")
    rest = [line for text in texts for line in lines_at([60], text)]
    activity = read_rhythm(3, 1, [*own, *rest, "no time"])
    assert (activity.last_output, activity.last_line) == ("2026-01-01T12:00:08Z", "step")
    assert (activity.rank, activity.restarts, activity.interval) == (3, 1, 2.0)


def test_last_line_is_bounded_and_clean() -> None:
    activity = read_rhythm(0, 0, lines_at([0], "\x1b[2J" + "x" * 9999))
    assert activity.last_line == "x" * 200


@pytest.mark.parametrize(
    ("lines", "behind"),
    [
        (["step 8", "step 7", "step 8"], {1}),
        (["rank 0 step 8 loss 0.5", "rank 1 step 7 loss 0.4", "rank 2 step 8 loss 0.3"], {1}),
        (["epoch 2 iter: 8", "epoch 2 iter: 7", "epoch 2 iter: 8"], {1}),
        ([" 8/100 [00:08", " 7/100 [00:07", " 8/100 [00:08"], {1}),
        (["12:00:07,1 step 8", "12:00:08,2 step 8", "12:00:08,3 step 8"], set()),
        (["loss 0.98", "loss 1.02", "loss 1.02"], set()),
        (["step 8", "step 5", "step 8"], set()),
        (["step 8", "step 8", "step 8"], set()),
        (["step 8", "step 7"], set()),
        (["rank 0", "rank 1", "rank 2"], set()),
        (["step 8", "", "step 7", "step 8"], {2}),
        (["step 8", "saved", "step 8"], set()),
        ([], set()),
    ],
)
def test_rank_of_an_earlier_step_is_behind(lines: list[str], behind: set[int]) -> None:
    assert find_behind(dict(enumerate(lines))) == behind
