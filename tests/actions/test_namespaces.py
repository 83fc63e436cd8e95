"""The namespace of a user who may not list tasks in that of the context."""

import pytest

from kubectl_sky.actions import namespaces
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
