"""`api --uninstall` and `controllers uninstall`: all that was installed, and what it made."""

from typing import Any

import pytest
import yaml

from kubectl_sky.cli import main

KEPT = {"Namespace", "CustomResourceDefinition"}


def documents(capsys: pytest.CaptureFixture[str], *words: str) -> list[Any]:
    assert main.main(list(words)) == 0
    return list(yaml.safe_load_all(capsys.readouterr().out))


def identity(item: Any) -> tuple[str, str, str]:
    metadata = item["metadata"]
    return item["kind"], metadata.get("namespace", ""), metadata["name"]


@pytest.mark.parametrize(
    ("install", "uninstall", "made"),
    [
        (
            ("api", "--install", "-n", "sky"),
            ("api", "--uninstall", "-n", "sky"),
            {("Secret", "sky", "kubectl-sky-sessions")},
        ),
        (
            ("controllers", "install", "--only", "tasks", "--replicas", "2"),
            ("controllers", "uninstall", "--only", "tasks"),
            {("Lease", "kubectl-sky", "kubectl-sky-tasks-all")},
        ),
        (
            ("controllers", "install", "--only", "tasks,ray", "-n", "home", "--for", "team"),
            ("controllers", "uninstall", "--only", "tasks,ray", "-n", "home", "--for", "team"),
            {("Lease", "team", "kubectl-sky-tasks"), ("Lease", "team", "kubectl-sky-ray")},
        ),
    ],
)
def test_uninstall_lists_what_install_makes_and_the_programs_have_made(
    capsys: pytest.CaptureFixture[str],
    install: tuple[str, ...],
    uninstall: tuple[str, ...],
    made: set[tuple[str, str, str]],
) -> None:
    installed = {identity(item) for item in documents(capsys, *install)}
    (doomed,) = documents(capsys, *uninstall)
    named = {identity(item) for item in doomed["items"]}
    missing = {item for item in installed - named if item[0] not in KEPT}
    assert not missing
    assert made <= named
    assert {kind for kind, *_ in named} & KEPT == set()
    assert all(set(item) == {"apiVersion", "kind", "metadata"} for item in doomed["items"])
