"""Output of pods on a terminal: no hidden, reordered or active characters."""

import re
import sys
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubectl_sky.cli import output
from kubectl_sky.cli.terminal import Printer
from kubectl_sky.observe.escapes import Cleaner, harmless, plain
from kubectl_sky.observe.logs import Form, Origin
from tests.e2e.command import Command

INVISIBLE = [
    character
    for character in map(chr, range(0x80, sys.maxunicode + 1))
    if unicodedata.category(character) in ("Cf", "Cc", "Zl", "Zp")
]
INVISIBLE += ["\ufe00", "\ufe0d", "\ufe0f", "\U0001d159", "\U000e0100"]
SAFE = re.compile(
    r"\x1b\[(?:0|[123479]|2[23479]|39|3[1-6]|9[1-6])(?:;(?:0|[123479]|2[23479]|39|3[1-6]|9[1-6]))*m|\x1b\[K"
)


def acts(text: str) -> bool:
    left = SAFE.sub("", text)
    return bool(re.search("[\x00-\x08\x0b-\x0c\x0e-\x1f\x7f-\x9f]", left)) or any(
        character in INVISIBLE_SET for character in left
    )


INVISIBLE_SET = frozenset(INVISIBLE) - {"\ufe0f"}  # after an emoji it is harmless


def test_harmless_escapes_invisible_characters() -> None:
    for character in INVISIBLE:
        assert not acts(harmless(f"a{character}b".encode()).decode()), hex(ord(character))
    assert harmless("pay\u202eevil\u2069".encode()) == b"pay<U+202E>evil<U+2069>"
    assert plain("ad\u200bmin") == "ad<U+200B>min"


@pytest.mark.parametrize("text", ["grüße 你好 🚀 ⚠️ ✔ 1️⃣", "नमस्ते", "مرحبا", "e\u0301", "\ue0b0"])
def test_harmless_keeps_visible_text(text: str) -> None:
    assert harmless(text.encode()).decode() == text == plain(text)


@pytest.mark.parametrize(
    "style",
    ["8", "0;8", "30;40", "37", "90;100", "40", "48;5;0", "38;5;16", "38;2;0;0;0", "58;5;1",
     "38:2::0:0:0", "5", "31;8", "1" * 5000, "1;" * 5000, "38", "38;5", "99999999999"],
)  # fmt: skip
def test_harmless_removes_style_that_could_hide_text(style: str) -> None:
    shown = harmless(f"\x1b[{style}mtext".encode()).decode()
    assert "text" in shown and not acts(shown)
    assert shown.replace("\x1b[0m", "") in ("text", "\x1b[31mtext")


def test_harmless_keeps_safe_styles() -> None:
    assert harmless(b"\x1b[1;31mred\x1b[m") == b"\x1b[1;31mred\x1b[0m\x1b[0m"
    assert harmless(b"\x1b[38;5;8;1mbold") == b"\x1b[1mbold\x1b[0m"


PIECES = st.sampled_from(
    [b"\x1b", b"\x1b[", b"\x1b]", b"8", b"31", b"m", b";", b"\r", b"\n", b"K", b"\x9b", b"\x07",
     "\u202e".encode(), "\u202e".encode()[:2], b"\xc2", b"\x9b2J", b"H", b"text", b"\x1b[2J"]
) | st.binary(max_size=3)  # fmt: skip


@given(st.lists(PIECES))
def test_cleaner_random_chunks_have_no_terminal_effect(parts: list[bytes]) -> None:
    cleaner = Cleaner()
    shown = b"".join(cleaner.clean(part) for part in parts) + cleaner.clean(b"", final=True)
    assert not acts(shown.decode())


def test_cleaner_shows_prompt_and_progress_bar_at_once() -> None:
    cleaner = Cleaner()
    assert cleaner.clean(b"Password: ") == b"Password: "
    assert cleaner.clean(b"10%\r") == b"10%"
    assert cleaner.clean(b"20%\r\nnext") == b"\r\x1b[K20%\nnext"
    assert cleaner.clean("ü".encode()[:1]) + cleaner.clean("ü".encode()[1:]) == "ü".encode()
    assert cleaner.clean(b"\x1b") + cleaner.clean(b"[2J\x1b[3") + cleaner.clean(b"1mred") == (
        b"\x1b[31mred\x1b[0m"
    )
    assert cleaner.clean(b"done\r", final=True) == b"done"


def test_cleaner_drops_endless_escape_sequence() -> None:
    cleaner = Cleaner()
    for _ in range(100):
        cleaner.clean(b"\x1b]" + b"x" * 10_000)
        assert len(cleaner.clean(b"x" * 10_000)) >= 10_000


def test_table_cells_are_short_single_lines() -> None:
    shown = output.table(["A", "B"], [["x\ny   Running", "\x1b[31mred\u202e"], ["z" * 5000, "b"]])
    assert shown.count("\n") == 2
    assert "x y Running" in shown and "red<U+202E>" in shown
    assert max(map(len, shown.split("\n"))) < 2000
    assert output.fields({"Name": "a\nStatus: Running"}) == ["Name:       a Status: Running"]


def test_log_prefix_is_single_harmless_line() -> None:
    origin = Origin("t", 0, "node-0", "pod", "evil\x1b[2J\nnode-1 |")
    assert Form(color=True).block([(origin, b"x")], True) == (b"\x1b[36mevil node-1 | |\x1b[0m x\n")


def test_log_file_of_any_task_name_stays_in_folder(tmp_path: Path) -> None:
    printer = Printer(folder=str(tmp_path / "logs"))
    printer([(Origin("../../evil\0", 0, "node-0", "pod"), b"x")], True)
    assert [path.name for path in tmp_path.rglob("*")] == ["logs", ".._.._evil_-node-0.log"]


LIMIT = 1 << 20


@pytest.fixture
def endless(sky: Command) -> str:
    """A task whose log has a line of 120 MB, followed by a short line."""
    program = "head -c 120000000 /dev/zero | tr '\\\\0' x; echo; echo after"
    text = f'resources: {{image_id: "busybox:1.36"}}\nrun: "{program}"\n'
    assert sky("submit", "-", "--id", "long0001", "--detach", stdin=text).returncode == 0
    assert sky("wait", "long0001").returncode == 0
    return "long0001"


@pytest.mark.practice_only
def test_logs_endless_line_is_cut_in_bounded_memory(sky: Command, endless: str) -> None:
    shell = ("sh", "-c", 'ulimit -v 700000; exec "$@"', "sh")
    limited = Command((*shell, *sky.program), sky.environment, sky.folder)
    for flags in ((), ("-o", "json"), ("--grep", "x"), ("--timestamps",), ("-f",)):
        done = limited("logs", endless, *flags)
        assert done.returncode == 0, (flags, done.stderr[:1000])
        assert "internal error" not in done.stderr
        lines = done.stdout.splitlines()
        assert LIMIT - 100 < len(lines[0]) < LIMIT + 200, flags
        assert "a line longer than 1 MiB; only its beginning is shown" in done.stderr
        assert flags == ("--grep", "x") or any("after" in line for line in lines[1:])
