"""This version with tasks that an older version submitted."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests import recorded
from tests.e2e.command import ROOT, Command
from tests.polling import eventually

TASKS = Path(recorded.FOLDER) / "tasks"
USER = "--user=alice@example.com"


def create(kubectl: Command, items: list[dict[str, Any]]) -> None:
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    done = kubectl("create", "-f", "-", stdin=text)
    assert done.returncode == 0, done.stderr


@pytest.fixture(params=recorded.VERSIONS)
def submitted(kubectl: Command, request: pytest.FixtureRequest) -> None:
    """Create the recorded objects of a version, owned by its Jobs."""
    items = recorded.manifests(request.param)
    create(kubectl, [item for item in items if item["kind"] == "Job"])
    jobs = kubectl.json("get", "jobs")["items"]
    owners: dict[str | None, list[dict[str, Any]]] = {None: []}
    for job in jobs:
        metadata = job["metadata"]
        owner = {"apiVersion": "batch/v1", "kind": "Job"}
        owner |= {"name": metadata["name"], "uid": metadata["uid"]}
        owners.setdefault(metadata["labels"]["task-id"], []).append(owner)
    owners[None] = owners[recorded.IDS["files"]]
    rest = [item for item in items if item["kind"] != "Job"]
    for item in rest:
        task_id = item["metadata"]["labels"].get("task-id")
        item["metadata"]["ownerReferences"] = owners[task_id]
    create(kubectl, rest)


@pytest.mark.practice_only
@pytest.mark.usefixtures("submitted")
def test_commands_on_tasks_of_older_version_succeed(
    sky: Command, kubectl: Command, tmp_path: Path
) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    ids = recorded.IDS
    good = [ids[name] for name in ("hello", "ring", "files", "squares", "indexed")]
    done = sky("wait", *good, USER, timeout=250)
    assert done.returncode == 0, done.stdout + done.stderr
    assert sky("wait", ids["bad"], USER).returncode == 4
    done = sky("wait", ids["chain"], "--continue", USER)
    assert done.returncode == 0, done.stderr
    listed = {item["name"]: item["status"] for item in sky.json("list", USER)["tasks"]}
    assert listed.pop("bad") == "failed"
    assert set(listed.values()) == {"completed"}
    assert sky("logs", ids["hello"], USER).stdout == "hello\n"
    assert "rank 2 of 3" in sky("logs", ids["ring"], USER).stdout
    assert "main.py" in sky("logs", ids["files"], USER).stdout
    assert sky.json("status", ids["bad"], USER)["metadata"]["nodes"][0]["exit_code"] == 3
    for name in ("hello", "ring", "files"):
        again = sky("submit", str(TASKS / f"{name}.yaml"), "--id", ids[name], USER)
        assert again.returncode == 2, again.stderr
        assert "another version of kubectl-sky submitted" in again.stderr
    stopped = sky("stop", *ids.values(), USER, "--yes")
    assert stopped.returncode == 0, stopped.stderr
    left = ("get", "jobs,configmaps,secrets,services", "-l", "skypilot-task=true", "-o", "name")
    eventually(lambda: not kubectl(*left).stdout, message=lambda: kubectl(*left).stdout)
