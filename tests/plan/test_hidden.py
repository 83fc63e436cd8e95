"""Which Secrets a task's variables and files come from."""

from dataclasses import replace

import pytest

from kubectl_sky.errors import UserError
from kubectl_sky.plan import hidden
from kubectl_sky.plan.hidden import SecretVariable
from kubectl_sky.secret import Secret
from kubectl_sky.spec.secret import KeptSecret
from tests.plan.test_resolve import FACTS, make_plan, make_task

TASK = replace(
    make_task(),
    envs={"HF_TOKEN": "plain", "A": "1"},
    secrets={"OWN": Secret("s3cr3t")},
    kept_secrets=(KeptSecret("HF_TOKEN"), KeptSecret("OWN"), KeptSecret("id", "~/.ssh/id")),
)


def test_variables_and_files() -> None:
    plan = make_plan(TASK)
    assert set(plan.secret_variables) == {
        SecretVariable("HF_TOKEN", "hf-token", "HF_TOKEN"),
        SecretVariable("OWN", "train-bcdf2345", "OWN"),
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


def test_the_key_is_the_name_or_the_only_one() -> None:
    facts = replace(FACTS, secret_keys={"hf-token": ("x",), "own": ("a", "b"), "id": ("id", "a")})
    plan = make_plan(replace(TASK, kept_secrets=TASK.kept_secrets[::2]), facts)
    assert SecretVariable("HF_TOKEN", "hf-token", "x") in plan.secret_variables
    assert plan.storage.mounts[0].sub_path == "id"
    with pytest.raises(UserError, match=r'secrets\.OWN: Secret "own" has no key "OWN"; its'):
        make_plan(TASK, facts)


def test_what_is_missing_says_how_it_is_made() -> None:
    assert list(hidden.missing(TASK, FACTS)) == [], "nobody has asked"
    told = list(hidden.missing(TASK, replace(FACTS, secret_keys={"id": ()})))
    assert told[0] == (
        'secrets.HF_TOKEN: Secret "hf-token" not found in namespace "team-a"; to create it, run'
        ' "kubectl create secret generic hf-token --namespace team-a --from-file=HF_TOKEN=FILE"'
    )
    assert len(told) == 2
