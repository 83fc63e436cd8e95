"""Secrets: sources of the values, and that the values appear only in Secrets."""

import base64
import json
from pathlib import Path

import pytest

from tests.e2e.command import Command, submitted

VALUE = "s3cr3t:\"'$(x)\\#é"
TASK = """
name: hidden
secrets: {TOKEN: null, OTHER: null}
run: echo "${#TOKEN} ${#OTHER}"; sleep 2
"""
KEPT = """
name: kept
secrets: ['secrets:HF_TOKEN', 'secrets:workspace.ONE']
managed_secrets:
  - NAMED
  - key.pem: {mount_path: ~/.keys/key.pem}
  - key.pem: {mount_path: /opt/key.pem}
resources: {image_id: "busybox:1.36"}
run: |
  test "$HF_TOKEN-$ONE-$NAMED" = "a b-1-2" && cat ~/.keys/key.pem /opt/key.pem
"""


def forms(value: str) -> tuple[str, str]:
    return value, base64.b64encode(value.encode()).decode()


def create_secret(kubectl: Command, name: str, **keys: str) -> None:
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": keys}
    done = kubectl("create", "-f", "-", stdin=json.dumps(body))
    assert done.returncode == 0, done.stderr


@pytest.mark.practice_only
def test_submit_secret_values_appear_only_in_secret(
    sky: Command, kubectl: Command, tmp_path: Path
) -> None:
    quoted = VALUE.replace("\\", "\\\\").replace('"', '\\"')
    sky.write("secrets.env", f'# mine\nTOKEN="{quoted}"\nexport OTHER={VALUE[:6]}\n')
    file = ("--secret-file", "secrets.env")
    printed = []
    for command in (
        ("render", "-", *file),
        ("render", "-", *file, "-o", "json"),
        ("submit", "-", *file, "--dry-run=client", "-o", "yaml"),
        ("submit", "-", *file, "--dry-run=server", "-o", "json"),
    ):
        done = sky(*command, stdin=TASK)
        assert done.returncode == 0, done.stderr
        assert "REDACTED" in done.stdout or "UkVEQUNURUQ=" in done.stdout
        printed.append(done.stdout + done.stderr)
    running = sky.start("submit", sky.write("t.yaml", TASK), *file)
    assert VALUE.encode() not in Path(f"/proc/{running.pid}/cmdline").read_bytes()
    out, errors = running.communicate(timeout=120)
    assert running.returncode == 0, errors
    assert out.splitlines()[1] == f"{len(VALUE.encode())} 6"
    printed += [out, errors]
    others = "jobs,pods,configmaps,services,events,pvc"
    printed.append(kubectl("get", others, "-o", "yaml", "--show-managed-fields").stdout)
    secret = json.loads(kubectl("get", "secrets", "-o", "json").stdout)["items"][0]
    assert secret["data"]["TOKEN"] == forms(VALUE)[1]
    printed.append(json.dumps(secret["metadata"]))
    task = out.split()[0]
    printed.append(sky("status", task, "-o", "yaml").stdout)
    again = ("--id", task[5:], "--secret", "TOKEN=x", "--secret", "OTHER=y")
    changed = sky("submit", "t.yaml", *again)
    assert changed.returncode == 2
    assert "data.TOKEN" in changed.stderr
    printed.append(changed.stdout + changed.stderr)
    for text in printed:
        for form in (*forms(VALUE), *forms(VALUE[:6]), json.dumps(VALUE)[1:-1]):
            assert form not in text


@pytest.mark.practice_only
def test_submit_managed_secrets_are_mounted_and_missing_ones_refused(
    sky: Command, kubectl: Command
) -> None:
    create_secret(kubectl, "hf-token", HF_TOKEN="a b", other="x")
    create_secret(kubectl, "one", only="1")
    missing = sky("submit", "-", stdin=KEPT)
    assert (missing.returncode, missing.stdout) == (2, "")
    assert 'managed_secrets.NAMED: Secret "named" not found in namespace' in missing.stderr
    assert "kubectl create secret generic key.pem --namespace" in missing.stderr
    assert "no Secret 'hf-token'" not in missing.stderr
    create_secret(kubectl, "named", NAMED="2", b="3")
    create_secret(kubectl, "key.pem", **{"key.pem": "pem\n"})
    done = sky("submit", "-", stdin=KEPT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[1:] == ["pem", "pem"]
    task = submitted(done)
    assert kubectl.json("get", "secrets", "-l", f"task-id={task}")["items"] == []
    both = sky("submit", "-", "--secret", "HF_TOKEN=a b", "--secret", "MINE=m", stdin=KEPT)
    assert both.returncode == 0, both.stdout + both.stderr


@pytest.mark.practice_only
def test_submit_managed_secret_without_key_is_refused(sky: Command, kubectl: Command) -> None:
    create_secret(kubectl, "token", a="s3cr3t", b="s3cr3t")
    done = sky("submit", "-", stdin="secrets: ['secrets:TOKEN']\nrun: x\n")
    assert done.returncode == 2
    assert 'secrets.TOKEN: Secret "token" has no key "TOKEN"; its keys: a, b' in done.stderr
    assert "s3cr3t" not in done.stderr
