"""The code cache volume: large files are uploaded once, for all nodes and later tasks."""

import hashlib
import os
import re
from pathlib import Path

import pytest

from tests.e2e.conftest import Command
from tests.e2e.test_mounts import settings
from tests.e2e.test_recovery import volume

TASK = """
workdir: code
num_nodes: 3
resources: {image_id: 'python:3.13-slim'}
run: sha256sum data | cut -c 1-64
"""


@pytest.fixture
def code(tmp_path: Path) -> str:
    """Create a folder with 6 MB of random data; return the hash of its file."""
    (tmp_path / "code").mkdir()
    data = os.urandom(6_000_000)
    (tmp_path / "code" / "data").write_bytes(data)
    return hashlib.sha256(data).hexdigest()


def hashes(output: str) -> list[str]:
    return re.findall(r"^(?:node-\d \| )?([0-9a-f]{64})$", output, re.MULTILINE)


def shared(sky: Command, folder: Path) -> None:
    """Create a ReadWriteMany volume and set it as code_volume."""
    made = sky("volumes", "create", "code", "1Gi", "--access-modes", "RWX")
    assert made.returncode == 0, made.stderr
    settings(folder, "code_volume: code\n")


def test_code_volume_files_are_uploaded_once_and_reused_by_later_task(
    sky: Command, kubectl: Command, tmp_path: Path, code: str
) -> None:
    shared(sky, tmp_path)
    first = sky("submit", "-", "--id", "shelf001", stdin=TASK)
    assert first.returncode == 0, first.stderr
    assert "6.0 MB, sent once, to the volume code-" in first.stderr
    assert hashes(first.stdout) == [code] * 3
    (tmp_path / "code" / "data").touch()  # only the time changes
    later = sky("submit", "-", "--id", "shelf002", "--detach", stdin=TASK)
    assert later.returncode == 0, later.stderr
    assert sky("wait", "shelf002").returncode == 0
    said = sky("logs", "shelf002").stdout
    assert hashes(said) == [code] * 3
    assert "waiting for the upload" not in said, "every node read the volume"
    other = os.urandom(6_000_000)
    (tmp_path / "code" / "data").write_bytes(other)
    changed = sky("submit", "-", stdin=TASK.replace("3", "1", 1))
    assert changed.returncode == 0, changed.stderr
    assert "sent once, to the volume" in changed.stderr
    assert hashes(changed.stdout) == [hashlib.sha256(other).hexdigest()]
    claims = kubectl.json("get", "pods", "-l", "task-id=shelf002")["items"]
    mounts = claims[0]["spec"]["containers"][0]["volumeMounts"]
    assert [one["name"] for one in mounts if one["mountPath"] == "/kubectl-sky/code-cache"]


@pytest.mark.practice_only
@pytest.mark.usefixtures("code")
def test_render_small_workdir_mounts_no_code_volume(sky: Command, tmp_path: Path) -> None:
    settings(tmp_path, "code_volume: code\n")
    (tmp_path / "code" / "data").write_text("small\n")
    assert "/kubectl-sky/code-cache" not in sky("render", "-", stdin=TASK).stdout


@pytest.mark.practice_only
@pytest.mark.usefixtures("code")
def test_submit_unsuitable_code_volume_is_warned_and_files_are_streamed(
    sky: Command, kubectl: Command, tmp_path: Path
) -> None:
    settings(tmp_path, f"code_volume: {volume(sky, 'single')}\n")
    done = sky("submit", "-", "--id", "shelf003", stdin=TASK)
    assert done.returncode == 0, done.stderr
    assert 'settings: code_volume "single" is not used: it is ReadWriteOnce' in done.stderr
    assert "sent directly to the pods" in done.stderr
    (pod, *_) = kubectl.json("get", "pods", "-l", "task-id=shelf003")["items"]
    assert not [one for one in pod["spec"]["volumes"] if "persistentVolumeClaim" in one]
    settings(tmp_path, "code_volume: nowhere\n")
    output = sky("submit", "-", "--dry-run=server", stdin=TASK).stderr
    assert '"nowhere" is not used: not found' in output
    shown = sky("render", "-", stdin=TASK).stdout
    assert "mountPath: /kubectl-sky/code-cache" in shown and "claimName: nowhere" in shown


@pytest.mark.usefixtures("code")
def test_code_volume_as_non_root_user_is_shared(sky: Command, tmp_path: Path) -> None:
    shared(sky, tmp_path)
    pod = "{securityContext: {runAsUser: 1000, runAsNonRoot: true}}"
    own = f"config: {{kubernetes: {{pod_config: {{spec: {pod}}}}}}}\n"
    for text in (TASK + own, TASK, TASK + own.replace("1000", "1234")):
        done = sky("submit", "-", stdin=text)
        assert done.returncode == 0, done.stderr
        assert len(set(hashes(done.stdout))) == 1
