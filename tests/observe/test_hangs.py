"""Healthy programs hang at no moment; of those that hang, the node is named soon."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import accumulate, count, cycle, takewhile
from random import Random

import pytest
from msgspec import Struct

from kubectl_sky.observe.hangs import Hang, find_hang
from kubectl_sky.observe.ranks import LINES, RankActivity, find_behind, read_rhythm
from kubectl_sky.words import age

START = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = 3600.0
WAIT = "all_reduce (train.py:88)"
Place = Callable[[int, float], tuple[str, bool]]  # of a rank at a time: where it is; if it moves


def at(second: float) -> datetime:
    return START + timedelta(seconds=second)


def compute(rank: int, second: float) -> tuple[str, bool]:
    return f"step (train.py:{int(second) % 7})", True


class Program(Struct):
    """When each rank prints, and what they do between."""

    prints: Sequence[Sequence[float]]
    place: Place = compute
    text: str = "loss 0.5"

    def look(self, second: float) -> Hang | None:
        activities = []
        for rank, times in enumerate(self.prints):
            past = list(takewhile(lambda time: time <= second, times))[-LINES:]
            lines = [f"{at(time).isoformat()} {self.text} {len(past)}" for time in past]
            where, moves = self.place(rank, second)
            activity = read_rhythm(rank, 0, lines)
            activities.append((activity, where, moves))
        behind = find_behind({it.rank: it.last_line for it, _, _ in activities})
        ranks = [_at(it, where, moves, it.rank in behind) for it, where, moves in activities]
        return find_hang(ranks, at(second))


def _at(it: RankActivity, place: str, moves: bool, is_behind: bool) -> RankActivity:
    return RankActivity(
        it.rank, 0, it.last_output, it.last_line, it.interval, it.limit,
        place=place, moves=moves, is_behind=is_behind,
    )  # fmt: skip


def times(*pauses: float, begin: float = 1.0) -> list[float]:
    """Return when a program prints that pauses so again and again, for an hour."""
    return list(takewhile(lambda time: time < HOUR, accumulate(cycle(pauses), initial=begin)))


def jitter(mean: float, seed: int) -> list[float]:
    random = Random(seed)
    pauses = (random.uniform(0.5, 1.5) * mean for _ in count())
    return list(takewhile(lambda time: time < HOUR, accumulate(pauses, initial=1.0)))


def same(*pauses: float, ranks: int = 4) -> list[list[float]]:
    return [times(*pauses)] * ranks


def alone(rank: int, place: str, *, moves: bool) -> Place:
    """Return where programs are of which one does something else while the others wait."""
    return lambda it, _: (place, moves) if it == rank else (WAIT, False)


def first_lines(printing: Sequence[float], *, ranks: int = 4) -> list[list[float]]:
    return [list(printing), *([1.0, 2.0, 3.0] for _ in range(ranks - 1))]


HEALTHY: dict[str, Program] = {
    "every second": Program(same(1)),
    "every second, two nodes": Program(same(1, ranks=2)),
    "every minute": Program(same(60)),
    "irregular": Program([jitter(8, rank) for rank in range(4)]),
    "very irregular": Program([jitter(30, rank) for rank in range(8)]),
    "bursts of two": Program(same(0, 30)),
    "bursts of two, one rank later": Program([*same(0, 30, ranks=3), times(0, 30, begin=15)]),
    "bursts of ten": Program(same(*[0.1] * 9, 45)),
    "epochs with a pause": Program(same(*[1] * 19, 60)),
    "long epochs with a pause": Program(same(*[1] * 150, 90)),
    "one rank prints": Program([times(1), [], [], []], alone(0, "step (a.py:1)", moves=True)),
    "one rank prints on": Program(first_lines(times(1))),
    "one rank prints rarely": Program(first_lines(times(90))),
    "all compute in silence": Program(same(1, 1, 1, 300)),
    "all compile once": Program([[1.0, 2.0, 3.0, *range(400, 3600)]] * 4),
    "recompile in the middle": Program([[*range(1000), *range(1400, 3600)]] * 4),
    "evaluation by one rank": Program(
        same(*[1] * 150, 120), alone(0, "evaluate (a.py:5)", moves=True)
    ),
    "checkpoint by one rank": Program(
        [[*range(1000), *range(1200, 3600)]] * 4, alone(0, "save (a.py:9)", moves=True)
    ),
    "evaluation that sleeps, again": Program(
        [list(takewhile(lambda time: time < HOUR, it)) for it in same(*[1] * 30, 40)],
        alone(0, "sleep (a.py:5)", moves=False),
    ),
    "only steps, at different speeds": Program([times(2), times(3), times(5), times(2.5)]),
    "never prints": Program([[], []]),
    "prints once": Program([[1.0]] * 3),
    "ranks at different lines": Program(same(1, 1, 1, 100), lambda r, _: (f"f (a.py:{r})", True)),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_healthy_program_hangs_at_no_moment(name: str) -> None:
    program = HEALTHY[name]
    last = max((it[-1] for it in program.prints if it), default=HOUR)
    random = Random(name)
    until = min(last, HOUR) if last > 300 else 300.0
    first = 100.0 if "again" in name else 1.0
    for _ in range(150):
        second = random.uniform(first, until)
        hang = program.look(second)
        assert hang is None, (second, hang)


STOP = 1200.0


def stopped(*pauses: float, ranks: int = 4) -> list[list[float]]:
    return [list(takewhile(lambda time: time <= STOP, it)) for it in same(*pauses, ranks=ranks)]


def behind(*pauses: float, ranks: int = 4) -> list[list[float]]:
    """Return prints of which rank 1 lacks the last."""
    prints = stopped(*pauses, ranks=ranks)
    return [it[:-1] if rank == 1 else it for rank, it in enumerate(prints)]


FUTEX = "python train.py: sleeping in futex_wait_queue"
HANGS: dict[str, tuple[Program, float]] = {
    "sleeps in the loader": (Program(stopped(5), alone(1, "sleep (loader.py:3)", moves=False)), 5),
    "spins": (Program(stopped(5), alone(1, "spin (train.py:9)", moves=False)), 5),
    "never comes to the collective": (
        Program(stopped(8), alone(1, "forward (model.py:7)", moves=False)), 8
    ),
    "lock": (Program(stopped(6), alone(1, "acquire (pool.py:2)", moves=False)), 6),
    "network": (Program(stopped(6), alone(1, "connect (store.py:2)", moves=False)), 6),
    "disk": (
        Program(stopped(20), alone(1, "cat: disk sleep in rpc_wait_bit_killable", moves=False)), 20
    ),
    "in bursts": (
        Program(stopped(0, 30), alone(1, "__next__ (loader.py:31)", moves=False)), 30
    ),
    "one of two": (
        Program(stopped(6, ranks=2), alone(1, "load (a.py:1)", moves=False)), 6
    ),
    "one of sixteen": (
        Program(stopped(6, ranks=16), alone(1, "load (a.py:1)", moves=False)), 6
    ),
    "a step behind, no frames": (
        Program(behind(10), lambda *_: (FUTEX, False), text="step"), 10
    ),
    "a step behind, no shell": (Program(behind(10), lambda *_: ("", False), text="step"), 10),
    "silent while others print": (
        Program([it[:200] if rank == 1 else it for rank, it in enumerate(same(6))]), 6
    ),
    "in setup": (
        Program(
            [it if rank != 1 else [] for rank, it in enumerate(stopped(7))],
            alone(1, "pip install x: sleeping in sk_wait_data", moves=False),
        ),
        7,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HANGS)
def test_hanging_node_is_named_within_three_times_its_rhythm(name: str) -> None:
    program, rhythm = HANGS[name]
    hang = program.look(STOP + max(3 * rhythm, 15))
    assert hang is not None
    assert hang.ranks == (1,), hang
    assert hang.text.startswith("rank 1 "), hang


def test_all_that_wait_for_each_other_are_told() -> None:
    program = Program(stopped(5), lambda *_: (WAIT, False))
    hang = program.look(STOP + 20)
    assert hang
    assert hang.text == f"all 4 ranks have been in {WAIT} for 24s"


def test_silence_of_all_is_told_after_ten_minutes() -> None:
    program = Program(stopped(5), compute)
    assert program.look(STOP + 500) is None
    hang = program.look(STOP + 700)
    assert hang
    assert hang.text == "no rank has printed anything for 11m"


def test_words_name_the_place_and_what_the_others_do() -> None:
    program = Program(stopped(5, ranks=64), alone(7, "__next__ (loader.py:31)", moves=False))
    hang = program.look(STOP + 720)
    assert hang
    assert hang.text == "rank 7 has been in __next__ (loader.py:31) for 12m"
    assert hang.more == "; the other 63 wait in all_reduce (train.py:88)"


def make_rank(rank: int, silence: float, cpus: float | None = None) -> RankActivity:
    last = age.timestamp(at(HOUR - silence))
    return RankActivity(rank, 0, last, "step", 1.0, 10.0, cpus)


def test_words_of_a_minority_name_its_use() -> None:
    ranks = [make_rank(0, 1, 3.9), make_rank(1, 60, 0.0)]
    hang = find_hang(ranks, at(HOUR))
    assert hang
    assert hang.text == "rank 1 has printed nothing for 60s"
    assert hang.more == "; the other prints every second; it uses 0 CPUs"
    three = find_hang([*ranks, make_rank(2, 1), make_rank(3, 70)], at(HOUR))
    assert three
    assert three.text == "ranks 1, 3 have printed nothing for 60s"
