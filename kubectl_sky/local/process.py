"""A program in the background that is alive exactly while it holds the lock on a file.

A pid alone proves nothing: the number may be another process's by now. What a signal is sent to is
the process of the pid file, and only when that process has the lock file open.
"""

import fcntl
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from kubectl_sky.errors import SkyError
from kubectl_sky.local.place import private_folder

_PROC = Path("/proc/self/fd")
_TERM_SECONDS = 15.0
_KILL_SECONDS = 5.0
_STEP = 0.02


@dataclass(frozen=True)
class Background:
    """The program of a folder: it takes the lock itself; the pid and the log are written for it."""

    folder: Path

    @property
    def log(self) -> Path:
        """What it has said."""
        return self.folder / "log"

    @property
    def _lock(self) -> Path:
        return self.folder / "lock"

    @property
    def _pid(self) -> Path:
        return self.folder / "pid"

    def alive(self) -> bool:
        """Say whether any process holds the lock."""
        try:
            with self._lock.open() as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except BlockingIOError:
            return True
        return False

    def pid(self) -> int | None:
        """Return the process that holds the lock, or None when that cannot be told."""
        try:
            pid = int(self._pid.read_text())
        except (FileNotFoundError, ValueError):
            return None
        return pid if self.alive() and _opens(pid, self._lock) else None

    def start(self, command: Sequence[str]) -> subprocess.Popen[bytes]:
        """Start it apart from the terminal, so that neither Ctrl-C nor a hang-up reaches it."""
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
        self._pid.write_text(f"{process.pid}\n")
        return process

    def end(self) -> None:
        """Ask it to end, and make it end. Raises SkyError when it does not."""
        if self.alive():
            pid = self.pid()
            if pid is None:
                raise SkyError(
                    f"a process holds {self._lock}, and {self._pid} does not say which",
                    f"`fuser {self._lock}` does; end it by hand",
                )
            ended = self._signal(pid, signal.SIGTERM, _TERM_SECONDS)
            if not ended and not self._signal(pid, signal.SIGKILL, _KILL_SECONDS):
                raise SkyError(f"process {pid} does not end", f"see {self.log}")
        self._pid.unlink(missing_ok=True)

    def last_words(self, since: int = 0) -> str:
        """Return the last line that it said after a size of the log, or nothing."""
        try:
            with self.log.open("rb") as log:
                log.seek(max(since, log.seek(0, os.SEEK_END) - 4096))
                lines = log.read().decode(errors="replace").split("\n")
        except FileNotFoundError:
            return ""
        return next((line.strip() for line in reversed(lines) if line.strip()), "")

    def _signal(self, pid: int, number: signal.Signals, seconds: float) -> bool:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
        end = time.monotonic() + seconds
        while not _ended(pid):  # which is later than that it lets go of the lock
            if time.monotonic() > end:
                return False
            time.sleep(_STEP)
        return True


def _ended(pid: int) -> bool:
    """Say whether a process has ended. One that nobody has waited for still has its number."""
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


def _opens(pid: int, file: Path) -> bool:
    """Say whether a process has a file open."""
    if _PROC.is_dir():
        wanted = file.stat()
        try:
            links = list(Path(f"/proc/{pid}/fd").iterdir())
        except OSError:  # it has gone, or is another user's
            return False
        return any(_same(link, wanted) for link in links)
    lsof = shutil.which("lsof") or "/usr/sbin/lsof"  # macOS has it
    done = subprocess.run([lsof, "-t", str(file)], capture_output=True, text=True, check=False)
    return str(pid) in done.stdout.split()


def _same(link: Path, wanted: os.stat_result) -> bool:
    try:
        return os.path.samestat(link.stat(), wanted)
    except OSError:  # closed meanwhile
        return False
