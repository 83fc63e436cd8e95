"""The manifests of `controllers install`: least rights, restricted pods, and valid names."""

from typing import Any

import pytest

from kubectl_sky.errors import UserError
from kubectl_sky.plan.controllers_install import NAMES, controllers_install
from kubectl_sky.render import manifests
from kubectl_sky.workloads import registry

Json = dict[str, Any]


def rendered(namespace: str | None = None, controllers: tuple[str, ...] = NAMES) -> list[Json]:
    items = manifests.controllers(controllers_install(namespace, None, controllers))
    return [item.object for item in items]


def of_kind(items: list[Json], *kinds: str) -> list[Json]:
    return [item for item in items if item["kind"] in kinds]


@pytest.mark.parametrize("namespace", [None, "team-a"])
def test_controllers_install_has_no_wildcards_secrets_or_right_to_create_workloads(
    namespace: str | None,
) -> None:
    for role in of_kind(rendered(namespace, ("tasks",)), "Role", "ClusterRole"):
        for rule in role["rules"]:
            text = str(rule)
            assert "*" not in text and "secrets" not in text and "exec" not in text
            assert "create" not in rule["verbs"] or rule["resources"] == ["leases"]


def test_controllers_install_tasks_may_lead_kinds_of_all_backends() -> None:
    granted = {
        (group, resource)
        for role in of_kind(rendered(None, ("tasks",)), "Role", "ClusterRole")
        for rule in role["rules"]
        if {"delete", "list", "patch", "watch"} <= set(rule["verbs"])
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    assert {(kind.group, kind.plural) for kind in registry.KINDS} <= granted


def test_controllers_install_in_namespace_has_no_cluster_wide_objects() -> None:
    items = rendered("team-a", ("tasks",))
    assert {item["metadata"]["namespace"] for item in items} == {"team-a"}
    (deployment,) = of_kind(items, "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["args"][:4] == ["controllers", "run", "-n", "team-a"]


def test_controllers_install_for_all_namespaces_binds_cluster_role_to_its_account() -> None:
    items = rendered(None, ("tasks",))
    assert [item["kind"] for item in items[:2]] == ["Namespace", "ServiceAccount"]
    (binding,) = of_kind(items, "ClusterRoleBinding")
    (account,) = of_kind(items, "ServiceAccount")
    assert binding["subjects"] == [
        {"kind": "ServiceAccount", "name": account["metadata"]["name"], "namespace": "kubectl-sky"}
    ]


def test_controllers_install_pods_are_restricted() -> None:
    (deployment,) = of_kind(rendered(), "Deployment")
    spec = deployment["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_controllers_install_only_chosen_controllers_get_rights() -> None:
    names = {item["metadata"]["name"] for item in of_kind(rendered(None, ("ray",)), "ClusterRole")}
    assert "kubectl-sky-controller-tasks" not in names


@pytest.mark.parametrize(("namespace", "image"), [("A b", None), ("x\n", None), (None, "--flag")])
def test_controllers_install_invalid_value_is_refused(
    namespace: str | None, image: str | None
) -> None:
    with pytest.raises(UserError, match="is not a valid"):
        controllers_install(namespace, image, NAMES)


def test_controllers_install_fairshare_has_rights_on_classes_and_journal_only() -> None:
    items = rendered(None, ("fairshare",))
    (cluster_role,), (role,) = of_kind(items, "ClusterRole"), of_kind(items, "Role")
    cluster_rights = {tuple(rule["resources"]): rule["verbs"] for rule in cluster_role["rules"]}
    assert cluster_rights[("podgroups",)] == ["list", "watch"]
    assert cluster_rights[("events",)] == ["create"]
    assert "delete" in cluster_rights[("priorityclasses",)]
    assert ("configmaps",) not in cluster_rights
    assert [rule["verbs"] for rule in role["rules"] if rule["resources"] == ["configmaps"]] == [
        ["get", "list", "create", "delete"]
    ]
