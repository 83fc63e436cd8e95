"""The table of what each account may do: of the templates, and as a real API server lists it."""

import json
import os
import re
from collections.abc import Iterable
from typing import Any

import pytest
import yaml

from kubectl_sky.install import action
from kubectl_sky.install.model import Flags, controllers_install
from kubectl_sky.observe import rights
from kubectl_sky.words.names import CONTROLLERS, CONTROLLERS_NAMESPACE, SERVER
from tests.e2e.command import ROOT, Command

PAGE = ROOT / "docs" / "administrators.md"
TABLE = re.compile(r"(?<=<!-- made by UPDATE_GOLDEN=1 -->\n\n).*?(?=\n<!-- end -->)", re.DOTALL)
HEAD = "| account | in | may | what |\n|---|---|---|---|\n"
KINDS = ("Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding", "Namespace", "ServiceAccount")

Json = dict[str, Any]


def objects() -> list[Json]:
    """Return the namespace, accounts and roles of all controllers."""
    items = action.controllers(controllers_install(Flags(), tuple(CONTROLLERS)))
    return [item.object for item in items if item.object["kind"] in KINDS]


def granted() -> dict[str, list[tuple[str, list[Json]]]]:
    """Return where the roles of each account hold, and their rules, from the templates."""
    result: dict[str, list[tuple[str, list[Json]]]] = {f"server: `{SERVER}`": []}
    for controller, name in CONTROLLERS.items():
        result[f"controller {controller}: `{name}`"] = [
            (where(item), item["rules"])
            for item in objects()
            if item["kind"] in ("Role", "ClusterRole") and item["metadata"]["name"] == name
        ]
    user = rights.rules(rights.namespaced(rights.served(())))
    return {
        **result,
        "pods of tasks: `default`": [],
        "a user of `users add`": [("their namespace", user)],
    }


def where(role: Json) -> str:
    namespace = role["metadata"].get("namespace")
    return f"`{namespace}`" if namespace else "all namespaces"


def rows() -> Iterable[str]:
    for account, roles in granted().items():
        first = account
        for place, rules in roles or [("", [])]:
            merged: dict[str, list[str]] = {}
            for rule in rules:
                verbs = ", ".join(sorted(rule["verbs"]))
                merged.setdefault(verbs, []).extend(resources(rule))
            for verbs, names in (merged or {"nothing": []}).items():
                yield f"| {first} | {place} | {verbs} | {', '.join(names)} |"
                first = place = ""


def resources(rule: Json) -> Iterable[str]:
    (group,) = rule["apiGroups"]
    names = rule.get("resourceNames")
    for resource in rule["resources"]:
        kind, _, sub = resource.partition("/")
        text = f"`{kind}{group and '.'}{group}{sub and '/'}{sub}`"
        yield f"{text} named `{names[0]}`" if names else text


def test_docs_rights_of_accounts_are_those_of_templates() -> None:
    """`UPDATE_GOLDEN=1` writes the table."""
    text = PAGE.read_text()
    written = TABLE.sub(lambda _: HEAD + "\n".join(rows()) + "\n", text)
    if os.environ.get("UPDATE_GOLDEN"):
        PAGE.write_text(written)
    else:
        assert TABLE.search(text) and written == text, "run it with UPDATE_GOLDEN=1"


def flat(rules: Iterable[Json]) -> set[tuple[str, str, str, str]]:
    """Return the group, resource, verb and name of each right."""
    return {
        (group, resource, verb, name)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames") or [""]
    }


def listed(kubectl: Command, account: str, namespace: str) -> set[tuple[str, str, str, str]]:
    """Return the rights of a ServiceAccount, as `kubectl auth can-i --list` asks for them."""
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": namespace},
    }
    flags = ("-f", "-", "-o", "json", "--validate=false", f"--as=system:serviceaccount:{account}")
    groups = [f"--as-group=system:{name}" for name in ("authenticated", "serviceaccounts")]
    done = kubectl("create", *flags, *groups, stdin=json.dumps(review))
    assert done.returncode == 0, done.stderr
    return flat(json.loads(done.stdout)["status"]["resourceRules"])


@pytest.mark.parametrize(
    "cluster", [pytest.param("real", marks=pytest.mark.cluster)], indirect=True
)
def test_cluster_lists_rights_of_accounts_like_templates(
    sky: Command, kubectl: Command, namespace: str
) -> None:
    text = yaml.safe_dump_all(objects())
    assert kubectl("apply", "-f", "-", stdin=text).returncode == 0
    added = sky("users", "add", "ci", "--service-account", "--namespace", namespace)
    assert added.returncode == 0, added.stderr
    expected = granted()
    try:
        home = CONTROLLERS_NAMESPACE
        everyone = {place: listed(kubectl, "x:nobody", place) for place in (home, namespace)}
        for controller, name in CONTROLLERS.items():
            roles = expected[f"controller {controller}: `{name}`"]
            rules = flat(rule for _, rules in roles for rule in rules)
            assert listed(kubectl, f"{home}:{name}", home) == rules | everyone[home]
            rules = flat(rule for place, rules in roles if place[0] != "`" for rule in rules)
            assert listed(kubectl, f"{home}:{name}", namespace) == rules | everyone[namespace]
        assert listed(kubectl, f"{home}:{SERVER}", home) == everyone[home]
        assert listed(kubectl, f"{namespace}:default", namespace) == everyone[namespace]
        ((_, user),) = expected["a user of `users add`"]
        rules = flat(user)
        more = listed(kubectl, f"{namespace}:ci", namespace) - everyone[namespace] - rules
        assert rules <= listed(kubectl, f"{namespace}:ci", namespace)
        # Those on kinds of the add-ons that the cluster has.
        assert not {group for group, *_ in more} & {"", "apps", "batch"}
    finally:
        kinds = [item for item in objects() if item["kind"] != "Namespace"]
        kubectl("delete", "-f", "-", "--ignore-not-found", stdin=yaml.safe_dump_all(kinds))
