"""The ConfigMap with the runtime scripts that tasks share: creation, owners and tampering."""

from typing import Any

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
    assert sky("clean", "--yes", "--all-users", "--older-than", "0s").returncode == 0
    assert len(runtimes(kubectl)) == 1
    assert sky("stop", ids[1], "--yes").returncode == 0

    until_owners(kubectl, 0)


def until_owners(kubectl: Command, number: int) -> None:
    """Wait until the runtime has this many owners, or is deleted if 0."""

    def owners() -> list[str]:
        items = runtimes(kubectl)
        return [owner["name"] for item in items for owner in item["metadata"]["ownerReferences"]]

    eventually(lambda: len(owners()) == number, 90, message=owners)
