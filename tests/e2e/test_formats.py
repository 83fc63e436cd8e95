"""Every command that prints cluster state, in every output format, for tasks of all states."""

import json

import pytest
import yaml

from tests.e2e.conftest import Command, Done

TASKS = {
    "good0001": "name: good\nrun: 'true'\n",
    "fails001": "name: fails\nresources: {ports: 80}\nrun: exit 3\n",
    "pends001": "name: pends\nresources: {cpus: 5000}\nnum_nodes: 2\nrun: 'true'\n",
}
COMMANDS: tuple[tuple[str, ...], ...] = (
    ("list",),
    *(("status", task_id) for task_id in TASKS),
    *(("doctor", task_id) for task_id in TASKS),
    ("wait", "good0001"),
    ("wait", "fails001"),
    ("ports", "fails001"),
    ("volumes", "list"),
    ("doctor",),
    ("gpus",),
    ("auth", "whoami"),
    ("version",),
)


def run(sky: Command, command: tuple[str, ...], form: str) -> Done:
    done = sky(*command, "-o", form)
    expected = 4 if command == ("wait", "fails001") else 0
    assert done.returncode == expected, (command, form, done.stderr)
    assert "internal error" not in done.stderr
    return done


@pytest.fixture
def submitted(sky: Command) -> None:
    for task_id, text in TASKS.items():
        done = sky("submit", "-", "--id", task_id, "--detach", stdin=text)
        assert done.returncode == 0, done.stderr
    assert sky("wait", *list(TASKS)[:2], "--timeout", "90s").returncode == 4


@pytest.mark.practice_only
@pytest.mark.usefixtures("submitted")
def test_commands_in_every_format_agree(sky: Command) -> None:
    for command in COMMANDS:
        data = json.loads(run(sky, command, "json").stdout)
        assert yaml.safe_load(run(sky, command, "yaml").stdout) == data, command
        assert "No tasks found" not in run(sky, command, "jsonpath={.none}").stderr
    for command in COMMANDS[:4]:
        assert run(sky, command, "name").stdout.startswith("task/")
    assert "BackoffLimitExceeded" not in run(sky, ("list",), "wide").stdout
