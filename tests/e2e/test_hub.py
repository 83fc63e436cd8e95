"""Hugging Face models, datasets and buckets are copied before the task, from a Hub in a pod."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import hub
from tests.e2e.command import Command, submitted
from tests.e2e.support import until_output

COPY = f"""
num_nodes: 2
envs: {{HF_ENDPOINT: "%s"}}
secrets: {{HF_TOKEN: {hub.TOKEN}}}
file_mounts:
  ~/llm: hf://org/model
  /data: {{source: "hf://datasets/org/private@v%%201/part", mode: COPY}}
  box.txt: hf://buckets/me/box/logs/a
run: |
  sha256sum < ~/llm/model.safetensors
  cat "$HOME/llm/onnx/deep/a b#?.txt" /data/6.txt ~/sky_workdir/box.txt
  test -z "$HF_TOKEN" || echo more > /data/mine
"""


@pytest.fixture
def address(kubectl: Command) -> Iterator[str]:
    """Start a Hub; return its address."""
    code = Path(hub.__file__).read_text(encoding="utf-8")
    container = {
        "name": "hub",
        "image": "python:3.13-slim",
        "command": ["python3", "-c", code, "$(POD_IP)"],
        "env": [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
    }

    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "hub"},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 1},
    }
    assert kubectl("create", "-f", "-", stdin=json.dumps(pod)).returncode == 0
    yield until_output(kubectl, "logs", "hub").strip()
    kubectl("delete", "pod", "hub", "--wait=false")


@pytest.mark.practice_only
def test_submit_hugging_face_mounts_are_copied_with_token_of_task(
    sky: Command, kubectl: Command, address: str
) -> None:
    done = sky("submit", "-", "--id", "hub00001", stdin=COPY % address)
    assert done.returncode == 0, done.stdout + done.stderr
    expected = [hashlib.sha256(hub.LARGE).hexdigest() + "  -", "odd", "6", "in a bucket"]
    for rank in range(2):
        prefix = f"node-{rank} | "
        lines = [printed for printed in done.stdout.splitlines() if printed.startswith(prefix)]
        assert [line.removeprefix(prefix) for line in lines] == expected
    task = ("-l", "task-id=hub00001", "-o", "yaml")
    assert hub.TOKEN not in kubectl("get", "jobs,pods,configmaps", *task).stdout
    refused = sky("submit", "-", stdin=COPY.replace(hub.TOKEN, "hf_other") % address)
    assert refused.returncode == 4
    status = json.dumps(sky.json("status", submitted(refused)))
    assert "hf://datasets/org/private@v%201/part could not be copied: Repository not" in status
