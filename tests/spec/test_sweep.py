"""Sweeps: variables with several values, and the combination of each index."""

import pytest

from kubectl_sky.spec.pipeline import array_of
from kubectl_sky.spec.sweep import MAX_VALUES, parse_sweep, read_sweep
from kubectl_sky.spec.validate import validate
from tests.spec.documents import make_document


@pytest.mark.parametrize(
    ("value", "values"),
    [
        ([0.1, 0.01], ("0.1", "0.01")),
        ("0.1,0.01", ("0.1", "0.01")),
        (" adam , sgd", ("adam", "sgd")),
        ("1..3", ("1", "2", "3")),
        ("-1..1,8", ("-1", "0", "1", "8")),
        (["a,b", "1..3"], ("a,b", "1..3")),
        (7, ("7",)),
        ([True], ("True",)),
        (["8 8", "16 16"], ("8 8", "16 16")),
    ],
)
def test_values_of_a_variable_are_lists_or_text(value: object, values: tuple[str, ...]) -> None:
    assert parse_sweep({"X": value}).variables == {"X": values}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"X": "1,,2"}, "X has an empty value; write it as"),
        ({"X": "1,2,1"}, "X has a value twice"),
        ({"X": "3..1"}, "3..1 ends before it begins; write 1..3"),
        ({"X": "0.1..0.3"}, "0.1..0.3 is no range of whole numbers"),
        ({"X": "1..1000000"}, "1..1000000 has too many values"),
        ({"X": "1..600", "Y": "1..600"}, "1,200 values are too many"),
        ({"X-Y": "1"}, '"X-Y" is not the name of a variable'),
    ],
)
def test_sweep_that_cannot_be_is_refused(fields: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_sweep(fields)
    assert MAX_VALUES < 1200


def test_last_variable_varies_fastest() -> None:
    sweep = parse_sweep({"LR": "0.1,0.01", "SEED": "1..3"})
    assert sweep.count == 6
    assert [sweep.title(index) for index in (0, 1, 3, 5)] == [
        "LR=0.1 SEED=1",
        "LR=0.1 SEED=2",
        "LR=0.01 SEED=1",
        "LR=0.01 SEED=3",
    ]
    assert read_sweep(sweep.text) == sweep


def test_sweep_is_an_array_of_all_combinations() -> None:
    array = array_of({"sweep": {"LR": "1,2", "SEED": "1..3"}, "sweep_limit": 4})
    assert array
    assert (array.numbers, array.count, array.at_once) == ("0-5", 6, 4)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"sweep": {"X": "3..1"}}, "3..1 ends before it begins"),
        ({"sweep": {"X": "1..999", "Y": "1"}, "array": "0-3"}, "array and sweep exclude"),
        ({"array": "all"}, "write it as 0-99, 0,3,7 or 0-99%10"),
        ({"sweep": {"LR": "0.1 1e-2"}}, "0.1 1e-2 are several numbers; write it as"),
        ({"sweep_limit": 3}, "ignored: there is no sweep"),
        ({"sweep": {"NODE_RANK": "1,2"}}, "NODE_RANK cannot be swept"),
    ],
)
def test_array_of_a_file_is_checked(fields: dict[str, object], message: str) -> None:
    document = make_document({"run": "x", "config": {"kubectl_sky": fields}})
    assert any(message in problem.message for problem in validate(document))


@pytest.mark.parametrize(
    ("indexes", "flags"),
    [
        ([3], ["--sweep", "LR=0.1", "--sweep", "SEED=2"]),
        ([0, 2], ["--sweep", "LR=1,0.1", "--sweep", "SEED=1"]),
        ([0, 1, 2, 3], ["--sweep", "LR=1,0.1", "--sweep", "SEED=1,2"]),
        ([0, 3], []),  # they would also stand for 1 and 2
        ([4], []),  # `LR=a,b` are two values
        ([6], []),  # `LR=1 2` is refused
    ],
)
def test_flags_of_indexes_stand_for_no_others(indexes: list[int], flags: list[str]) -> None:
    sweep = parse_sweep({"LR": ["1", "0.1", "a,b", "1 2"], "SEED": "1..2"})
    assert sweep.flags(indexes) == flags
