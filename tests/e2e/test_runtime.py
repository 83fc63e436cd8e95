"""The ConfigMap with the runtime scripts that tasks share: creation, owners and tampering."""

from typing import Any

import pytest
import yaml

from tests.e2e.command import Command, submitted
from tests.polling import eventually

SETUP = "name: {}\nsetup: echo ready\nrun: sleep 60\n"


def runtimes(kubectl: Command) -> list[dict[str, Any]]:
    config_maps = kubectl.json("get", "configmaps", "-l", "kubectl-sky/runtime=true")
    return list(config_maps["items"])


def test_stop_shared_runtime_is_deleted_with_last_task(sky: Command, kubectl: Command) -> None:
    ids = []
    for name in ("one", "two"):
        done = sky("submit", "-", "--detach", stdin=SETUP.format(name))
        assert done.returncode == 0, done.stderr
        ids.append(submitted(done))
    (runtime,) = runtimes(kubectl)
    owners = {
        f"{owner['kind']}/{owner['name']}" for owner in runtime["metadata"]["ownerReferences"]
    }
    names = zip(("one", "two"), ids, strict=True)
    assert owners == {f"ConfigMap/{name}-{task_id}" for name, task_id in names}
    again = sky("submit", "-", "--detach", "--id", ids[0], stdin=SETUP.format("one"))
    assert again.returncode == 0, again.stderr
    assert sky("stop", ids[0], "--yes").returncode == 0
    until_owners(kubectl, 1)
    assert sky("clean", "--yes", "--all-users", "--older-than", "0s", "--orphans").returncode == 0
    assert len(runtimes(kubectl)) == 1
    assert sky("stop", ids[1], "--yes").returncode == 0
    until_owners(kubectl, 0)


def until_owners(kubectl: Command, number: int) -> None:
    """Wait until the runtime has this many owners, or is deleted if 0."""

    def owners() -> list[str]:
        items = runtimes(kubectl)
        return [owner["name"] for item in items for owner in item["metadata"]["ownerReferences"]]

    eventually(lambda: len(owners()) == number, 90, message=owners)


@pytest.mark.practice_only
@pytest.mark.parametrize("key", ["entry.sh", "planted.sh"])
def test_submit_runtime_modified_by_other_user_is_refused(
    sky: Command, kubectl: Command, key: str
) -> None:
    rendered = sky("render", "-", stdin=SETUP.format("mine"))
    planted = next(yaml.safe_load_all(rendered.stdout))
    planted["data"][key] = "echo pwned"
    assert kubectl("create", "-f", "-", stdin=yaml.safe_dump(planted)).returncode == 0
    done = sky("submit", "-", "--detach", stdin=SETUP.format("mine"))
    assert done.returncode == 2
    name = planted["metadata"]["name"]
    assert f"ConfigMap/{name} already exists and was not created by this task" in done.stderr
    assert not kubectl.json("get", "jobs")["items"]


@pytest.mark.practice_only
def test_submit_run_only_creates_no_runtime(sky: Command, kubectl: Command) -> None:
    done = sky("submit", "-", stdin="name: hello\nrun: echo hi\n")
    assert (done.returncode, done.stdout.splitlines()[1:]) == (0, ["hi"])
    assert runtimes(kubectl) == []


@pytest.mark.practice_only
def test_submit_tasks_with_other_scripts_create_runtimes_of_their_own(
    sky: Command, kubectl: Command
) -> None:
    pipeline = "name: p\n---\nname: a\nsetup: echo a\n---\nname: b\nnum_nodes: 2\nrun: echo b\n"
    done = sky("submit", "-", stdin=pipeline)
    assert done.returncode == 0, done.stderr
    scripts = {frozenset(item["data"]) for item in runtimes(kubectl)}
    assert scripts == {
        frozenset({"entry.sh", "profile.sh"}),
        frozenset({"entry.sh", "nodes.sh", "barrier.py"}),
    }
    assert sky("stop", "--all", "--yes").returncode == 0
    until_owners(kubectl, 0)
    assert sky("clean", "--yes", "--older-than", "0s", "--orphans").returncode == 0
