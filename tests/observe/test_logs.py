"""Log lines as printed, sanitized on terminals."""

import json
import re
from datetime import timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubectl_sky.observe.escapes import harmless, plain
from kubectl_sky.observe.logs import Form, Lines, LogFormat, Origin, Template

NODE = Origin("t1", 1, "node-1", "pod-a", "node-1")
LONELY = Origin("t1", 0, "node-0", "pod-a")


def of(origin: Origin, *lines: bytes) -> Lines:
    return [(origin, line) for line in lines]


HOSTILE = {
    b"plain": b"plain",
    b"tab\there": b"tab\there",
    "grüße 你好 🚀".encode(): "grüße 你好 🚀".encode(),
    b"\x1b[31mred\x1b[0m": b"\x1b[31mred\x1b[0m\x1b[0m",
    b"\x1b[38;5;9mred": b"red",  # the palette could hide the text
    b"a\x1b[2Jb\x1b[10;10Hc\x1b[1Ad": b"abcd",
    b"\x1b]0;title\x07x": b"x",
    b"\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\": b"link",
    b"\x1b]52;c;cm0gLXJm\x07x": b"x",
    b"\x1b]0;never closed": b"^[]0;never closed",
    b"\x1bP1$r0m\x1b\\x": b"x",
    b"\x1bcx\x1b(0y": b"xy",
    b"\xc2\x9b2Jx\xc2\x9d0;t\x07y": b"xy",
    b"\x9b2J": b"\xef\xbf\xbd2J",
    b"bell\x07 back\x08 nul\x00 del\x7f": b"bell^G back^H nul^@ del^?",
    b"\x1b": b"^[",
    b"crlf\r": b"crlf",
    b" 10%\r 50%\r100%\r": b"100%",
    b" 10%\r100%": b"100%",
    b"\x1b[31": b"^[[31",
}


@pytest.mark.parametrize("line", HOSTILE)
def test_harmless_hostile_line_is_sanitized(line: bytes) -> None:
    assert harmless(line) == HOSTILE[line]


@given(
    st.lists(st.sampled_from([*map(bytes, [[i] for i in range(256)]), b"\x1b[", b"\x1b]", b"m"]))
)
def test_harmless_random_bytes_keep_only_colors(parts: list[bytes]) -> None:
    shown = harmless(b"".join(parts).replace(b"\n", b"")).decode()
    left = re.sub(r"\x1b\[[0-9;:]*m", "", shown)
    assert not re.search(r"[\x00-\x08\x0a-\x1f\x7f-\x9f]", left)


def test_harmless_long_hostile_line_is_fast() -> None:
    for part in (
        b"\x1b]",
        b"\x1b[",
        b"\x1b[1;",
        b"\r",
        b"\xff",
        b"\xc2\x9d",
        b"\xc2\x9b",
        b"\x1b ",
    ):
        assert not re.search(rb"[\x00-\x08\x0a-\x1f\x7f]", harmless(part * 100_000))


def test_log_form_pipe_keeps_bytes() -> None:
    line = b"\x1b[2J 1%\r 2%\xff\r"
    assert Form().block([(LONELY, line)], True) == line + b"\n"
    assert Form(terminal=True).block([(LONELY, line)], True) == " 2%\ufffd\n".encode()


def test_log_form_color_marks_rank() -> None:
    colored = Form(color=True).block(of(NODE, b"a", b"b"), True)
    assert colored == b"\x1b[32mnode-1 |\x1b[0m a\n\x1b[32mnode-1 |\x1b[0m b\n"
    assert Form(color=True).block([(LONELY, b"a")], True) == b"a\n"
    assert Form(output=LogFormat.RAW, color=True).block([(NODE, b"a")], False) == b"a"


def test_log_form_json_prints_object_per_line() -> None:
    form = Form(output=LogFormat.JSON, stamped=True)
    lines = [b"2026-11-21T04:47:04.5Z a \xff\x1b\r", b"2026-11-21T04:47:05Z"]
    block = form.block(of(NODE, *lines), False)
    assert [json.loads(line) for line in block.splitlines()] == [
        {
            "task": "t1",
            "rank": 1,
            "pod": "pod-a",
            "container": "main",
            "time": "2026-11-21T04:47:04.5Z",
            "text": "a \ufffd\x1b\r",
        },
        {
            "task": "t1",
            "rank": 1,
            "pod": "pod-a",
            "container": "main",
            "time": "2026-11-21T04:47:05Z",
            "text": "",
        },
    ]

    on_terminal = Form(output=LogFormat.JSON, terminal=True).block(of(NODE, b"\xc2\x9b2J"), True)
    assert b"\\u009b" in on_terminal


def test_log_form_grep_matches_text_not_timestamp() -> None:
    lines = [b"2026-11-21T04:47:04Z loss=5", b"2026-11-21T04:47:05Z step 21"]
    form = Form(stamped=True, grep=re.compile("2[16]"))
    assert form.block(of(LONELY, *lines), True) == lines[1] + b"\n"
    assert form.block(of(LONELY, *lines), False) == lines[1]
    assert Form(grep=re.compile("x")).block([(NODE, b"a")], True) == b""


