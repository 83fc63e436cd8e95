"""Secrets as variables and files of a task."""

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kubectl_sky.errors import UserError
from kubectl_sky.plan import environment
from kubectl_sky.plan.environment import RegistryLogin, SecretEnvVar
from kubectl_sky.render import manifests
from kubectl_sky.spec.task import task_of
from kubectl_sky.spec.variables import SecretReference
from kubectl_sky.words.secret import Secret, reveal
from tests.builders import FACTS, make_plan, make_task
from tests.spec.documents import make_document, problems

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


LOGIN = {
    "SKYPILOT_DOCKER_USERNAME": "alice",
    "SKYPILOT_DOCKER_PASSWORD": "s3cr3t$(A)",
    "SKYPILOT_DOCKER_SERVER": "ghcr.io",
}


@pytest.mark.parametrize("place", ["envs", "secrets"])
def test_registry_login_becomes_pull_secret(place: str) -> None:
    fields = {"name": "train", "resources": {"image_id": "team/app:1"}, place: LOGIN}
    plan = make_plan(task_of(make_document(**fields)))
    rendered = manifests.render(plan)
    secrets = {one.object["metadata"]["name"]: one.object for one in rendered.auxiliary[1:]}
    found = secrets["train-bcdf2345-registry"]
    assert found["type"] == "kubernetes.io/dockerconfigjson"

    config = json.loads(base64.b64decode(found["data"][".dockerconfigjson"]))
    auth = base64.b64encode(b"alice:s3cr3t$(A)").decode()
    expected = {"username": "alice", "password": "s3cr3t$(A)", "auth": auth}
    assert config == {"auths": {"ghcr.io": expected}}

    spec = rendered.workload[0].object["spec"]["template"]["spec"]
    assert spec["imagePullSecrets"] == [{"name": "train-bcdf2345-registry"}]
    assert spec["containers"][0]["image"] == "ghcr.io/team/app:1"
    assert "s3cr3t" not in rendered.workload[0].text, "the password is only in Secrets"

    env = {one["name"]: one for one in spec["containers"][0]["env"]}
    assert "secretKeyRef" in env["SKYPILOT_DOCKER_PASSWORD"]["valueFrom"], "set as in SkyPilot"


def test_registry_login_is_redacted() -> None:
    task = task_of(make_document(envs=LOGIN))
    plan = manifests.redact(make_plan(task))
    shown = manifests.as_yaml(manifests.render(plan).all)
    hidden = json.loads(reveal(plan.login.config) if plan.login else b"")
    assert hidden["auths"]["ghcr.io"]["password"] == "REDACTED"
    for text in ("s3cr3t$(A)", "alice", "alice:s3cr3t$(A)"):
        assert text not in shown.replace("alice@example.com", "").replace("alice-example.com", "")
        assert base64.b64encode(text.encode()).decode() not in shown
    assert "s3cr3t" not in repr(make_plan(task).login)


def test_registry_without_login_has_no_pull_secret() -> None:
    assert make_plan().login is None
    spec = manifests.render(make_plan()).workload[0].object["spec"]["template"]["spec"]
    assert "imagePullSecrets" not in spec


@pytest.mark.parametrize(
    ("image", "server", "pulled"),
    [
        ("app:1", "ghcr.io", "ghcr.io/app:1"),
        ("team/app", "https://ghcr.io/v2/", "ghcr.io/team/app"),
        ("app", "eu-docker.pkg.dev/project/repository", "eu-docker.pkg.dev/project/repository/app"),
        ("ghcr.io/team/app", "ghcr.io", "ghcr.io/team/app"),
        ("localhost:5000/app", "ghcr.io", "localhost:5000/app"),
        ("localhost/app", "ghcr.io", "localhost/app"),
        ("app:1", "registry.example.com:5000", "registry.example.com:5000/app:1"),
        ("team/app", "docker.io", "team/app"),
        ("team/app", "https://index.docker.io/v1/", "team/app"),
    ],
)
def test_registry_server_is_added_to_short_image_name(image: str, server: str, pulled: str) -> None:
    assert (
        environment.full_image(image, RegistryLogin("s", server, Secret("u"), Secret("p")))
        == pulled
    )
    assert environment.full_image(image, None) == image


@pytest.mark.parametrize("server", ["docker.io", "https://index.docker.io/v1/"])
def test_registry_docker_hub_uses_its_index_address(server: str) -> None:
    config = json.loads(reveal(RegistryLogin("s", server, Secret("u"), Secret("p")).config))
    assert list(config["auths"]) == ["https://index.docker.io/v1/"]


@given(st.text(), st.text(), st.text())
def test_registry_random_login_is_valid_json(server: str, username: str, password: str) -> None:
    login_of = RegistryLogin("s", server, Secret(username), Secret(password))
    config = json.loads(reveal(login_of.config))
    (login,) = config["auths"].values()
    assert (login["username"], login["password"]) == (username, password)


def test_registry_invalid_server_is_error() -> None:
    keys = ", ".join(f"{name}: x" for name in list(LOGIN)[:2])
    assert problems(f"run: x\nsecrets: {{{keys}, SKYPILOT_DOCKER_SERVER: 'a b'}}\n") == [
        "task.yaml:2:93: secrets.SKYPILOT_DOCKER_SERVER: expected a registry's address;"
        " such as ghcr.io or registry.example.com:5000"
    ]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/opt/bin:$PATH", f"/opt/bin:$PATH:{environment._SYSTEM_PATH}"),
        ("/opt/bin:/bin", "/opt/bin:/bin"),
    ],
)
def test_path_of_user_has_folders_of_system(path: str, expected: str) -> None:
    assert make_plan(replace(TASK, envs={"PATH": path})).env["PATH"] == expected
