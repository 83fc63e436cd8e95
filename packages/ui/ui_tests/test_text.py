"""Widths of columns, and text of others."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubectl_sky_ui.text import column_widths, log_text, one_line, style

TITLES = ("ID", "NAME", "STATUS", "AGE", "REASON")
ROW = ("bcdf2345", "a-rather-long-name-of-a-task", "pending", "10m", "node-0: ImagePullBackOff")
CUT = ("REASON", "AGE")


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (120, {"ID": 8, "NAME": 28, "STATUS": 7, "AGE": 3, "REASON": 64}),
        (60, {"ID": 8, "NAME": 28, "STATUS": 7, "AGE": 3}),
        (30, {"ID": 8, "NAME": 12, "STATUS": 7}),
    ],
)
def test_column_widths_follow_screen(columns: int, expected: dict[str, int]) -> None:
    assert column_widths(TITLES, [ROW], columns, CUT) == expected


@given(st.text(max_size=80))
def test_text_of_others_has_no_control_characters(text: str) -> None:
    assert not any(unicodedata.category(character) == "Cc" for character in one_line(text))
    assert "\x1b" not in style(text).plain


@given(st.binary(max_size=200))
def test_log_text_has_no_control_characters(line: bytes) -> None:
    plain = log_text(line.replace(b"\n", b"")).plain
    assert not any(ord(character) < 32 or 127 <= ord(character) < 160 for character in plain)


def test_log_text_with_colour_on_each_character_is_plain() -> None:
    line = b"".join(b"\x1b[3%dmx" % (number % 6 + 1) for number in range(1000))
    text = log_text(line)
    assert text.plain.startswith("xxxxx") and not text.spans
