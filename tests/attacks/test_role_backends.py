"""The Role of `doctor --role` on clusters with custom kinds."""

import pytest

from tests.attacks.test_role import Json, alice, allowed, role  # noqa: F401
from tests.cluster.target import Cluster
from tests.e2e.conftest import Command
from tests.e2e.test_volcano import alone, volcano  # noqa: F401

TASK = "name: turn\nnum_nodes: 2\nresources: {image_id: 'busybox:1.36'}\nrun: echo $NODE_RANK\n"


@pytest.fixture
def cluster(real_cluster: Cluster) -> Cluster:
    """The real cluster: only it has the controller."""
    return real_cluster


def granted(role: list[Json], resource: str) -> set[str]:  # noqa: F811
    rules = role[0]["rules"]
    return {verb for rule in rules if resource in rule["resources"] for verb in rule["verbs"]}


@pytest.mark.usefixtures("jobset")
def test_role_is_enough_for_jobset_task(
    alice: Command,  # noqa: F811
    role: list[Json],  # noqa: F811
) -> None:
    assert granted(role, "jobsets") == {"create", "delete", "list", "patch", "watch"}
    done = allowed(alice("submit", "-", "--backend", "jobset", "--id", "jobset01", stdin=TASK))
    assert "node-1" in done.stdout
    again = allowed(alice("submit", "-", "--backend", "jobset", "--id", "jobset01", stdin=TASK))
    assert "unchanged" in again.stdout
    for command in (("list",), ("status", "jobset01"), ("logs", "jobset01"), ("wait", "jobset01")):
        allowed(alice(*command))
    assert "list them: Node\n" in allowed(alice("doctor", "jobset01")).stdout
    allowed(alice("stop", "jobset01", "-y"))


@pytest.mark.usefixtures("volcano")
def test_role_is_enough_for_volcano_task(
    alice: Command,  # noqa: F811
    role: list[Json],  # noqa: F811
) -> None:
    assert granted(role, "podgroups") == {"create", "delete", "list", "patch"}
    flags = ("--backend", "volcano", "--detach", "--id", "volcano1")
    allowed(alice("submit", "-", *flags, stdin=TASK))
    assert "unchanged" in allowed(alice("submit", "-", *flags, stdin=TASK)).stdout
    for command in (("list",), ("status", "volcano1"), ("doctor", "volcano1")):
        allowed(alice(*command))
    allowed(alice("stop", "volcano1", "-y"))
    allowed(alice("clean", "-y"))
