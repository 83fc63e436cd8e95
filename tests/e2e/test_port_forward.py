"""Forward local ports to a task."""

import os
import re
import signal

import pytest

from tests.cluster.target import Cluster
from tests.e2e.command import Command
from tests.e2e.support import fetch, submit, until_running

PORT = 30_000 + os.getpid() % 2_000  # pods of the practice cluster share a network
TASK = f"""
name: web
num_nodes: 2
run: |
  mkdir -p /tmp/web && cd /tmp/web && echo "hello from $NODE_RANK" > index.html
  exec python3 -m http.server --bind $POD_IP {PORT}
"""
ANY = TASK.replace("--bind $POD_IP ", "")  # in a real pod, forwarding goes to localhost


@pytest.mark.practice_only
def test_port_forward_reaches_port_of_rank(sky: Command, cluster: Cluster) -> None:
    text = TASK if cluster.driver == "practice" else ANY
    submit(sky, text, "webweb01")
    until_running(sky, "webweb01")
    running = sky.start("port-forward", "web", f":{PORT}", "--rank", "1", "--address", "127.0.0.1")
    assert running.stderr
    line = running.stderr.readline()
    match = re.fullmatch(rf"Forwarding from (127\.0\.0\.1:\d+) -> {PORT}\n", line)
    assert match, line
    for _ in range(3):
        assert fetch(f"http://{match[1]}") == "hello from 1\n"
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=60)
    assert running.returncode == 0
