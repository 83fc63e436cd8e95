"""The code cache volume: large files are uploaded once, for all nodes and later tasks."""

import hashlib
import os
from pathlib import Path

import pytest

from tests.e2e.code_volume import TASK, code, create_shared_volume, printed_hashes
from tests.e2e.command import Command
from tests.e2e.support import create_volume, write_settings

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


@pytest.mark.practice_only
@pytest.mark.usefixtures("code")
def test_render_small_workdir_mounts_no_code_volume(sky: Command, tmp_path: Path) -> None:
    write_settings(tmp_path, "code_volume: code\n")
    (tmp_path / "code" / "data").write_text("small\n")
    assert "/kubectl-sky/code-cache" not in sky("render", "-", stdin=TASK).stdout


@pytest.mark.practice_only
@pytest.mark.usefixtures("code")
def test_submit_unsuitable_code_volume_is_warned_and_files_are_streamed(
    sky: Command, kubectl: Command, tmp_path: Path
) -> None:
    write_settings(tmp_path, f"code_volume: {create_volume(sky, 'single')}\n")
    done = sky("submit", "-", "--id", "shelf003", stdin=TASK)
    assert done.returncode == 0, done.stderr
    assert 'settings: code_volume "single" is not used: it is ReadWriteOnce' in done.stderr
    assert "sent directly to the pods" in done.stderr
    (pod, *_) = kubectl.json("get", "pods", "-l", "task-id=shelf003")["items"]
    assert not [item for item in pod["spec"]["volumes"] if "persistentVolumeClaim" in item]
    write_settings(tmp_path, "code_volume: nowhere\n")
    output = sky("submit", "-", "--dry-run=server", stdin=TASK).stderr
    assert '"nowhere" is not used: not found' in output
    shown = sky("render", "-", stdin=TASK).stdout
    assert "mountPath: /kubectl-sky/code-cache" in shown and "claimName: nowhere" in shown


@pytest.mark.usefixtures("code")
def test_code_volume_as_non_root_user_is_shared(sky: Command, tmp_path: Path) -> None:
    create_shared_volume(sky, tmp_path)
    pod = "{securityContext: {runAsUser: 1000, runAsNonRoot: true}}"
    config = f"config: {{kubernetes: {{pod_config: {{spec: {pod}}}}}}}\n"
    for text in (TASK + config, TASK, TASK + config.replace("1000", "1234")):
        done = sky("submit", "-", stdin=text)
        assert done.returncode == 0, done.stderr
        assert len(set(printed_hashes(done.stdout))) == 1
