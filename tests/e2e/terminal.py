"""Drive `kubectl sky ui` by keys, on a terminal."""

import errno
import os
import pty
import re
import select
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.e2e.command import Command

_SECONDS = 60.0  # until a test gives up
_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[ -/]*[0-~])")


@dataclass
class Terminal:
    """The other side of the terminal of a running command."""

    fd: int
    written: str = ""

    def shows(self, *texts: str) -> None:
        """Wait until the command has written all texts since the last call."""
        deadline = time.monotonic() + _SECONDS
        written = ""
        while not all(text in _SEQUENCE.sub("", written) for text in texts):
            assert time.monotonic() < deadline, (texts, written)
            written += self._read()

    def press(self, keys: str) -> None:
        """Type keys."""
        os.write(self.fd, keys.encode())

    def close(self) -> None:
        """Read until the command has closed its side."""
        while self._read(wait=_SECONDS):
            pass

    def _read(self, wait: float = 0.2) -> str:
        if not select.select([self.fd], [], [], wait)[0]:
            return ""
        try:
            text = os.read(self.fd, 65536).decode(errors="replace")
        except OSError as error:
            if error.errno != errno.EIO:  # closed by the other side
                raise
            text = ""
        self.written += text
        return text


@contextmanager
def on_terminal(sky: Command, columns: int, rows: int, expected: int = 0) -> Iterator[Terminal]:
    """Run the interface on a terminal; it restores the screen and ends with the expected code."""
    fd, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (rows, columns))
    running = sky.start("ui", terminal=theirs)
    os.close(theirs)
    terminal = Terminal(fd)
    try:
        yield terminal
        terminal.close()
        assert running.wait(timeout=_SECONDS) == expected, terminal.written
    finally:
        os.close(fd)
    written = terminal.written
    assert written.rindex("\x1b[?1049l") > written.index("\x1b[?1049h")
    assert "Traceback" not in written


def run_on_terminal(
    sky: Command, *arguments: str, types: str = "", when: str = "", columns: int = 80
) -> tuple[int, str]:
    """Run a command on a terminal; return its exit code and what it wrote.

    The input `types` is typed when the screen matches a regular expression.
    """
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, columns))
    running = sky.start(*arguments, terminal=theirs)
    os.close(theirs)
    screen = b""
    typed = False
    deadline = time.monotonic() + 60

    while time.monotonic() < deadline:
        if not typed and re.search(when, screen.decode(errors="replace"), re.DOTALL):
            typed = True
            os.write(ours, types.encode())
        if select.select([ours], [], [], 0.2)[0]:
            try:
                screen += os.read(ours, 65536)
            except OSError:  # closed by the other side
                break

    os.close(ours)
    return running.wait(timeout=60), screen.decode()
