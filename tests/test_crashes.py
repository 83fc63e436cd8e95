"""A child process that crashes fails the test in which it did, whatever the test checks."""

import faulthandler
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import crashes
from tests.e2e.command import PROGRAM, home
from tests.forked import Forked

CRASH = (sys.executable, "-c", "import os; os.abort()")


@pytest.fixture(autouse=True)
def no_records(no_crash: None) -> Iterator[None]:
    """Forget the crashes of these tests before the check that all tests end with."""
    yield
    crashes.recorded.clear()


def test_crash_of_child_is_recorded() -> None:
    subprocess.run(CRASH, check=False)
    assert crashes.recorded == {f"SIGABRT: {CRASH}"}


def crash() -> None:
    """Crash without the traceback that pytest prints of its own crashes."""
    faulthandler.disable()
    os.abort()


def test_crash_of_fork_is_recorded(tmp_path: Path) -> None:
    Forked(PROGRAM, home(tmp_path), tmp_path, prepare=crash)("version")
    assert crashes.recorded == {"SIGABRT: ['version']"}


def test_killed_child_is_not_recorded() -> None:
    subprocess.run([sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"], check=False)
    assert not crashes.recorded
