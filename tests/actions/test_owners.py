"""Owners of tasks: the identity of a user, and users with similar names."""

import json
from pathlib import Path

from tests.actions.conftest import Run, Submitter
from tests.fake_cluster import FakeCluster

DELETED = "; pods and logs are deleted\n"
TASK = "name: mine\nrun: sleep 300\n"


def ids(run: Run, *flags: str) -> set[str]:
    tasks = json.loads(run("list", "-o", "json", *flags)[1])["tasks"]
    return {task["task_id"] for task in tasks}


def test_auth_whoami_prints_user_and_source(run: Run) -> None:
    cluster = ("alice\n", "source: the cluster of context fake\n")
    assert run("auth", "whoami")[1:] == cluster
    assert run("auth", "login", "tester")[0] == 0
    assert json.loads(run("auth", "whoami", "-o", "json")[1]) == {
        "apiVersion": "kubectl-sky/v1",
        "kind": "Identity",
        "username": "tester",
        "label": "tester",
        "source": "auth login",
    }
    assert run("auth", "whoami", "--user", "other")[1] == "other\n"
    assert run("auth", "logout")[1] == "Logged out tester\n"
    assert run("auth", "whoami")[1:] == cluster


def test_list_users_with_same_label_value_are_distinguished(run: Run, api: FakeCluster) -> None:
    Path("task.yaml").write_text(TASK)
    for name, task_id in (("user@example.com", "athome01"), ("user-example.com", "dashed01")):
        assert run("submit", "task.yaml", "-d", "--id", task_id, "--user", name)[0] == 0
    labels = [item["metadata"]["labels"] for item in api.saved().values() if item["kind"] == "Job"]
    assert {label["username"] for label in labels} == {"user-example.com"}
    assert ids(run, "--user", "user@example.com") == {"athome01"}
    assert ids(run, "--user", "user-example.com") == {"dashed01"}
    assert ids(run) == set()
    assert ids(run, "--all-users") == {"athome01", "dashed01"}
    code, _, err = run("stop", "--all", "-y", "--user", "user@example.com")
    assert (code, err) == (0, f"Stopped 1 task{DELETED}")
    assert ids(run, "--all-users") == {"dashed01"}


def test_stop_prints_tasks_and_their_number(run: Run, send: Submitter) -> None:
    send(TASK)
    assert run("stop", "mine") == (0, "task/bcdf2345 (mine) stopped\n", f"Stopped 1 task{DELETED}")
    send(TASK)
    assert json.loads(run("stop", "--all", "--yes", "-o", "json")[1]) == {
        "apiVersion": "kubectl-sky/v1",
        "kind": "Stopped",
        "count": 1,
        "status": "stopped",
        "message": "Stopped 1 task",
        "task_ids": ["bcdf2345"],
    }
