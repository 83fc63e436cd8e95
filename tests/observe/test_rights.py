"""The Role and the ClusterRole that `doctor` and `users` make from the rights of commands."""

import pytest

from kubectl_sky.observe import rights

INSTALLED = {"kueue.x-k8s.io": ("v1beta2",), "scheduling.volcano.sh": ("v1beta1",)}


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


@pytest.mark.parametrize(("versions", "count"), [(("v1",), 0), (("v1", "v1alpha2"), 4)])
def test_rights_on_pod_groups_need_served_version(versions: tuple[str, ...], count: int) -> None:
    found = rights.list_served({"scheduling.k8s.io": versions})
    groups = [right for right in found if right.kind.resource == "podgroups.scheduling.k8s.io"]
    assert [right.verb for right in groups] == ["list", "create", "patch", "delete"][:count]
    assert all(right.optional for right in groups)


def test_cluster_rights_are_to_read_only() -> None:
    found = rights.list_served(INSTALLED)
    cluster_wide = {str(right) for right in found if right.extra == rights.CLUSTER}
    assert {right.partition(" ")[0] for right in cluster_wide} == {"list"}
    assert {"list nodes", "list clusterqueues.kueue.x-k8s.io"} < cluster_wide
