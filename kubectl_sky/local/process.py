"""A background program that counts as alive while it holds the lock on a file with its pid.

A pid alone proves nothing, because the system may have reused it.
"""

import fcntl
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from msgspec import Struct

from kubectl_sky.errors import SkyError
from kubectl_sky.local.state_dir import private_folder

_PROC = Path("/proc/self/fd")
_TERM_TIMEOUT_SECONDS = 15.0
_KILL_TIMEOUT_SECONDS = 5.0
_POLL_SECONDS = 0.02


class Background(Struct, frozen=True):
    """A program in a folder. It takes the lock itself, and writes its pid into that file."""

    folder: Path

    @property
    def log(self) -> Path:
        return self.folder / "log"

    @property
    def _lock(self) -> Path:
        return self.folder / "lock"

    def alive(self) -> bool:
        """Check whether any process holds the lock."""
        try:
            with self._lock.open() as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except BlockingIOError:
            return True
        return False

    def pid(self) -> int | None:
        """Return the pid of the process that holds the lock, or None if unknown."""
        text = self._lock.read_text() if self.alive() else ""
        return int(text) if text.strip().isdigit() else None

    def start(self, command: Sequence[str], failure: ExitStack) -> subprocess.Popen[bytes]:
        """Start the program in a new session, so that Ctrl-C and SIGHUP do not reach it.

        `failure` ends it: a Ctrl-C may come before the caller has the process.
        """
        private_folder(self.folder)
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                command,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        failure.callback(process.wait)
        failure.callback(process.kill)
        return process

    def end(self) -> None:
        """Stop the program with SIGTERM, then SIGKILL. Raises SkyError if both fail."""
        if self.alive():
            pid = self.pid()
            if pid is None:
                raise SkyError(
                    f"a process holds {self._lock}, which does not contain its pid",
                    f"`fuser {self._lock}` shows it; stop it manually",
                )
            ended = self._signal(pid, signal.SIGTERM, _TERM_TIMEOUT_SECONDS)
            if not ended and not self._signal(pid, signal.SIGKILL, _KILL_TIMEOUT_SECONDS):
                raise SkyError(f"process {pid} did not stop", f"see {self.log}")

    def read_log(self, since: int = 0) -> list[str]:
        """Return the lines of the log after byte `since`, without empty ones."""
        if not self.log.exists():
            return []
        lines = self.log.read_bytes()[since:].decode(errors="replace").splitlines()
        return [line.strip() for line in lines if line.strip()]

    def _signal(self, pid: int, number: signal.Signals, seconds: float) -> bool:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
        deadline = time.monotonic() + seconds
        while not _ended(pid):  # the lock is released before the process has ended
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_SECONDS)
        return True


def _ended(pid: int) -> bool:
    """Check whether a process has ended. A zombie still has its pid."""
    if _PROC.is_dir():
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        return state in ("Z", "X")
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False
