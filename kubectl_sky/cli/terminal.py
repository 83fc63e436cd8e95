"""The user's terminal, handed to a program elsewhere: keys as they are typed, and sizes."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from queue import SimpleQueue

from kubectl_sky.errors import UserError

_BLOCK = 64 * 1024

Size = tuple[int, int]


def present() -> bool:
    """Say whether stdin is a terminal."""
    return sys.stdin.isatty()


def typed() -> Iterator[bytes]:
    """What comes on stdin, as it comes."""
    while block := os.read(sys.stdin.fileno(), _BLOCK):
        yield block


@contextmanager
def raw() -> Iterator[Iterator[Size]]:
    """Let every key through, Ctrl-C too; yield columns and rows, now and whenever they change."""
    try:
        import termios
        import tty
    except ImportError:
        raise UserError("-t does not work on this system", "use -i, or kubectl exec -it") from None
    queue: SimpleQueue[Size | None] = SimpleQueue()  # may be put to from a signal's handler

    def resized(*_: object) -> None:
        columns, rows = os.get_terminal_size(sys.stdin.fileno())
        queue.put((columns, rows))

    resized()
    earlier = signal.signal(signal.SIGWINCH, resized)
    before = termios.tcgetattr(sys.stdin)
    tty.setraw(sys.stdin, termios.TCSADRAIN)  # what has been typed already counts
    try:
        yield _until_none(queue)
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
        signal.signal(signal.SIGWINCH, earlier)
        queue.put(None)


def _until_none(queue: "SimpleQueue[Size | None]") -> Iterator[Size]:
    while size := queue.get():
        yield size
