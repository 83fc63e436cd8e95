"""What `list`, `status` and `clean` show and remove: by state, by age, as it changes."""

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

from tests.e2e.conftest import Command, submitted
from tests.polling import eventually

pytestmark = pytest.mark.practice_only

GOOD = "name: good\nresources: {image_id: 'busybox:1.36'}\nrun: echo done\n"
BAD = "name: bad\nnum_nodes: 2\nresources: {image_id: 'busybox:1.36'}\nrun: exit 3\n"
SLOW = "name: slow\nresources: {image_id: 'busybox:1.36'}\nrun: sleep 3\n"


def ended(sky: Command, text: str) -> str:
    return submitted(sky("submit", "-", stdin=text))


def test_some_of_the_tasks(sky: Command) -> None:
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


def test_status_says_how_long_and_in_which_words(sky: Command) -> None:
    bad = submitted(sky("submit", "-", "--detach", stdin=BAD))  # so that nobody stops the other
    template = 'jsonpath={.metadata.job_status}{" "}{.metadata.nodes[*].exit_code}'
    eventually(lambda: sky("status", bad, "-o", template).stdout == "FAILED 3 3\n")
    told = sky("status", bad).stdout
    assert re.search(r"NODE +STATUS +EXIT +RESTARTS +FOR +REASON", told)
    assert re.search(r"\n0 +failed +3 +0 +\d+s +Error", told)


def test_status_is_shown_as_it_changes(sky: Command) -> None:
    slow = submitted(sky("submit", "-", "--detach", stdin=SLOW))
    done = sky("status", slow, "--watch", timeout=90)
    assert done.returncode == 0, done.stderr
    shown = re.findall(r"^Status: +(\w+)", done.stdout, re.MULTILINE)
    assert shown[-1] == "completed" and "running" in shown
    assert len(shown) == len(set(shown)), "what has not changed is not written again"


def test_list_is_shown_as_it_changes_until_ctrl_c(sky: Command) -> None:
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


def test_list_is_drawn_in_place_on_a_terminal(sky: Command) -> None:
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
    with suppress(OSError):  # a terminal reads to the end, which is told by an error
        while os.read(master, 4096):
            pass
    assert process.wait(60) == 130
    os.close(master)
    assert b"\x1b[H" in seen and b"\x1b[J" in seen


def test_all_contexts(sky: Command) -> None:
    good = ended(sky, GOOD)
    path = Path(sky.environment["KUBECONFIG"])
    config = yaml.safe_load(path.read_text())
    config["contexts"] = [one for one in config["contexts"] if one["name"] in ("test", "bob")]
    path.write_text(json.dumps(config))
    done = sky("list", "--all-contexts")
    assert done.returncode == 3, "bob may list nothing"
    assert "test:\nID" in done.stdout and good in done.stdout
    assert "error: context bob: forbidden" in done.stderr
    listed = json.loads(sky("list", "--all-contexts", "-o", "json").stdout)["tasks"]
    assert [(task["task_id"], task["context"]) for task in listed] == [(good, "test")]


def test_ended_tasks_are_cleaned(sky: Command) -> None:
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
