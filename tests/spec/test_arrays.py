"""The syntax of --array."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubectl_sky.spec.arrays import MAX_INDEXES, Array, array


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
    assert array(text) == expected


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
        array(text)
    assert message in str(caught.value)


@given(st.text("0123456789-,% x", max_size=20))
def test_array_random_text_is_parsed_or_refused(text: str) -> None:
    try:
        found = array(text)
    except ValueError:
        return
    assert array(found.numbers) == Array(found.numbers, found.count, found.count)
    assert 1 <= found.at_once <= found.count <= MAX_INDEXES
