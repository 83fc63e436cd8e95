"""The table of what each account may do is that of the templates."""

import os
import re
from collections.abc import Iterable
from typing import Any

from kubectl_sky.observe import rights
from kubectl_sky.words.names import CONTROLLERS, SERVER
from kubectl_sky_server.install import action
from kubectl_sky_server.install.model import Flags, controllers_install
from tests.e2e.command import ROOT

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
    user = rights.rules(rights.list_namespaced(rights.list_served({})))
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
