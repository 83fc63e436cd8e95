"""Secrets of tasks: their values appear in Secrets only, and missing ones are refused."""

import base64
import json
from pathlib import Path

import pytest

from kubectl_sky.words import kinds
from tests.actions.conftest import Run
from tests.builders import ID
from tests.fake_cluster import FakeCluster

VALUE = "s3cr3t:\"'$(x)\\#é"
TASK = "name: hidden\nsecrets: {TOKEN: null, OTHER: null}\nrun: echo $TOKEN\n"
MANAGED = """
name: kept
secrets: ['secrets:HF_TOKEN']
managed_secrets: [NAMED, key.pem: {mount_path: /opt/key.pem}]
run: 'true'
"""
REGISTRY = "name: private\nrun: 'true'\nresources: {image_id: registry.example.com/train:1}\n"


def forms(value: str) -> tuple[str, ...]:
    return value, base64.b64encode(value.encode()).decode(), json.dumps(value)[1:-1]


def test_secret_values_appear_only_in_the_secret(run: Run, api: FakeCluster) -> None:
    Path("task.yaml").write_text(TASK)
    quoted = VALUE.replace("\\", "\\\\").replace('"', '\\"')
    Path("secrets.env").write_text(f'# mine\nTOKEN="{quoted}"\nexport OTHER={VALUE[:6]}\n')
    words = ("task.yaml", "--id", ID, "--secret-file", "secrets.env")
    printed = []
    for command in (
        ("render", *words),
        ("render", *words, "-o", "json"),
        ("submit", *words, "--dry-run=client", "-o", "yaml"),
        ("submit", *words, "--dry-run=server", "-o", "json"),
        ("submit", *words, "--detach"),
        ("status", ID, "-o", "yaml"),
    ):
        code, out, err = run(*command)
        assert code == 0, err
        printed += [out, err]
        assert command[0] != "render" or "REDACTED" in out or "UkVEQUNURUQ=" in out
    secret = api.get(kinds.SECRET, f"hidden-{ID}")
    assert secret["data"]["TOKEN"] == forms(VALUE)[1]

    printed += [json.dumps(secret["metadata"])]
    printed += [json.dumps(item) for item in api.saved().values() if item["kind"] != "Secret"]
    changed = run("submit", "task.yaml", "--id", ID, "--secret", "TOKEN=x", "--secret", "OTHER=y")
    assert (changed[0], "data.TOKEN" in changed[2]) == (2, True)

    printed += changed[1:]
    for text in printed:
        for form in (*forms(VALUE), *forms(VALUE[:6])):
            assert form not in text


def put_secret(api: FakeCluster, name: str, *keys: str) -> None:
    data = {key: base64.b64encode(b"s3cr3t").decode() for key in keys}
    api.put({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": data})


def test_managed_secret_that_is_missing_or_lacks_its_key_is_refused(
    run: Run, api: FakeCluster
) -> None:
    Path("task.yaml").write_text(MANAGED)
    put_secret(api, "hf-token", "HF_TOKEN", "other")
    code, out, err = run("submit", "task.yaml")
    assert (code, out) == (2, "")
    assert 'managed_secrets.NAMED: Secret "named" not found in namespace' in err
    assert "kubectl create secret generic key.pem --namespace" in err
    assert 'Secret "hf-token" not found' not in err

    put_secret(api, "named", "NAMED")
    put_secret(api, "key.pem", "key.pem")
    put_secret(api, "hf-token", "a", "b")
    code, _, err = run("submit", "task.yaml")
    assert code == 2
    assert 'secrets.HF_TOKEN: Secret "hf-token" has no key "HF_TOKEN"; its keys: a, b' in err
    assert "s3cr3t" not in err

    put_secret(api, "hf-token", "HF_TOKEN")
    assert run("submit", "task.yaml", "--id", ID, "--detach")[0] == 0
    assert f"secrets kept-{ID}" not in api.names()


def test_login_of_registry_becomes_pull_secret_of_the_task(run: Run, api: FakeCluster) -> None:
    Path("task.yaml").write_text(REGISTRY)
    login = {"USERNAME": "alice", "PASSWORD": "s3cr3t", "SERVER": "registry.example.com"}
    flags = [f"--secret=SKYPILOT_DOCKER_{name}={value}" for name, value in login.items()]
    submit = ("submit", "task.yaml", "--id", ID, "--detach", *flags)
    code, out, err = run(*submit)
    assert (code, "s3cr3t" in out + err) == (0, False)

    name = f"private-{ID}-registry"
    pod = api.get(kinds.JOB, f"private-{ID}")["spec"]["template"]["spec"]
    assert pod["imagePullSecrets"] == [{"name": name}]

    secret = api.get(kinds.SECRET, name)
    assert secret["type"] == "kubernetes.io/dockerconfigjson"
    assert secret["metadata"]["ownerReferences"][0]["kind"] == "Job"
    assert f"task/{ID} unchanged" in run(*submit)[1]
    assert run("stop", ID)[0] == 0
    assert f"secrets {name}" not in api.names()


@pytest.mark.parametrize("flags", [(), ("--secret", "TOKEN=x")])
def test_secret_without_value_is_refused(
    run: Run, api: FakeCluster, flags: tuple[str, ...]
) -> None:
    Path("task.yaml").write_text(TASK)
    code, _, err = run("submit", "task.yaml", *flags)
    assert (code, "OTHER" in err, api.writes) == (2, True, [])
