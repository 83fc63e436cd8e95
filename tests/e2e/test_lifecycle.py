"""What submit prints of a pod that runs, and of one that cannot start."""

import re
import signal

from tests.e2e.command import Command


def test_submit_pending_node_prints_reason(sky: Command) -> None:
    script = "resources: {image_id: 'localhost:1/none:1'}\nrun: a\n"
    running = sky.start("submit", sky.write("t.yaml", script))
    assert running.stderr
    reason = re.compile("pending: .*(?:ImagePull|registry)")
    assert any(reason.search(line) for line in running.stderr)
    running.send_signal(signal.SIGINT)
    assert running.wait(60) == 130
