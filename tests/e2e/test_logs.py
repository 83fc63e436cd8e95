"""Logs of a client whose clock is wrong."""

import re
import time
from pathlib import Path

import pytest

from tests.e2e.command import Command

SKEWED = """
import datetime, time
true, shift = time.time, 3600
time.time = lambda: true() + shift
class Skewed(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return super().now(tz) + datetime.timedelta(seconds=shift)
datetime.datetime = Skewed
"""


@pytest.mark.practice_only
def test_logs_client_clock_skew_prints_all_lines(sky: Command, tmp_path: Path) -> None:
    """The cluster's clock decides which lines are new, not the client's."""
    (tmp_path / "sitecustomize.py").write_text(SKEWED)
    path = f"{tmp_path}:{sky.environment['PYTHONPATH']}"
    skewed = Command(sky.program, {**sky.environment, "PYTHONPATH": path}, sky.folder)
    text = "resources: {image_id: 'busybox:1.36'}\nrun: echo one; sleep 2; echo two\n"
    done = skewed("submit", "-", "--id", "skewed01", stdin=text)
    assert (done.returncode, done.stdout.splitlines()[1:]) == (0, ["one", "two"]), done.stderr
    assert skewed("logs", "skewed01", "--since", "10m").stdout == "one\ntwo\n"
    time.sleep(2)
    assert skewed("logs", "skewed01", "--since", "1s").stdout == ""
    assert skewed("status", "skewed01").returncode == 0
    assert re.search(r"\b6\dm\n", skewed("list").stdout)
