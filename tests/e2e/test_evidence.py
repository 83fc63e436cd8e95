"""Evidence of failed nodes, saved locally for when the cluster has deleted it."""

import json
import stat
from pathlib import Path

import pytest

from tests.e2e.command import Command
from tests.e2e.support import until_deleted

DYING = """
name: dying
num_nodes: 2
secrets: {TOKEN: hidden-value}
run: |
  [ "$NODE_RANK" = 1 ] || { sleep 600; exit 0; }
  seq 1 60
  printf 'the cause \\033[2J\\n'
  exit 7
"""


def files(sky: Command) -> list[Path]:
    return sorted((Path(sky.environment["HOME"]) / ".cache/kubectl-sky/evidence").glob("*"))


@pytest.mark.practice_only
def test_status_deleted_pod_shows_saved_last_lines(sky: Command, kubectl: Command) -> None:
    done = sky("submit", "-", "--id", "dying001", "--backend", "indexed", stdin=DYING)
    assert done.returncode == 4, done.stderr
    (file,) = files(sky)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert "hidden-value" not in file.read_text()
    first = json.loads(file.read_text())["deaths"][0]
    assert (first["rank"], first["exit_code"], len(first["lines"])) == (1, 7, 50)
    assert "evidence" not in sky.json("status", "dying001")["metadata"]
    delete = ("delete", "pods", "-l", "task-id=dying001", "--force", "--grace-period=0")
    assert kubectl(*delete).returncode == 0
    kubectl("wait", "pods", "-l", "task-id=dying001", "--for=delete", "--timeout=60s")
    shown = sky("status", "dying001")
    assert "first failed node-1: exit code 7" in shown.stdout
    assert "\n  the cause \n" in shown.stdout
    assert "\x1b" not in shown.stdout
    kept = sky.json("status", "dying001")["metadata"]["evidence"]
    assert kept[0]["lines"][-2:] == ["60", "the cause \x1b[2J"]
    logs = sky("logs", "dying001").stderr
    assert "last lines of its deleted pod" in logs and "\n  the cause " in logs
    assert "Job has reached" not in logs
    assert sky("stop", "dying001").returncode == 0
    until_deleted(kubectl, "dying001")
    status = sky("status", "dying001")
    assert status.returncode == 2
    assert "first failed node-1: exit code 7" in status.stderr
    assert 'error: task "dying001" not found' in status.stderr
    for command in (("status", "dying"), ("logs", "dying0"), ("doctor", "dying0")):
        done = sky(*command)
        assert done.returncode == 2
        assert "first failed node-1: exit code 7" in done.stderr
