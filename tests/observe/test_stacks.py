"""Dumps of nodes: what stacks.sh prints, folded."""

import pytest

from kubectl_sky.observe import stacks

PY_SPY = """@process /usr/bin/python3 -u train.py --rank 3
@source py-spy
{frame}
<module> (train.py:120)
"""
PROC = """@process sleep 600
@source proc
sleeping in hrtimer_nanosleep
@unread /proc/PID/stack: it needs root
"""
SIGNAL = "@process python3 train.py\n@unread py-spy: not found\n@source faulthandler\n"
FAULT = """Thread 0x00007f01 (most recent call first):
  File "/usr/lib/threading.py", line 320 in wait
Current thread 0x00007f02 (most recent call first):
  File "/app/loader.py", line 31 in __next__
  File "/app/train.py", line 11 in <module>
"""


GONE = stacks.Dump((), ("pod x is not running",))


def py_spy(frame: str) -> stacks.Dump:
    return stacks.read(PY_SPY.format(frame=frame))


def test_stacks_equal_ones_are_folded_with_their_ranks() -> None:
    dumps = {rank: py_spy("all_reduce (train.py:88)") for rank in range(64)}
    dumps[7] = py_spy("__next__ (loader.py:31)")
    result = stacks.fold("a1b2c3d4", dumps)
    assert result.summary == "63 ranks: all_reduce (train.py:88) · rank 7: __next__ (loader.py:31)"
    first, second = result.stacks
    assert first.frames == ("all_reduce (train.py:88)", "<module> (train.py:120)")
    assert (first.command, first.source, len(first.ranks)) == ("python3 train.py", "py-spy", 63)
    assert second.ranks == (7,)
    assert result.unread == {}


def test_stacks_of_faulthandler_come_from_the_log() -> None:
    dump = stacks.read(SIGNAL, f"step 1\n{FAULT}step 2\n")
    (stack,) = dump.stacks
    assert stack.frames == ("__next__ (loader.py:31)", "<module> (train.py:11)")
    assert dump.unread == ("py-spy: not found",)
    last, _ = stacks.read(SIGNAL * 2, FAULT.rstrip()).stacks
    assert last.frames[1:] == ("<module> (train.py:11)",)
    (missing,) = stacks.read(SIGNAL).stacks
    assert missing.frames == ()


def test_stacks_of_other_programs_are_what_the_kernel_says() -> None:
    result = stacks.fold("a1b2c3d4", {0: stacks.read(PROC), 1: GONE})
    assert result.summary == "rank 0: sleep 600: sleeping in hrtimer_nanosleep"
    assert result.unread == {
        "/proc/PID/stack: it needs root": [0],
        "pod x is not running": [1],
    }


def test_stacks_hostile_output_is_bounded_and_clean() -> None:
    frame = "\x1b]0;title\x07f\x1b[2J (" + "x" * 9999 + ".py:1)\n"
    (stack,) = py_spy(frame + "g (a.py:1)\n" * 500).stacks
    assert len(stack.frames) == 100
    assert all(len(frame) <= 200 and frame.isprintable() for frame in stack.frames)
    for text in ("", "\n", "@process \n@source", "garbage \xff" * 99, "@process x\n@source \n"):
        stacks.fold("a1b2c3d4", {0: stacks.read(text, text)})
    quotes = 'Current thread 0x1:\n  File "' + '/"' * 400_000 + '", line 1 in f\n'
    (stack,) = stacks.read(SIGNAL, quotes * 2).stacks  # quickly
    assert stack.frames == ()


def test_positions_are_the_frames_by_which_ranks_differ() -> None:
    launcher = PY_SPY.format(frame="poll (launch.py:7)")
    there = launcher + PY_SPY.format(frame="all_reduce (a.py:1)")
    dumps = {rank: stacks.read(there) for rank in range(3)}
    all_in_one = ("all_reduce (a.py:1), poll (launch.py:7)", False)
    assert set(stacks.find_positions(dumps).values()) == {all_in_one}
    dumps[1] = stacks.read(launcher + PY_SPY.format(frame="load (a.py:9)"))
    assert stacks.find_positions(dumps) == {
        0: ("all_reduce (a.py:1)", True),
        1: ("load (a.py:9)", False),
        2: ("all_reduce (a.py:1)", True),
    }
    assert stacks.find_positions({}) == {}


@pytest.mark.parametrize(
    ("frame", "waits"),
    [
        ("all_reduce (train.py:88)", True),
        ("backend_compile (compiler.py:300)", False),
        ("connect_all (allreduce.py:3)", False),
        ("wait (threading.py:355)", True),
        ("waiting_room (a.py:3)", False),
    ],
)
def test_program_waits_by_its_function_not_by_its_file(frame: str, waits: bool) -> None:
    ((_, seen),) = stacks.find_positions({0: py_spy(frame)}).values()
    assert seen is waits


def test_program_without_frames_waits_by_the_function_of_the_kernel() -> None:
    text = PROC.replace("hrtimer_nanosleep", "sk_wait_data").replace("sleep 600", "allreduce x")
    ((_, waits),) = stacks.find_positions({0: stacks.read(text)}).values()
    ((_, sleeps),) = stacks.find_positions(
        {0: stacks.read(PROC.replace("sleep", "recv", 1))}
    ).values()
    assert waits and not sleeps


def used(text: str, ticks: int, size: int) -> stacks.Dump:
    return stacks.read(f"{text}@used {ticks} 0 {size} 0 \n")


def test_program_has_moved_if_its_frames_differ_or_it_has_written() -> None:
    waits = PY_SPY.format(frame="wait (a.py:1)")
    assert not stacks.has_moved(used(waits, 0, 0), used(waits, 300, 100))
    assert stacks.has_moved(used(waits, 0, 0), used(waits, 0, 1 << 20)), "it writes a checkpoint"
    assert stacks.has_moved(used(waits, 0, 0), used(PY_SPY.format(frame="f (a.py:2)"), 0, 0))


def test_program_is_busy_if_it_has_used_a_processor() -> None:
    assert stacks.is_busy(used(PROC, 0, 0), used(PROC, 100, 0))
    assert not stacks.is_busy(used(PROC, 0, 0), used(PROC, 1, 100))


def test_hostile_numbers_are_read_quickly() -> None:
    text = f"@used {'9' * 75}x\n" * 2000
    assert stacks.read(PROC + text).ticks == 0
