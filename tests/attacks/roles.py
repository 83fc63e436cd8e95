"""The program as a user with the Role of `doctor --role`, and no other rights."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubectl_sky.observe.rights import Right
from tests.e2e.command import PROGRAM, Command, Done, InProcess
from tests.polling import eventually

Json = dict[str, Any]


@pytest.fixture
def alice(environment: dict[str, str], tmp_path: Path) -> Iterator[Command]:
    """The program as the user alice, who has no rights until a Role grants them."""
    config = yaml.safe_load(Path(environment["KUBECONFIG"]).read_text())
    config["current-context"] = "alice"
    kubeconfig = tmp_path / "kubeconfig-of-alice"
    kubeconfig.write_text(json.dumps(config))
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "hello").write_text("hello\n")
    (tmp_path / "big").write_bytes(os.urandom(4_000_000))
    (tmp_path / "key.pub").write_text("ssh-ed25519 AAAA\n")
    (tmp_path / "larger.yaml").write_text("{name: data, type: k8s-pvc, size: 2Gi}\n")
    command = InProcess(PROGRAM, environment | {"KUBECONFIG": str(kubeconfig)}, tmp_path)
    yield command
    command.end()


def printed_role(alice: Command, *flags: str) -> list[Json]:
    """Return the objects that `doctor --role` prints."""
    items: list[Json] = alice.json("doctor", "--role", *flags)["items"]
    return items


def grant(kubectl: Command, items: list[Json]) -> None:
    done = kubectl("apply", "-f", "-", stdin=json.dumps(make_list(items)))
    assert done.returncode == 0, done.stderr


def make_list(items: list[Json]) -> Json:
    return {"apiVersion": "v1", "kind": "List", "items": items}


def without(items: list[Json], *lost: Right) -> list[Json]:
    """Return the Role and its binding without some rights."""
    role, binding = items
    rules = [
        {"apiGroups": rule["apiGroups"], "resources": [resource], "verbs": [verb]}
        for rule in role["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        if not any(
            [right.kind.group] == rule["apiGroups"]
            and (right.resource, right.verb) == (resource, verb)
            for right in lost
        )
    ]
    return [role | {"rules": rules}, binding]


def missing_rights(alice: Command) -> list[Json]:
    rows: list[Json] = json.loads(alice("doctor", "-o", "json").stdout)["missing_rights"]
    return rows


@pytest.fixture
def role(alice: Command, kubectl: Command) -> list[Json]:
    """The Role and its binding, granted to alice."""
    items = printed_role(alice)
    assert [item["kind"] for item in items] == ["Role", "RoleBinding"]
    grant(kubectl, items)
    eventually(lambda: all(row["optional"] for row in missing_rights(alice)))
    return items


def assert_allowed(done: Done, *codes: int) -> Done:
    text = f"{done.args[3:]}: {done.stdout}\n{done.stderr}"
    assert done.returncode in (codes or (0,)), text
    assert "may not" not in done.stderr.replace("you may not", ""), text
    assert "Traceback" not in done.stderr, text
    return done
