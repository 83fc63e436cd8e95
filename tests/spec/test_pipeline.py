"""Files of several tasks and their header."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubectl_sky.spec.pipeline import (
    MAX_INDEXES,
    Array,
    Pipeline,
    parse_array,
    pipeline_of,
    seconds,
)
from tests.spec.documents import problems, read

TWO = "name: a\nrun: x\n---\nname: b\nrun: y\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("run: x\n", None),
        ("name: p\n---\nrun: x\n", None),
        (TWO, Pipeline()),
        ("name: p\n---\n" + TWO, Pipeline("p")),
        ("name: 7\nexecution: serial\n---\n" + TWO, Pipeline("7")),
        ("name: g\nexecution: parallel\n---\nname: a\nrun: x\n", Pipeline("g", parallel=True)),
        (
            "name: g\nexecution: parallel\nprimary_tasks: [a]\ntermination_delay: 2m\n"
            "inter_connection: false\n---\n" + TWO,
            Pipeline("g", True, ("a",), {"default": 120}, connected=False),
        ),
    ],
)
def test_pipeline_of_documents_reads_header(text: str, expected: Pipeline | None) -> None:
    assert pipeline_of(read(text)) == expected


def test_pipeline_delay_is_set_for_auxiliary_tasks_only() -> None:
    assert Pipeline(parallel=True).delay("a") is None
    group = Pipeline(parallel=True, primary=("a",), delays={"b": 5, "default": 30})
    assert [group.delay(name) for name in "abc"] == [None, 5, 30]
    assert Pipeline(parallel=True, primary=("a",)).delay("b") == 0


@pytest.mark.parametrize(
    ("text", "expected"),
    [(30, 30), ("30", 30), ("30s", 30), ("5M", 300), ("1h30m", 5400), ("0", 0)],
)
def test_seconds_parses_durations(text: str | int, expected: int) -> None:
    assert seconds(text) == expected


HEADER = "name: band\nexecution: parallel\n---\nname: drum_s\nrun: x\n---\n"


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        (
            "run: x\n",
            "task.yaml:7:1: document 3: a task of a parallel group needs a name; add name: …",
        ),
        (
            "name: drum_s\nrun: x\n",
            "task.yaml:7:7: document 3: name: another task of the group has this name",
        ),
        (
            "name: drum-s\nrun: x\n",
            "task.yaml:7:7: document 3: name: its nodes would have the host names of drum_s;"
            " choose names that differ in more",
        ),
    ],
)
def test_group_unreachable_task_names_are_error(task: str, expected: str) -> None:
    assert problems(HEADER + task) == [expected]


def test_group_name_changed_for_host_name_is_warned() -> None:
    assert problems(HEADER + "name: bass\nrun: x\n", "warning") == [
        "task.yaml:4:7: document 2: name: warning: its nodes' host names are"
        " drum-s-0.$SKYPILOT_JOBGROUP_NAME and so on; host names are of letters, digits and -"
    ]


@pytest.mark.parametrize(
    ("task", "path"),
    [
        ("run: curl http://drums-0.band:80/\n", "8:6: document 3: run"),
        ("run: x\nsetup: ping drums-12.band\n", "9:8: document 3: setup"),
        ("run: x\nenvs: {PEER: drums-1.band}\n", "9:14: document 3: envs.PEER"),
    ],
)
def test_group_name_as_domain_is_warned(task: str, path: str) -> None:
    found = problems(HEADER.replace("drum_s", "drums") + "name: bass\n" + task, "warning")
    assert found == [
        f"task.yaml:{path}: warning: the group's host names end in $SKYPILOT_JOBGROUP_NAME, and"
        " that is not band; write $SKYPILOT_JOBGROUP_NAME there"
    ]


@pytest.mark.parametrize(
    "run", ["curl drums-0.$SKYPILOT_JOBGROUP_NAME", "curl drums-0.bandit", "x drums-0.band-2"]
)
def test_group_other_host_names_are_not_warned(run: str) -> None:
    text = HEADER.replace("drum_s", "drums") + f"name: bass\nrun: {run}\n"
    assert problems(text) + problems(text, "warning") == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0-99", Array("0-99", 100, 100)),
        ("0-99%10", Array("0-99", 100, 10)),
        ("7,0,3", Array("0,3,7", 3, 3)),
        ("5", Array("5", 1, 1)),
        ("3-5,0-2", Array("0-5", 6, 6)),
        ("1,2%9", Array("1-2", 2, 2)),
        ("007-010", Array("7-10", 4, 4)),
        (f"0-{MAX_INDEXES - 1}%50", Array(f"0-{MAX_INDEXES - 1}", MAX_INDEXES, 50)),
    ],
)
def test_array_text_is_parsed(text: str, expected: Array) -> None:
    assert parse_array(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected numbers; write it as 0-99, 0,3,7 or 0-99%10"),
        ("x", "expected numbers"),
        ("-1", "expected numbers"),
        ("1-", "expected numbers"),
        ("0-9%", "expected numbers"),
        ("0-9%0", "%0 lets nothing run"),
        ("9-0", "9-0 ends before it begins; write 0-9"),
        ("1,1", "1 is named twice"),
        ("0-4,2", "2 is named twice"),
        (f"0-{MAX_INDEXES}", f"{MAX_INDEXES + 1:,} tasks are too many"),
        ("0-999999999", "1,000,000,000 tasks are too many"),
        ("9999999999", "expected numbers"),
        ("\u0661-\u0662", "expected numbers"),
    ],
)
def test_array_invalid_text_is_value_error(text: str, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_array(text)
    assert message in str(caught.value)


@given(st.text("0123456789-,% x", max_size=20))
def test_array_random_text_is_parsed_or_refused(text: str) -> None:
    try:
        found = parse_array(text)
    except ValueError:
        return
    assert parse_array(found.numbers) == Array(found.numbers, found.count, found.count)
    assert 1 <= found.at_once <= found.count <= MAX_INDEXES
