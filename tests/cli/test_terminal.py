"""Print log lines on stdout and to files."""

from pathlib import Path

import pytest

from kubectl_sky.cli.terminal import Printer
from kubectl_sky.observe.logs import Origin

FIRST, SECOND = (Origin("a", 0, "node-0", f"a-node-0-{pod}") for pod in "xy")


def print_lines(printer: Printer) -> None:
    printer([(FIRST, b"one"), (FIRST, b"no newline")], False)
    printer([(SECOND, b"two"), (SECOND, b"also ")], False)
    printer([(SECOND, b"without")], False)


def test_printer_line_without_newline_ends_before_the_next_pod(
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    print_lines(Printer())
    assert capfdbinary.readouterr().out == b"one\nno newline\ntwo\nalso without"


def test_printer_file_line_without_newline_ends_before_the_next_pod(tmp_path: Path) -> None:
    print_lines(Printer(folder=str(tmp_path)))
    content = (tmp_path / "a-node-0.log").read_bytes()
    assert content == b"one\nno newline\ntwo\nalso without"