def test_plain_removes_escape_sequences() -> None:
    """Tables and notes quote events and the last lines of programs."""
    assert plain("a\tb é\nc") == "a\tb é\nc"
    assert (
        plain("Error: \x1b[31mred\x1b[2J\x1b]0;owned\x07 \x9b2J\n10%\r50%\n")
        == "Error: red \n50%\n"
    )


@given(st.text())
def test_plain_random_text_has_no_control_characters(text: str) -> None:
    shown = plain(text)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", shown)
    assert shown.count("\n") == text.count("\n")


def test_log_form_grep_matches_characters_not_bytes() -> None:
    form = Form(grep=re.compile("^[é]$"))
    assert form.block(of(NODE, b"\xc3", b"e", "é".encode()), True).endswith("é\n".encode())
    assert not form.block(of(NODE, b"\xc3", b"e"), True)


IST = timezone(timedelta(hours=5, minutes=30))


@pytest.mark.parametrize(
    ("stamp", "expected"),
    [
        ("2026-11-21T22:47:04.123456789Z", "11-22 04:17:04"),
        ("2026-11-21T22:47:04Z", "11-22 04:17:04"),
        ("2026-11-21T22:47:04.5+02:00", "11-22 02:17:04"),
        ("2026-11-99T22:47:04Z", "2026-11-99T22:47:04Z"),  # a stranger's answer
        ("9999-12-31T23:59:59Z", "9999-12-31T23:59:59Z"),  # no such year in that zone
    ],
)
def test_log_form_local_time_is_short(stamp: str, expected: str) -> None:
    form = Form(stamped=True, local=True, zone=IST)
    line = f"{stamp} loss = 5".encode()
    assert form.block([(NODE, line)], True) == f"node-1 | {expected} loss = 5\n".encode()


def test_log_form_local_time_of_progress_bar_on_terminal_is_kept() -> None:
    form = Form(stamped=True, local=True, zone=IST, terminal=True)
    line = b"2026-11-21T22:47:04Z 10%\r\x1b[2J100%\r"
    assert form.block([(LONELY, line)], True) == b"11-22 04:17:04 100%\n"
    assert form.block(of(LONELY, b"\x1b[2Jx y"), True) == b"x y\n"


def test_log_form_template_has_fields_of_json() -> None:
    template = Template("{{{time}}} {task}/{rank}@{pod}/{container}: {text}")
    form = Form(stamped=True, template=template)
    line = b"2026-11-21T22:47:04.5Z a {rank} \xff"
    expected = b"{2026-11-21T22:47:04.5Z} t1/1@pod-a/main: a {rank} \xff\n"
    assert form.block([(NODE, line)], False) == expected
    local = Form(stamped=True, local=True, zone=IST, template=Template("{time}|{text}"))
    assert local.block([(NODE, line)], True) == b"11-22 04:17:04|a {rank} \xff\n"
    assert Form(template=Template("{time}{text}")).block([(NODE, b"a b")], True) == b"a b\n"


def test_log_form_template_on_terminal_is_harmless() -> None:
    form = Form(terminal=True, stamped=True, template=Template("{pod} {time} {text}"))
    origin = Origin("t1", 0, "node-0", "pod\x1b[2J")
    block = form.block(of(origin, *[b"2026\x1b]0;x\x07 \x1b[2Ja\xe2\x80\xae"]), True)
    assert block == b"pod 2026 a<U+202E>\n"


FIELDS = "the fields are {task}, {rank}, {pod}, {container}, {time}, {text}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", 'column 1: single "{"; write "{{" for a brace'),
        ("a }", 'column 3: single "}"; write "}}" for a brace'),
        ("{text", 'column 1: single "{"; write "{{" for a brace'),
        ("{text:{rank}}", 'column 1: single "{"; write "{{" for a brace'),
        ("{}", f"column 1: unknown field {{}}; {FIELDS}"),
        ("{text} {{.Node}}", f"column 8: unknown field {{{{.; {FIELDS}"),  # stern's
        ("{0}", f"column 1: unknown field {{0}}; {FIELDS}"),
        ("{time} {rnk}", "column 8: unknown field {rnk}; did you mean {rank}?"),
        ("{Text}", "column 1: unknown field {Text}; did you mean {text}?"),
        ("{text.__class__}", f"column 1: unknown field {{text.__class__}}; {FIELDS}"),
        ("{text[0]}", "column 1: unknown field {text[0]}; did you mean {text}?"),
        ("{text!r}", "column 1: unknown field {text!r}; did you mean {text}?"),
        ("{text:>999999999}", f"column 1: unknown field {{text:>999999999}}; {FIELDS}"),
    ],
)
def test_log_template_other_than_field_names_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        Template(text)
