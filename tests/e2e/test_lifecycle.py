"""What submit prints of a pod that runs, and of one that cannot start."""

import re
import signal

import pytest

from tests.e2e.command import Command


@pytest.mark.practice_only
def test_submit_long_line_is_printed_unbroken(sky: Command) -> None:
    script = """
run: |
  python3 -c 'print("x" * 200000)'
  printf 'a\\rb\\n'
"""
    done = sky("submit", "-", stdin=script)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[1] == "x" * 200_000


def test_submit_pending_node_prints_reason(sky: Command) -> None:
    script = "resources: {image_id: 'localhost:1/none:1'}\nrun: a\n"
    running = sky.start("submit", sky.write("t.yaml", script))
    assert running.stderr
    reason = re.compile("pending: .*(?:ImagePull|registry)")
    assert any(reason.search(line) for line in running.stderr)
    running.send_signal(signal.SIGINT)
    assert running.wait(60) == 130
