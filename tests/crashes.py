"""Record child processes of the tests that a signal of a crash ended, whoever started them."""

import signal
import subprocess
from typing import Any

SIGNALS = {signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGILL, signal.SIGFPE}
recorded: set[str] = set()


def record(command: object, code: int | None) -> None:
    """Keep a crash for the check at the end of the test; a signal is a negative exit code."""
    if code is not None and -code in SIGNALS:
        recorded.add(f"{signal.Signals(-code).name}: {command}")


class Popen(subprocess.Popen[Any]):
    """Record how the process ended each time that somebody learns it."""

    def poll(self) -> int | None:
        """Return the exit code of a process that has ended."""
        code = super().poll()
        record(self.args, code)
        return code

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the exit code."""
        code = super().wait(timeout)
        record(self.args, code)
        return code
