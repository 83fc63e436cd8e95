"""Which rank is behind in which collective, by the dumps of PyTorch's flight recorders."""

import json
from collections.abc import Sequence

import pytest

from kubectl_sky.observe import flight_recorder, stacks
from kubectl_sky.observe.flight_recorder import Call, Group, Recording

DUE = Call(1234, "all_reduce", "train.py:88", age=100)
DONE = Call(1233, "broadcast", "train.py:80")
WORLD = tuple(range(4))


def mask(members: Sequence[int]) -> str:
    return f"{sum(1 << rank for rank in members):x}"


def waits(call: Call = DUE, members: Sequence[int] = WORLD, group: str = "0") -> Group:
    """Return what a process has done that waits in a collective."""
    return Group(group, "default_pg", mask(members), call, call)


def stands(call: Call | None = DONE, members: Sequence[int] = WORLD, group: str = "0") -> Group:
    """Return what a process has done all of whose collectives are completed."""
    return Group(group, "default_pg", mask(members), call)


def compare(*groups: Group | Sequence[Group] | None, age: Sequence[int] = ()) -> list[str]:
    """Return the lines about processes, one a node; None has no dump."""
    ages = age or [24] * len(groups)
    tuples = {
        rank: (it,) if isinstance(it, Group) else tuple(it)
        for rank, it in enumerate(groups)
        if it is not None
    }
    recordings = {rank: [Recording(rank, ages[rank], it)] for rank, it in tuples.items()}
    comparison = flight_recorder.compare(recordings)
    return [] if comparison is None else comparison.lines


def test_rank_that_has_not_begun_a_collective_is_named_with_its_last() -> None:
    (line,) = compare(waits(), waits(), waits(), stands())
    assert line == (
        "flight recorder, 24s ago: ranks 0-2 wait in all_reduce #1234 of group default_pg"
        " (train.py:88); rank 3 has not begun it (its last: broadcast #1233, completed)"
    )


def test_ranks_behind_at_different_collectives_are_named_together() -> None:
    (line,) = compare(waits(), stands(), stands(Call(7, "barrier")), stands(None))
    assert line.endswith("; ranks 1-3 have not begun it")


def test_process_without_the_group_has_begun_nothing_in_it() -> None:
    (line,) = compare(waits(members=(0, 1)), ())
    assert line.endswith("; rank 1 has not begun it")


def test_program_that_is_far_ahead_waits_in_its_first_pending_collective() -> None:
    ahead = Group("0", "default_pg", mask((0, 1)), Call(1240, "all_gather"), DUE)
    (line,) = compare(ahead, stands(members=(0, 1)))
    assert "rank 0 waits in all_reduce #1234 " in line
    assert "; rank 1 has not begun it" in line


def test_rank_without_a_dump_is_named_and_not_judged() -> None:
    (line,) = compare(waits(), waits(), None, waits())
    assert line.endswith(
        "ranks 0-1, 3 wait in all_reduce #1234 of group default_pg (train.py:88); no dump of rank 2"
    )


def test_group_without_known_members_is_compared_where_it_is_known() -> None:
    (line,) = compare(waits(members=()), stands(members=()), ())
    assert "; rank 1 has not begun it (its last: broadcast #1233, completed); which other" in line


def test_dump_of_an_earlier_time_does_not_count() -> None:
    (line,) = compare(waits(), waits(), waits(), stands(), age=(5, 9, 65, 66))
    assert line.startswith("flight recorder, 5s to 65s ago: ranks 0-2 wait")
    assert line.endswith("; no dump of rank 3")


@pytest.mark.parametrize(
    ("age", "end"),
    [(99, "rank 1 has not begun it (its last: broadcast #1233, completed)")]
    + [(age, "rank 1 dumped earlier") for age in (100, 101)],
)
def test_dump_tells_nothing_about_a_collective_begun_after_it(age: int, end: str) -> None:
    (line,) = compare(waits(members=(0, 1)), stands(members=(0, 1)), age=(98, age))
    assert line.endswith(f"(train.py:88); {end}")


def test_collective_counts_as_begun_when_the_first_rank_began_it() -> None:
    later = waits(Call(1234, "all_reduce", "train.py:88", age=5))
    (line,) = compare(later, waits(), later, stands())
    assert "; rank 3 has not begun it" in line


def test_ranks_in_different_collectives_of_the_same_number_are_told_apart() -> None:
    other = waits(Call(1234, "broadcast", "train.py:90"))
    (line,) = compare(waits(), waits(), waits(), other)
    assert "ranks 0-2 wait in all_reduce #1234 of group default_pg (train.py:88); rank 3 " in line
    assert line.endswith("waits in broadcast #1234 of group default_pg (train.py:90)")


