"""Evidence of failed nodes, saved locally for when the cluster has deleted it."""

import json
import os
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


@pytest.mark.practice_only
@pytest.mark.parametrize("before", [True, False])
def test_wait_failed_task_saves_evidence_and_prunes_old_files(
    sky: Command, kubectl: Command, before: bool
) -> None:
    folder = Path(sky.environment["HOME"]) / ".cache/kubectl-sky/evidence"
    folder.mkdir(parents=True)
    for number in range(120):
        old = folder / f"older{number:03}-0123456789ab.json"
        old.write_text("[" * 9999)
        os.utime(old, (number, number) if number < 10 else None)
    text = "name: dying\nresources: {image_id: 'busybox:1.36'}\nrun: sleep 2; echo why; exit 9\n"
    assert sky("submit", "-", "--id", "dying002", "--detach", stdin=text).returncode == 0
    if not before:
        ready = ("--for=condition=Failed", "--timeout=60s")
        assert kubectl("wait", "job/dying-dying002", *ready).returncode == 0
    assert sky("wait", "dying002").returncode == 4
    assert len(files(sky)) == 100
    assert not list(folder.glob("older00*"))
    (file,) = folder.glob("dying002-*.json")
    (death,) = json.loads(file.read_text())["deaths"]
    assert (death["exit_code"], death["lines"]) == (9, ["why"])
    assert sky("status", "older100").returncode == 2


@pytest.mark.practice_only
def test_submit_failed_task_with_unwritable_cache_exits_with_4(sky: Command) -> None:
    (Path(sky.environment["HOME"]) / ".cache").write_text("a file in the way")
    done = sky("submit", "-", stdin="name: dying\nrun: exit 5\n")
    assert done.returncode == 4
    assert "exit code 5" in done.stderr
    assert "Traceback" not in done.stderr
