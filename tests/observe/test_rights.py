"""The Role and the ClusterRole that `doctor` and `users` make from the rights of commands."""

import pytest

from kubectl_sky.observe import rights

INSTALLED = ("kueue.x-k8s.io", "scheduling.volcano.sh")


@pytest.mark.parametrize(
    ("extras", "kinds"),
    [
        ((), ["Role", "RoleBinding"]),
        ((rights.CLUSTER,), ["Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"]),
    ],
)
def test_role_is_cluster_wide_only_on_request(extras: tuple[str, ...], kinds: list[str]) -> None:
    items = rights.role("team", "alice", rights.list_served(INSTALLED), extras)
    assert [item["kind"] for item in items] == kinds


def test_cluster_rights_are_to_read_only() -> None:
    found = rights.list_served(INSTALLED)
    cluster_wide = {str(right) for right in found if right.extra == rights.CLUSTER}
    assert {right.partition(" ")[0] for right in cluster_wide} == {"list"}
    assert {"list nodes", "list clusterqueues.kueue.x-k8s.io"} < cluster_wide
