"""The manifests of `controllers install`: least rights, restricted pods, and valid names."""

from typing import Any

import pytest

from kubectl_sky.errors import UserError
from kubectl_sky.words.names import CONTROLLERS
from kubectl_sky.workloads import registry
from kubectl_sky_server.install import action
from kubectl_sky_server.install.model import Flags, controllers_install

Json = dict[str, Any]


def rendered(
    namespace: str | None = None,
    controllers: tuple[str, ...] = tuple(CONTROLLERS),
    image: str | None = None,
    served: str | None = None,
    replicas: int = 1,
) -> list[Json]:
    installs = controllers_install(
        Flags(namespace, image), controllers, served=served, replicas=replicas
    )
    return [item.object for item in action.controllers(installs)]


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
    assert items[0]["metadata"]["name"] == "kubectl-sky"
    assert binding["subjects"] == [
        {"kind": "ServiceAccount", "name": account["metadata"]["name"], "namespace": "kubectl-sky"}
    ]


def test_controllers_install_pods_are_restricted() -> None:
    for deployment in of_kind(rendered(), "Deployment"):
        spec = deployment["spec"]["template"]["spec"]
        (container,) = spec["containers"]
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }


@pytest.mark.parametrize("namespace", [None, "team-a"])
def test_controllers_install_each_controller_has_account_with_its_rights_only(
    namespace: str | None,
) -> None:
    items = rendered(namespace)
    roles = {
        (role["kind"], role["metadata"]["name"]): role["rules"]
        for role in of_kind(items, "Role", "ClusterRole")
    }
    granted: dict[str, set[str]] = {}
    for binding in of_kind(items, "RoleBinding", "ClusterRoleBinding"):
        (subject,) = binding["subjects"]
        for rule in roles[binding["roleRef"]["kind"], binding["roleRef"]["name"]]:
            granted.setdefault(subject["name"], set()).update(rule["resources"])
    controllers = [name for name in CONTROLLERS if not (namespace and name == "fairshare")]
    accounts = [f"kubectl-sky-controller-{name}" for name in controllers]
    assert sorted(granted) == sorted([*accounts, "system:authenticated"])
    assert [item["metadata"]["name"] for item in of_kind(items, "ServiceAccount")] == accounts

    for controller, deployment in zip(controllers, of_kind(items, "Deployment"), strict=True):
        spec = deployment["spec"]["template"]["spec"]
        arguments = spec["containers"][0]["args"]
        assert arguments[arguments.index("--only") + 1] == controller
        rights = granted[spec["serviceAccountName"]]
        assert ("secrets" in rights) == (controller == "ray")
        assert ("jobs" in rights) == (controller == "tasks")
        assert ("priorityclasses" in rights) == (controller == "fairshare")


def test_controllers_install_pods_accept_no_connections() -> None:
    items = rendered()
    policies = of_kind(items, "NetworkPolicy")
    deployments = of_kind(items, "Deployment")
    for policy, deployment in zip(policies, deployments, strict=True):
        selector = policy["spec"]["podSelector"]["matchLabels"]
        labels = deployment["spec"]["template"]["metadata"]["labels"]
        assert selector.items() <= labels.items()
        assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]
        assert policy["spec"]["ingress"] == []
        is_ray = policy["metadata"]["name"].endswith("-ray")
        assert ({} in policy["spec"]["egress"]) == is_ray, "graphs are anywhere"
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        assert container["args"][-4:] == ["--health-host", "$(POD_IP)", "--health-port", "8080"]


def test_controllers_install_for_other_namespace_leaves_tenants_nothing_but_rights() -> None:
    items = rendered("admins", ("ray",), served="team-a")
    kinds = {item["kind"] for item in items if item["metadata"].get("namespace") == "team-a"}
    assert kinds == {"Role", "RoleBinding"}
    (binding,) = of_kind(items, "RoleBinding")
    assert [subject["namespace"] for subject in binding["subjects"]] == ["admins"]
    (deployment,) = of_kind(items, "Deployment")
    assert deployment["metadata"]["namespace"] == "admins"
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["args"][:4] == ["controllers", "run", "-n", "team-a"]
    with pytest.raises(UserError, match="--for requires -n"):
        rendered(served="team-a")


def test_controllers_install_standbys_have_disruption_budget_of_one() -> None:
    assert not of_kind(rendered(), "PodDisruptionBudget"), "it would stop each drain"
    items = rendered(replicas=2)
    budgets = of_kind(items, "PodDisruptionBudget")
    deployments = of_kind(items, "Deployment")
    for budget, deployment in zip(budgets, deployments, strict=True):
        assert deployment["spec"]["replicas"] == 2
        selector = deployment["spec"]["selector"]
        assert budget["spec"] == {"maxUnavailable": 1, "selector": selector}


def test_controllers_install_fairshare_in_namespace_is_refused() -> None:
    with pytest.raises(UserError, match="all namespaces"):
        rendered("team-a", ("fairshare",))


def test_controllers_install_image_by_digest_is_kept() -> None:
    image = f"registry.example.com:5000/sky@sha256:{'0' * 64}"
    (deployment,) = of_kind(rendered(None, ("tasks",), image), "Deployment")
    assert deployment["spec"]["template"]["spec"]["containers"][0]["image"] == image


@pytest.mark.parametrize(
    ("namespace", "image"),
    [
        ("A b", None),
        ("x\n", None),
        (None, "--flag"),
        (None, "sky@sha256:abc"),
        (None, f"sky@md5:{'0' * 32}"),
    ],
)
def test_controllers_install_invalid_value_is_refused(
    namespace: str | None, image: str | None
) -> None:
    with pytest.raises(UserError, match="is not a valid"):
        controllers_install(Flags(namespace, image), tuple(CONTROLLERS))


def test_controllers_install_fairshare_has_rights_on_classes_and_journal_only() -> None:
    items = rendered(None, ("fairshare",))
    (cluster_role,) = of_kind(items, "ClusterRole")
    (role,) = of_kind(items, "Role")
    cluster_rights = {tuple(rule["resources"]): rule["verbs"] for rule in cluster_role["rules"]}
    assert cluster_rights[("podgroups",)] == ["list", "watch"]
    assert cluster_rights[("events",)] == ["create"]
    assert "delete" in cluster_rights[("priorityclasses",)]
    assert ("configmaps",) not in cluster_rights
    assert [rule["verbs"] for rule in role["rules"] if rule["resources"] == ["configmaps"]] == [
        ["get", "list", "create", "delete"]
    ]
