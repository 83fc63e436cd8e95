"""Connect the user's terminal to a remote program: typed keys and window sizes."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from queue import SimpleQueue

from kubectl_sky.errors import UserError

_BLOCK_BYTES = 64 * 1024

Size = tuple[int, int]


def is_terminal() -> bool:
    """Report whether stdin is a terminal."""
    return sys.stdin.isatty()


def read_stdin() -> Iterator[bytes]:
    """Yield the bytes of stdin as they arrive."""
    while block := os.read(sys.stdin.fileno(), _BLOCK_BYTES):
        yield block


@contextmanager
def raw() -> Iterator[Iterator[Size]]:
    """Pass on every key, Ctrl-C too; yield columns and rows, now and at each change."""
    try:
        import termios
        import tty
    except ImportError:
        raise UserError("-t does not work on this system", "use -i, or kubectl exec -it") from None
    queue: SimpleQueue[Size | None] = SimpleQueue()  # put() is safe in a signal handler

    def resized(*_: object) -> None:
        columns, rows = os.get_terminal_size(sys.stdin.fileno())
        queue.put((columns, rows))

    resized()
    previous_handler = signal.signal(signal.SIGWINCH, resized)
    attributes = termios.tcgetattr(sys.stdin)
    tty.setraw(sys.stdin, termios.TCSADRAIN)  # TCSADRAIN keeps what has already been typed
    try:
        yield _until_none(queue)
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, attributes)
        signal.signal(signal.SIGWINCH, previous_handler)
        queue.put(None)


def _until_none(queue: "SimpleQueue[Size | None]") -> Iterator[Size]:
    while size := queue.get():
        yield size
