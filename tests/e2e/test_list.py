"""List, status and clean: filters by state and age, and --watch."""

import json
import os
import pty
import re
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest
import yaml

from tests.e2e.command import Command, submitted
from tests.polling import eventually

pytestmark = pytest.mark.practice_only

GOOD = "name: good\nresources: {image_id: 'busybox:1.36'}\nrun: echo done\n"
BAD = "name: bad\nnum_nodes: 2\nresources: {image_id: 'busybox:1.36'}\nrun: exit 3\n"
SLOW = "name: slow\nresources: {image_id: 'busybox:1.36'}\nrun: sleep 3\n"


def ended(sky: Command, text: str) -> str:
    return submitted(sky("submit", "-", stdin=text))


def test_list_filters_by_status_and_age_sorts_and_limits(sky: Command) -> None:
    good, bad = ended(sky, GOOD), ended(sky, BAD)
    assert {task["task_id"] for task in sky.json("list")["tasks"]} == {good, bad}
    assert sky("list", "--status", "failed", "-o", "name").stdout == f"task/{bad}\n"
    assert sky("list", "--status", "SUCCEEDED", "-o", "name").stdout == f"task/{good}\n"
    for arguments in (("list",), ("status", bad)):
        shown = sky(*arguments, "-o", "yaml")
        assert shown.returncode == 0, shown.stderr
        assert yaml.safe_load(shown.stdout) == sky.json(*arguments)
    by_name = sky("list", "--sort-by", "name", "-o", "jsonpath={.tasks[*].name}")
    assert by_name.stdout == "bad good\n"
    assert sky("list", "--sort-by", "nodes", "--limit", "1", "-o", "name").stdout == f"task/{bad}\n"
    time.sleep(2)
    assert sky.json("list", "--since", "1s")["tasks"] == []
    wrong = sky("list", "--status", "odd")
    assert wrong.returncode == 2 and "succeeded" in wrong.stderr


def test_status_failed_task_shows_exit_codes_and_durations(sky: Command) -> None:
    bad = submitted(
        sky("submit", "-", "--detach", stdin=BAD)
    )  # detached: a client would stop the other node
    template = 'jsonpath={.metadata.detailed_status}{" "}{.metadata.nodes[*].exit_code}'
    eventually(lambda: sky("status", bad, "-o", template).stdout == "failed 3 3\n")
    output = sky("status", bad).stdout
    assert re.search(r"NODE +STATUS +EXIT +RESTARTS +FOR +REASON", output)
    assert re.search(r"\n0 +failed +3 +0 +\d+s +Error", output)


def test_status_watch_prints_every_change_once(sky: Command) -> None:
    slow = submitted(sky("submit", "-", "--detach", stdin=SLOW))
    done = sky("status", slow, "--watch", timeout=90)
    assert done.returncode == 0, done.stderr
    shown = re.findall(r"^Status: +(\w+)", done.stdout, re.MULTILINE)
    assert shown[-1] == "completed" and "running" in shown
    assert len(shown) == len(set(shown)), "unchanged states are not printed again"


def test_list_watch_prints_changes_until_interrupted(sky: Command) -> None:
    watching = sky.start("list", "--watch")
    slow = submitted(sky("submit", "-", "--detach", stdin=SLOW))
    states: list[str] = []
    assert watching.stdout
    for line in watching.stdout:
        states += re.findall(rf"^{slow} +slow +(\w+)", line)
        if "completed" in states:
            break
    watching.send_signal(signal.SIGINT)
    _, err = watching.communicate(timeout=60)
    assert watching.returncode == 130, err
    assert states[-1] == "completed" and len(states) > 1


def test_list_watch_on_terminal_redraws_screen(sky: Command) -> None:
    good = ended(sky, GOOD)
    master, terminal = pty.openpty()
    process = sky.start("list", "--watch", terminal=terminal)
    os.close(terminal)
    seen = b""
    deadline = time.monotonic() + 60
    while good.encode() not in seen:
        assert time.monotonic() < deadline
        seen += os.read(master, 4096)
    process.send_signal(signal.SIGINT)
    with suppress(OSError):  # a terminal reports end of file as an error
        while os.read(master, 4096):
            pass
    assert process.wait(60) == 130
    os.close(master)
    assert b"\x1b[H" in seen and b"\x1b[J" in seen


def test_list_all_contexts_reports_forbidden_context(sky: Command) -> None:
    good = ended(sky, GOOD)
    path = Path(sky.environment["KUBECONFIG"])
    config = yaml.safe_load(path.read_text())
    config["contexts"] = [one for one in config["contexts"] if one["name"] in ("test", "bob")]
    path.write_text(json.dumps(config))
    done = sky("list", "--all-contexts")
    assert done.returncode == 3, "bob has no rights"
    assert "test:\nID" in done.stdout and good in done.stdout
    assert "error: context bob: forbidden" in done.stderr
    listed = json.loads(sky("list", "--all-contexts", "-o", "json").stdout)["tasks"]
    assert [(task["task_id"], task["context"]) for task in listed] == [(good, "test")]


def test_clean_older_than_deletes_finished_tasks_only(sky: Command) -> None:
    good = ended(sky, GOOD)
    slow = submitted(sky("submit", "-", "--detach", stdin=SLOW.replace("sleep 3", "sleep 300")))
    time.sleep(2)
    assert sky("clean", "-y").stderr == "0 orphans found\n"
    told = sky("clean", "--older-than", "1s", "--dry-run")
    assert f"task/{good} (good) completed" in told.stdout and slow not in told.stdout
    assert told.stderr == "0 orphans and 1 task found\n"
    assert sky("clean", "--older-than", "1s", "--orphans", "-y").stderr == "0 orphans found\n"
    done = sky("clean", "--older-than", "1s", "-y")
    assert done.stderr == "Removed 0 orphans and 1 task\n"
    assert [task["task_id"] for task in sky.json("list")["tasks"]] == [slow]
    sky("stop", slow)
