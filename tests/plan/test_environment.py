"""Secrets as variables and files of a task."""

from dataclasses import replace

import pytest

from kubectl_sky.errors import UserError
from kubectl_sky.plan import environment
from kubectl_sky.plan.environment import SecretEnvVar
from kubectl_sky.spec.secret import SecretReference
from kubectl_sky.words.secret import Secret
from tests.plan.test_resolve import FACTS, make_plan, make_task

TASK = replace(
    make_task(),
    envs={"HF_TOKEN": "plain", "A": "1"},
    secrets={"OWN": Secret("s3cr3t")},
    existing_secrets=(
        SecretReference("HF_TOKEN"),
        SecretReference("OWN"),
        SecretReference("id", "~/.ssh/id"),
    ),
)


def test_secret_references_become_variables_and_files() -> None:
    plan = make_plan(TASK)
    assert set(plan.secret_env) == {
        SecretEnvVar("HF_TOKEN", "hf-token", "HF_TOKEN"),
        SecretEnvVar("OWN", "train-bcdf2345", "OWN"),
    }
    assert "HF_TOKEN" not in plan.env, "the secret wins"
    assert plan.storage.secrets == {"secret-0": "id"}
    (mount,) = plan.storage.mounts
    assert (mount.path, mount.sub_path, mount.read_only) == (
        "/kubectl-sky/home/secret-0",
        "id",
        True,
    )
    assert plan.env["KUBECTL_SKY_LINKS"] == "/kubectl-sky/home/secret-0 .ssh/id"
    assert plan.storage.group is None


def test_secret_key_is_name_or_only_key() -> None:
    facts = replace(FACTS, secret_keys={"hf-token": ("x",), "own": ("a", "b"), "id": ("id", "a")})
    plan = make_plan(replace(TASK, existing_secrets=TASK.existing_secrets[::2]), facts)
    assert SecretEnvVar("HF_TOKEN", "hf-token", "x") in plan.secret_env
    assert plan.storage.mounts[0].sub_path == "id"
    with pytest.raises(UserError, match=r'secrets\.OWN: Secret "own" has no key "OWN"; its'):
        make_plan(TASK, facts)


def test_secret_missing_is_reported_with_create_command() -> None:
    assert list(environment.missing_secrets(TASK, FACTS)) == [], "nobody has asked"
    told = list(environment.missing_secrets(TASK, replace(FACTS, secret_keys={"id": ()})))
    assert told[0] == (
        'secrets.HF_TOKEN: Secret "hf-token" not found in namespace "team-a"; to create it, run'
        ' "kubectl create secret generic hf-token --namespace team-a --from-file=HF_TOKEN=FILE"'
    )
    assert len(told) == 2
