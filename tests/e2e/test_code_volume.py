"""The code cache volume: large files are uploaded once, for all nodes and later tasks."""

import hashlib
import os
from pathlib import Path

import pytest

from tests.e2e.code_volume import TASK, code, create_shared_volume, printed_hashes
from tests.e2e.command import Command

__all__ = ["code"]


@pytest.mark.practice_only
def test_code_volume_files_are_uploaded_once_and_reused_by_later_task(
    sky: Command, kubectl: Command, tmp_path: Path, code: str
) -> None:
    create_shared_volume(sky, tmp_path)
    first = sky("submit", "-", "--id", "shelf001", stdin=TASK)
    assert first.returncode == 0, first.stderr
    assert "6.0 MB, sent once, to the volume code-" in first.stderr
    assert printed_hashes(first.stdout) == [code] * 3
    (tmp_path / "code" / "data").touch()  # only the time changes
    later = sky("submit", "-", "--id", "shelf002", "--detach", stdin=TASK)
    assert later.returncode == 0, later.stderr
    assert sky("wait", "shelf002").returncode == 0
    logs = sky("logs", "shelf002").stdout
    assert printed_hashes(logs) == [code] * 3
    assert "waiting for the upload" not in logs, "every node read the volume"
    other = os.urandom(6_000_000)
    (tmp_path / "code" / "data").write_bytes(other)
    changed = sky("submit", "-", stdin=TASK.replace("3", "1", 1))
    assert changed.returncode == 0, changed.stderr
    assert "sent once, to the volume" in changed.stderr
    assert printed_hashes(changed.stdout) == [hashlib.sha256(other).hexdigest()]
    claims = kubectl.json("get", "pods", "-l", "task-id=shelf002")["items"]
    mounts = claims[0]["spec"]["containers"][0]["volumeMounts"]
    assert [mount["name"] for mount in mounts if mount["mountPath"] == "/kubectl-sky/code-cache"]


@pytest.mark.parametrize(
    "cluster", [pytest.param("real", marks=pytest.mark.cluster)], indirect=True
)
@pytest.mark.usefixtures("code")
def test_code_volume_as_non_root_user_is_shared(sky: Command, tmp_path: Path) -> None:
    create_shared_volume(sky, tmp_path)
    pod = "{securityContext: {runAsUser: 1000, runAsNonRoot: true}}"
    config = f"config: {{kubernetes: {{pod_config: {{spec: {pod}}}}}}}\n"
    for text in (TASK + config, TASK, TASK + config.replace("1000", "1234")):
        done = sky("submit", "-", stdin=text)
        assert done.returncode == 0, done.stderr
        assert len(set(printed_hashes(done.stdout))) == 1
