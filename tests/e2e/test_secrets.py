"""Secrets in pods: values with special characters, and Secrets that exist before the task."""

import hashlib
import json

import pytest

from tests.e2e.command import Command

VALUE = "s3cr3t:\"'$(x)\\#é"
KEPT = """
name: kept
secrets: ['secrets:HF_TOKEN', 'secrets:workspace.ONE', TOKEN]
managed_secrets:
  - NAMED
  - key.pem: {mount_path: ~/.keys/key.pem}
  - key.pem: {mount_path: /opt/key.pem}
resources: {image_id: "busybox:1.36"}
run: |
  test "$HF_TOKEN-$ONE-$NAMED" = "a b-1-2" && cat ~/.keys/key.pem /opt/key.pem
  printf %s "$TOKEN" | sha256sum
"""


def create_secret(kubectl: Command, name: str, **keys: str) -> None:
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": keys}
    done = kubectl("create", "-f", "-", stdin=json.dumps(body))
    assert done.returncode == 0, done.stderr


@pytest.mark.practice_only
def test_submit_secrets_reach_program_and_files(sky: Command, kubectl: Command) -> None:
    create_secret(kubectl, "hf-token", HF_TOKEN="a b", other="x")
    create_secret(kubectl, "one", only="1")
    create_secret(kubectl, "named", NAMED="2", b="3")
    create_secret(kubectl, "key.pem", **{"key.pem": "pem\n"})
    quoted = VALUE.replace("\\", "\\\\").replace('"', '\\"')
    file = sky.write("secrets.env", f'# mine\nTOKEN="{quoted}"\n')
    done = sky("submit", "-", "--secret-file", file, stdin=KEPT)
    assert done.returncode == 0, done.stdout + done.stderr
    expected = f"{hashlib.sha256(VALUE.encode()).hexdigest()}  -"
    assert done.stdout.splitlines()[1:] == ["pem", "pem", expected]
