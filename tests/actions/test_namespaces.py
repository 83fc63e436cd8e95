"""The namespace of a user who may not list tasks in that of the context."""

import pytest
from msgspec.structs import replace

from kubectl_sky.actions import namespaces
from kubectl_sky.cluster.core import CoreManager, Identity
from kubectl_sky.cluster.session import Session
from kubectl_sky.tasks import find
from kubectl_sky.tasks.list import Listing
from tests.actions.conftest import Run, Submitter
from tests.fake_cluster import FakeCluster


@pytest.mark.parametrize(
    ("allowed", "expected"),
    [
        ({"default", "sky-alice"}, "default"),
        ({"sky-alice"}, "sky-alice"),
        ({"sky-testers"}, "sky-testers"),  # of a group
        (set(), "default"),
    ],
)
def test_namespace_of_user_is_one_that_allows_tasks(
    allowed: set[str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def may(session: object, verb: str, kind: object, namespace: str) -> bool:
        return namespace in allowed

    monkeypatch.setattr("kubectl_sky.cluster.access.may", may)
    assert namespaces.find(FakeCluster().session()) == expected


def test_namespaces_of_a_user_are_those_of_all_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    groups = [f"team-{number}" for number in range(50)]
    identity = Identity("alice", tuple(groups))
    monkeypatch.setattr(CoreManager, "identity", lambda _: identity)
    monkeypatch.setattr("kubectl_sky.cluster.access.may", lambda *_, **__: True)
    own = namespaces.list_own(FakeCluster().session())
    assert own == ["default", "sky-alice", *(f"sky-{group}" for group in groups)]


def test_list_my_namespaces_is_one_list_newest_first(
    run: Run, api: FakeCluster, send: Submitter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(namespaces, "list_own", lambda _: ["default", "sky-alice"])
    send("name: train\nrun: x\n")
    (task,) = find.list_tasks(api.session(), find.Scope("default", None))
    there = replace(task, namespace="sky-alice", created_at="2099-01-01T00:00:00Z")
    tasks = {"default": [task], "sky-alice": [there]}

    def list_tasks(session: Session, scope: find.Scope, *_: object) -> Listing:
        found = tasks[scope.namespace or ""]
        return Listing(found, found, (), session.now())

    monkeypatch.setattr("kubectl_sky.tasks.list.list_tasks", list_tasks)
    code, out, err = run("list", "--my-namespaces")
    assert code == 0, err
    header, *rows = out.splitlines()
    assert header.startswith("NAMESPACE ")
    assert [row.split()[0] for row in rows] == ["sky-alice", "default"]

    code, _, err = run("list", "--my-namespaces", "-A")
    assert code == 2
    assert "--my-namespaces cannot be combined with --all-namespaces" in err


def test_list_of_all_namespaces_that_is_forbidden_names_the_command_for_ones_own(
    run: Run, api: FakeCluster
) -> None:
    api.forbidden = {"list jobs"}
    code, _, err = run("list", "-A")
    assert code == 3
    assert "hint: run `kubectl sky list --my-namespaces` for those that are yours\n" in err
