"""Nodes of a running task, compared."""

from datetime import UTC, datetime, timedelta

import pytest

from kubectl_sky.observe.ranks import RankActivity, describe_silence, last_output
from kubectl_sky.words import age

NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)


def rank(
    index: int, seconds: float | None, interval: float = 1.0, cpus: float | None = None
) -> RankActivity:
    if seconds is None:
        return RankActivity(index, 0, "", None, cpus)
    at = age.timestamp(NOW - timedelta(seconds=seconds))
    return RankActivity(index, 0, at, interval, cpus)


@pytest.mark.parametrize(
    ("ranks", "expected"),
    [
        ([rank(0, 1), rank(1, 720), *(rank(n, 1) for n in range(2, 64))],
         "rank 1 has printed nothing for 12m; the other 63 print every second"),
        ([rank(0, 20, 30), rank(1, 20, 30), rank(2, 400, 30), rank(3, 900, 30)],
         "ranks 2, 3 have printed nothing for 6m40s; the other 2 print every 30s"),
        ([rank(0, 1, 1, 3.9), rank(1, 60, 1, 0.0)],
         "rank 1 has printed nothing for 60s; the other prints every second"
         "; it uses 0 CPUs"),
        ([rank(0, 900), rank(1, 700)], "no rank has printed anything for 11m"),
        ([rank(0, 100), rank(1, 100)], ""),  # a checkpoint may take as long
        ([rank(0, 1), rank(1, 5)], ""),
        ([rank(0, 1), rank(1, None), rank(2, None)], ""),  # only rank 0 ever prints
        ([rank(0, 1), rank(1, 300), rank(2, 300)], ""),  # the others printed at the start only
        ([], ""),
    ],
)  # fmt: skip
def test_silence_of_ranks_is_compared(ranks: list[RankActivity], expected: str) -> None:
    assert describe_silence(ranks, NOW) == expected


def test_last_output_ignores_lines_of_the_entry_script() -> None:
    lines = ["2026-01-01T11:00:00.5Z step", "2026-01-01T11:00:02.25Z step"]
    assert last_output(lines) == ("2026-01-01T11:00:02Z", 1.75)
    assert last_output([lines[0], "2026-01-01T11:00:03Z kubectl-sky: run begins"]) == (
        "2026-01-01T11:00:00Z",
        None,
    )
    assert last_output(["no time"]) == ("", None)
    assert last_output([]) == ("", None)
