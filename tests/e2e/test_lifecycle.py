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


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (
            "resources: {image_id: 'localhost:1/none:1'}\nrun: a\n",
            r"pending: .*(?:ImagePull|registry)",
        ),
    ],
    ids=["image"],
)
def test_submit_pending_node_prints_reason(sky: Command, script: str, message: str) -> None:
    running = sky.start("submit", sky.write("t.yaml", script))
    assert running.stderr
    assert any(re.search(message, line) for line in running.stderr)
    running.send_signal(signal.SIGINT)
    assert running.wait(60) == 130
