"""List, status and clean: filters by state and age, and --watch."""

import re
import signal

import pytest

from tests.e2e.command import Command, submitted

pytestmark = pytest.mark.practice_only

GOOD = "name: good\nresources: {image_id: 'busybox:1.36'}\nrun: echo done\n"
BAD = "name: bad\nnum_nodes: 2\nresources: {image_id: 'busybox:1.36'}\nrun: exit 3\n"
SLOW = "name: slow\nresources: {image_id: 'busybox:1.36'}\nrun: sleep 3\n"


def test_status_watch_prints_every_change_once(sky: Command) -> None:
    slow = submitted(sky("submit", "-", "--detach", stdin=SLOW))
    done = sky("status", slow, "--watch", timeout=90)
    assert done.returncode == 0, done.stderr
    shown = re.findall(r"^Status: +(\w+)", done.stdout, re.MULTILINE)
    assert shown[-1] == "completed" and "running" in shown
    assert len(shown) == len(set(shown)), "unchanged states are not printed again"


def test_list_watch_prints_changes_until_interrupted(sky: Command) -> None:
    good = submitted(sky("submit", "-", stdin=GOOD))
    watching = sky.start("list", "--watch")
    states: list[str] = []
    assert watching.stdout
    assert any(line.startswith(good) for line in watching.stdout)
    slow = submitted(sky("submit", "-", "--detach", stdin=SLOW))
    for line in watching.stdout:
        states += re.findall(rf"^{slow} +slow +(\w+)", line)
        if "completed" in states:
            break
    watching.send_signal(signal.SIGINT)
    _, err = watching.communicate(timeout=60)
    assert watching.returncode == 130, err
    assert states[-1] == "completed" and len(states) > 1
