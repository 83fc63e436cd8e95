"""Background processes: alive while they hold a lock, and stopped without killing others."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from kubectl_sky.errors import SkyError
from kubectl_sky.local import process
from kubectl_sky.local.process import Background

HOLD = """
import fcntl, os, signal, sys, time
lock = open("lock", "w")
fcntl.flock(lock, fcntl.LOCK_EX)
print(os.getpid(), file=lock, flush=True)
if "deaf" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("held", flush=True)
time.sleep(60)
"""


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[bytes]]]:
    processes: list[subprocess.Popen[bytes]] = []
    yield processes
    for child in processes:
        child.kill()
        child.wait()


@pytest.fixture
def holding(tmp_path: Path, started: list[subprocess.Popen[bytes]]) -> Background:
    return start(tmp_path, started)


def start(folder: Path, started: list[subprocess.Popen[bytes]], *words: str) -> Background:
    background = Background(folder)
    started.append(background.start([sys.executable, "-c", HOLD, *words], ExitStack()))
    while background.read_log() != ["held"]:
        assert started[-1].poll() is None
        time.sleep(0.01)
    return background


def test_background_is_alive_while_it_holds_lock(
    holding: Background, started: list[subprocess.Popen[bytes]]
) -> None:
    assert holding.alive()
    assert holding.pid() == started[0].pid == os.getsid(started[0].pid), "a session of its own"
    holding.end()
    assert started[0].wait(60) == -signal.SIGTERM
    assert not holding.alive()
    assert holding.pid() is None
    holding.end()  # again


def test_background_killed_process_is_not_alive(
    holding: Background, started: list[subprocess.Popen[bytes]]
) -> None:
    started[0].kill()
    started[0].wait()
    assert not holding.alive()
    assert holding.pid() is None


def test_background_ignoring_sigterm_is_killed(
    tmp_path: Path, started: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "_TERM_TIMEOUT_SECONDS", 0.2)
    background = start(tmp_path, started, "deaf")
    background.end()
    assert started[0].wait(60) == -signal.SIGKILL


def test_background_reused_pid_is_not_killed(
    tmp_path: Path, started: list[subprocess.Popen[bytes]]
) -> None:
    """The lock file is stale, and its PID belongs to another process."""
    bystander = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    started.append(bystander)
    background = Background(tmp_path)
    (tmp_path / "lock").write_text(f"{bystander.pid}\n")
    assert not background.alive()
    assert background.pid() is None
    background.end()
    assert bystander.poll() is None


def test_background_unknown_lock_holder_is_error(holding: Background) -> None:
    (holding.folder / "lock").write_text("no number")
    assert holding.alive()
    assert holding.pid() is None
    with pytest.raises(SkyError, match="does not contain its pid; `fuser "):
        holding.end()
    assert holding.alive()


def test_background_read_log_returns_new_lines(tmp_path: Path) -> None:
    background = Background(tmp_path)
    assert background.read_log() == []
    background.log.write_text("old\n")
    size = background.log.stat().st_size
    assert (background.read_log(), background.read_log(size)) == (["old"], [])
    with background.log.open("a") as log:
        log.write("new\n\nport 7: taken\n \n")
    assert background.read_log(size) == ["new", "port 7: taken"]