def test_group_whose_missing_rank_waits_elsewhere_comes_last() -> None:
    pair = Call(7, "all_gather", age=100)
    first, second = compare(
        [waits(members=(0, 1)), stands(None, (0, 2), "1")],
        [stands(members=(0, 1))],
        [waits(pair, (0, 2), "1")],
    )
    assert "rank 1 has not begun it" in first
    assert "rank 0 has not begun it" in second


def test_pending_collectives_beyond_four_are_counted() -> None:
    pairs = [waits(members=(0, 1), group=str(number)) for number in range(6)]
    lines = compare(pairs, pairs)
    assert len(lines) == 5
    assert lines[-1].endswith(": 2 more collectives are pending")


def test_dumps_without_a_pending_collective_are_told() -> None:
    (line,) = compare(*[stands()] * 4)
    assert line == "flight recorder, 24s ago: no collective is pending in the dumps of ranks 0-3"
    assert compare() == []


def test_sends_and_receives_are_told_not_to_be_compared() -> None:
    comparison = flight_recorder.compare({0: [Recording(0, 1, (stands(),), has_p2p=True)]})
    assert comparison
    assert comparison.lines[-1].endswith(": sends and receives are not compared")


def test_nodes_of_several_processes_are_named() -> None:
    processes = [Recording(rank, 1, (waits(),)) for rank in range(3)]
    processes.append(Recording(3, 1, (stands(),)))
    recordings = {0: processes[:2], 1: processes[2:]}
    comparison = flight_recorder.compare(recordings)
    assert comparison
    assert "; rank 3 on node-1 has not begun it " in comparison.lines[0]
    assert comparison.by_node == {1: comparison.lines[0]}


@pytest.mark.parametrize("last", [DONE, DUE, None])
def test_rank_of_two_nodes_is_not_compared(last: Call | None) -> None:
    """Such as with `torchrun --standalone`, or with a folder that the nodes share."""
    pair = [Recording(0, 24, (waits(),)), Recording(1, 24, (waits(),))]
    comparison = flight_recorder.compare({0: pair, 1: [Recording(1, 9, (stands(last),))]})
    assert comparison
    assert comparison.lines == [
        "flight recorder, 9s to 24s ago: node-0 to node-1 have dumps of the same ranks:"
        " not compared"
    ]
    assert comparison.by_node == {}


def test_independent_nodes_are_not_compared_with_each_other() -> None:
    recordings = {node: [Recording(node, 24, (waits(),))] for node in range(2)}
    comparison = flight_recorder.compare(recordings, independent=True)
    assert comparison
    assert comparison.lines == [
        "flight recorder, 24s ago: node-0 to node-1 run independently: not compared"
    ]


def test_processes_of_one_independent_node_are_compared() -> None:
    recordings = {5: [Recording(0, 1, (waits(),)), Recording(1, 1, (stands(),))]}
    comparison = flight_recorder.compare(recordings, independent=True)
    assert comparison
    assert "; rank 1 on node-5 has not begun it " in comparison.lines[0]


def line_of(**changes: object) -> str:
    call = {"sequence": 7, "operation": "all_reduce", "frame": "train.py:3", "age": 9}
    group = {"id": "0", "name": "g", "members": "3", "last": call, "pending": call}
    return "@recorder " + json.dumps({"rank": 0, "age": 1, "groups": [group | changes]}) + "\n"


def test_stacks_have_what_the_dumps_of_their_nodes_tell() -> None:
    behind = line_of(pending=None, last=None).replace('"rank": 0', '"rank": 1')
    texts = {0: line_of(), 1: behind}
    folded = stacks.fold("a1b2c3d4", {rank: stacks.read(it) for rank, it in texts.items()})
    assert folded.flight_recorder == (
        "flight recorder, 1s ago: rank 0 waits in all_reduce #7 of group g (train.py:3);"
        " rank 1 has not begun it",
    )


@pytest.mark.parametrize(
    "text",
    [
        "@recorder {",
        "@recorder []",
        line_of(members=[0]),
        line_of(members="-1"),
        line_of(last={"sequence": 10**30, "operation": "x"}),
        line_of(pending=7),
        "@recorder " + "[" * 100_000,
    ],
)
def test_answer_that_is_no_recording_is_noted(text: str) -> None:
    dump = stacks.read(text)
    assert dump.recordings == ()
    assert [it.startswith("flight recorder: ") for it in dump.unread] == [True]


def test_names_of_programs_are_bounded_and_clean() -> None:
    evil = "\x1b]0;title\x07\x1b[2J\u202e" + "x" * 9999
    text = line_of(name=evil, pending={"sequence": 1, "operation": evil, "frame": evil})
    (line,) = stacks.fold("a1b2c3d4", {0: stacks.read(text)}).flight_recorder
    assert line.isprintable()
    assert len(line) < 900
