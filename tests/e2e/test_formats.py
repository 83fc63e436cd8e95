"""Commands that print cluster state, as YAML, for tasks of all states.

All commands and formats are tested over a cluster in memory: tests/actions/test_formats.py.
"""

import pytest
import yaml

from tests.e2e.command import Command

TASKS = {
    "good0001": "name: good\nrun: 'true'\n",
    "fails001": "name: fails\nresources: {ports: 80}\nrun: exit 3\n",
    "pends001": "name: pends\nresources: {cpus: 5000}\nnum_nodes: 2\nrun: 'true'\n",
}
COMMANDS = (
    ("list",),
    *((command, task_id) for command in ("status", "doctor") for task_id in TASKS),
    ("wait", "good0001", "fails001"),
    ("ports", "fails001"),
    ("volumes", "list"),
    ("doctor",),
    ("gpus",),
    ("stop", *TASKS),
)


@pytest.mark.practice_only
def test_commands_print_tasks_of_all_states_as_yaml(sky: Command) -> None:
    for task_id, text in TASKS.items():
        done = sky("submit", "-", "--id", task_id, "--detach", stdin=text)
        assert done.returncode == 0, done.stderr
    assert sky("wait", *list(TASKS)[:2], "--timeout", "90s").returncode == 4
    assert "BackoffLimitExceeded" not in sky("list", "-o", "wide").stdout
    for command in COMMANDS:
        done = sky(*command, "-o", "yaml")
        assert done.returncode == (4 if command[0] == "wait" else 0), (command, done.stderr)
        assert isinstance(yaml.safe_load(done.stdout), dict), command
