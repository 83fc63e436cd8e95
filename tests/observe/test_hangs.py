"""Healthy programs hang at no moment; of those that hang, the node is named soon."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import accumulate, count, cycle, takewhile
from random import Random

import pytest
from msgspec import Struct
from msgspec.structs import replace

from kubectl_sky.observe.hangs import Hang, describe_look, find_hang
from kubectl_sky.observe.ranks import LINES, MIN_LINES, RankActivity, find_behind, read_rhythm
from kubectl_sky.words import age

START = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = 3600.0
WAIT = "all_reduce (train.py:88)"


class Where(Struct, frozen=True):
    """Where a program is, and what it does there."""

    position: str
    waits: bool = False
    moves: bool | None = False
    is_busy: bool | None = False


WAITS = Where(WAIT, waits=True)
UNKNOWN = Where("", moves=None, is_busy=None)
Place = Callable[[int, float], Where]  # of a rank at a time


def at(second: float) -> datetime:
    return START + timedelta(seconds=second)


def compute(rank: int, second: float) -> Where:
    return Where(f"step (train.py:{int(second) % 7})", moves=True, is_busy=True)


class Program(Struct):
    """When each rank prints, and what they do between."""

    prints: Sequence[Sequence[float]]
    place: Place = compute
    text: str = "loss 0.5"

    def look(self, second: float) -> Hang | None:
        seen = [self._read(rank, second) for rank in range(len(self.prints))]
        behind = find_behind({it.rank: it.last_line for it in seen})
        ranks = [replace(it, is_behind=it.rank in behind) for it in seen]
        return find_hang(ranks, at(second))

    def _read(self, rank: int, second: float) -> RankActivity:
        past = list(takewhile(lambda time: time <= second, self.prints[rank]))[-LINES:]
        lines = [f"{at(time).isoformat()} {self.text} {len(past)}" for time in past]
        where = self.place(rank, second)
        return replace(
            read_rhythm(rank, 0, lines),
            position=where.position,
            waits=where.waits,
            moves=where.moves,
            is_busy=where.is_busy,
        )


def times(*pauses: float, begin: float = 1.0) -> list[float]:
    """Return when a program prints that pauses so again and again, for an hour."""
    return list(takewhile(lambda time: time < HOUR, accumulate(cycle(pauses), initial=begin)))


def jitter(mean: float, seed: int) -> list[float]:
    random = Random(seed)
    pauses = (random.uniform(0.5, 1.5) * mean for _ in count())
    return list(takewhile(lambda time: time < HOUR, accumulate(pauses, initial=1.0)))


def same(*pauses: float, ranks: int = 4) -> list[list[float]]:
    return [times(*pauses)] * ranks


def alone(rank: int, position: str, *, moves: bool = False, is_busy: bool = False) -> Place:
    """Return where programs are of which one does something else while the others wait."""
    where = Where(position, moves=moves, is_busy=is_busy)
    return lambda it, _: where if it == rank else WAITS


def first_lines(printing: Sequence[float], *, ranks: int = 4) -> list[list[float]]:
    return [list(printing), *([1.0, 2.0, 3.0] for _ in range(ranks - 1))]


def stop(pause: float) -> list[list[float]]:
    """Return prints that end after five minutes."""
    return [list(takewhile(lambda time: time < 300, it)) for it in same(pause)]


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
        alone(0, "sleep (a.py:5)"),
    ),
    "only steps, at different speeds": Program([times(2), times(3), times(5), times(2.5)]),
    "never prints": Program([[], []]),
    "prints once": Program([[1.0]] * 3),
    "ranks at different lines": Program(
        same(1, 1, 1, 100), lambda rank, _: Where(f"f (a.py:{rank})", moves=True)
    ),
    "one of two prints warnings at its start": Program([times(1), [1.0, 1.2, 1.3]], compute),
    "two of four print": Program([times(1), times(1), [1.0, 1.2], [1.0]], compute),
    "one decomposes a matrix": Program(stop(5), alone(0, "svd (linalg.py:1)", is_busy=True)),
    "one saves while others print": Program(
        [list(range(200)), times(1), times(1), times(1)], alone(0, "save (a.py:3)", moves=True)
    ),
    "compiles in one place, workers idle": Program(
        stop(5), lambda *_: Where("backend_compile (compiler.py:3), poll (connection.py:2)")
    ),
    "thread pools compute": Program(
        stop(5), lambda *_: Where("wait (threading.py:355)", waits=True, is_busy=True)
    ),
    "files of logs differ, no programs seen": Program(stop(5), lambda *_: UNKNOWN),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_healthy_program_hangs_at_no_moment(name: str) -> None:
    program = HEALTHY[name]
    last = max((it[-1] for it in program.prints if it), default=HOUR)
    random = Random(name)
    until = min(last, HOUR) if last > 300 else last + 500  # before ten minutes of silence
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
    "sleeps in the loader": (Program(stopped(5), alone(1, "sleep (loader.py:3)")), 5),
    "never comes to the collective": (
        Program(stopped(8), alone(1, "forward (model.py:7)")), 8
    ),
    "lock": (Program(stopped(6), alone(1, "acquire (pool.py:2)")), 6),
    "network": (Program(stopped(6), alone(1, "connect (store.py:2)")), 6),
    "disk": (
        Program(stopped(20), alone(1, "cat: disk sleep in rpc_wait_bit_killable")), 20
    ),
    "in bursts": (
        Program(stopped(0, 30), alone(1, "__next__ (loader.py:31)")), 30
    ),
    "one of two": (
        Program(stopped(6, ranks=2), alone(1, "load (a.py:1)")), 6
    ),
    "one of sixteen": (
        Program(stopped(6, ranks=16), alone(1, "load (a.py:1)")), 6
    ),
    "a step behind, no frames": (
        Program(behind(10), lambda *_: Where(FUTEX, waits=True), text="step"), 10
    ),
    "a step behind, no shell": (Program(behind(10), lambda *_: UNKNOWN, text="step"), 10),
    "silent while others print": (
        Program(
            [it[:200] if rank == 1 else it for rank, it in enumerate(same(6))],
            alone(1, "sleep 600: sleeping in hrtimer_nanosleep"),
        ),
        6,
    ),
    "in setup": (
        Program(
            [it if rank != 1 else [] for rank, it in enumerate(stopped(7))],
            alone(1, "pip install x: sleeping in sk_wait_data"),
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


def test_what_computes_in_one_place_is_told_later_and_is_not_certain() -> None:
    program = Program(stopped(5), alone(1, "spin (train.py:9)", is_busy=True))
    assert program.look(STOP + 500) is None
    hang = program.look(STOP + 700)
    assert hang
    assert (hang.ranks, hang.is_certain) == ((1,), False)


def test_only_those_that_stand_are_named() -> None:
    saves = Where("save (a.py:3)", moves=True)
    stands = Where("load (a.py:9)")
    program = Program(stopped(5, ranks=8), lambda rank, _: {0: saves, 5: stands}.get(rank, WAITS))
    hang = program.look(STOP + 60)
    assert hang
    assert (hang.ranks, hang.is_certain) == ((5,), True)


def test_node_that_is_only_a_step_behind_is_not_certain() -> None:
    hang = Program(behind(10), lambda *_: UNKNOWN, text="step").look(STOP + 60)
    assert hang
    assert (hang.ranks, hang.is_certain) == ((1,), False)


def test_all_that_wait_for_each_other_are_told_after_ten_minutes() -> None:
    program = Program(stopped(5), lambda *_: WAITS)
    assert program.look(STOP + 500) is None
    hang = program.look(STOP + 700)
    assert hang
    assert hang.text == "no rank has printed anything for 11m"
    assert (hang.more, hang.is_certain) == (f"; all are in {WAIT}", False)


def test_silence_of_all_is_told_after_ten_minutes() -> None:
    program = Program(stopped(5), compute)
    assert program.look(STOP + 500) is None
    hang = program.look(STOP + 700)
    assert hang
    assert hang.text == "no rank has printed anything for 11m"


def test_words_name_the_place_and_what_the_others_do() -> None:
    program = Program(stopped(5, ranks=64), alone(7, "__next__ (loader.py:31)"))
    hang = program.look(STOP + 720)
    assert hang
    assert hang.text == "rank 7 has been in __next__ (loader.py:31) for 12m"
    assert hang.more == "; the other 63 wait in all_reduce (train.py:88)"


def test_what_the_flight_recorder_tells_is_added() -> None:
    ranks = [make_rank(0, 70), make_rank(1, 1)]
    hang = find_hang(ranks, at(HOUR))
    ranks[0] = replace(ranks[0], flight_recorder="flight recorder, 1s ago: rank 0")
    assert hang
    expected = replace(hang, more=f"{hang.more}; flight recorder, 1s ago: rank 0")
    assert find_hang(ranks, at(HOUR)) == expected


def make_rank(rank: int, silence: float, cpus: float | None = None) -> RankActivity:
    last = age.timestamp(at(HOUR - silence))
    return RankActivity(rank, 0, last, "step", 1.0, 10.0, cpus)


def test_look_counts_what_was_seen() -> None:
    ranks = [make_rank(0, 1), make_rank(1, 1)]
    assert describe_look(ranks, at(HOUR)) == "its 2 ranks print as usual"
    alone_ranks = [make_rank(0, 1), RankActivity(1), RankActivity(2)]
    assert describe_look(alone_ranks, at(HOUR)) == "1 of its 3 ranks print as usual"
    began = RankActivity(1, 0, make_rank(1, 75).last_output, "begin")
    text = "rank 1 has printed fewer than 5 lines, too few to be compared"
    assert describe_look([make_rank(0, 1), began], at(HOUR)) == text
    waits = f"{text}; on_hang waits for more"
    assert describe_look([make_rank(0, 1), began], at(HOUR), "fail 20s") == waits
    silent = [replace(make_rank(0, 60), moves=True), make_rank(1, 60)]
    text = "2 of its 2 ranks are silent; 1 of them go on"
    assert describe_look(silent, at(HOUR)) == text
    assert describe_look(silent[1:], at(HOUR)).endswith("what they do is not known")
    spins = Program(stopped(5), alone(1, "spin (train.py:9)", is_busy=True))
    seen = [spins._read(rank, STOP + 60) for rank in range(4)]
    text = "rank 1 goes on in spin (train.py:9); the other 3 wait in all_reduce (train.py:88)"
    assert describe_look(seen, at(STOP + 60)) == text
    assert describe_look([RankActivity(0)], at(HOUR)) == "its 1 ranks print nothing"


def test_words_of_a_minority_name_its_use() -> None:
    ranks = [make_rank(0, 1, 3.9), make_rank(1, 60, 0.0)]
    hang = find_hang(ranks, at(HOUR))
    assert hang
    assert hang.text == "rank 1 has printed nothing for 60s"
    assert hang.more == "; the other prints every second; it uses 0 CPUs"
    three = find_hang([*ranks, make_rank(2, 1), make_rank(3, 70)], at(HOUR))
    assert three
    assert three.text == "ranks 1, 3 have printed nothing for 60s"


def test_node_has_a_rhythm_after_five_lines() -> None:
    lines = [f"2026-01-01T00:00:0{second}Z step" for second in range(MIN_LINES)]
    assert (len(lines), read_rhythm(0, 0, lines[1:]).limit) == (5, None)
    assert read_rhythm(0, 0, lines).limit
