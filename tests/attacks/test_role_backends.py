"""The Role of `doctor --role` on clusters with custom kinds."""

import pytest

from tests.attacks.roles import Json, assert_allowed
from tests.cluster.target import Cluster
from tests.e2e.command import Command
from tests.e2e.volcano import alone, volcano

__all__ = ["alone", "volcano"]  # fixtures

TASK = "name: turn\nnum_nodes: 2\nresources: {image_id: 'busybox:1.36'}\nrun: echo $NODE_RANK\n"


@pytest.fixture
def cluster(real_cluster: Cluster) -> Cluster:
    """The real cluster: only it has the controller."""
    return real_cluster


def granted(role: list[Json], resource: str) -> set[str]:
    rules = role[0]["rules"]
    return {verb for rule in rules if resource in rule["resources"] for verb in rule["verbs"]}


@pytest.mark.usefixtures("jobset")
def test_role_is_enough_for_jobset_task(alice: Command, role: list[Json]) -> None:
    assert granted(role, "jobsets") == {"create", "delete", "list", "patch", "watch"}
    done = assert_allowed(
        alice("submit", "-", "--backend", "jobset", "--id", "jobset01", stdin=TASK)
    )
    assert "node-1" in done.stdout
    again = assert_allowed(
        alice("submit", "-", "--backend", "jobset", "--id", "jobset01", stdin=TASK)
    )
    assert "unchanged" in again.stdout
    for command in (("list",), ("status", "jobset01"), ("logs", "jobset01"), ("wait", "jobset01")):
        assert_allowed(alice(*command))
    assert "list them: Node\n" in assert_allowed(alice("doctor", "jobset01")).stdout
    assert_allowed(alice("stop", "jobset01", "-y"))


@pytest.mark.usefixtures("volcano")
def test_role_is_enough_for_volcano_task(alice: Command, role: list[Json]) -> None:
    assert granted(role, "podgroups") == {"create", "delete", "list", "patch"}
    flags = ("--backend", "volcano", "--detach", "--id", "volcano1")
    assert_allowed(alice("submit", "-", *flags, stdin=TASK))
    assert "unchanged" in assert_allowed(alice("submit", "-", *flags, stdin=TASK)).stdout
    for command in (("list",), ("status", "volcano1"), ("doctor", "volcano1")):
        assert_allowed(alice(*command))
    assert_allowed(alice("stop", "volcano1", "-y"))
    assert_allowed(alice("clean", "-y"))
