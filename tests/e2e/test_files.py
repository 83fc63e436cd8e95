"""Local files reach every node unchanged, are uploaded once, and are deleted with the task."""

import json
import re
from pathlib import Path

import pytest

from tests.e2e.command import Command, submitted
from tests.e2e.local_files import expected_listing, file_config_maps, fill_folder
from tests.e2e.support import until_deleted
from tests.polling import eventually


def test_submit_workdir_is_identical_on_every_node_and_shared_by_tasks(
    sky: Command, kubectl: Command, tmp_path: Path
) -> None:
    fill_folder(tmp_path / "code")
    task = "name: code\nworkdir: code\nnum_nodes: 3\nrun: python3 seen.py\n"
    done = sky("submit", "-", stdin=task)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^files: 35, 60\.\d kB, sent in 1 ConfigMap$", done.stderr, re.MULTILINE)

    expected = expected_listing(tmp_path / "code")
    for rank in range(3):
        prefix = f"node-{rank} | "
        lines = [
            line.removeprefix(prefix)
            for line in done.stdout.splitlines()
            if line.startswith(prefix)
        ]
        assert lines == expected
    first = submitted(done)
    again = sky("submit", "-", "--num-nodes", "1", stdin=task)
    assert "sent in 1 ConfigMap (already exists)\n" in again.stderr

    (name,) = file_config_maps(kubectl)
    owners = kubectl.json("get", "configmap", name)["metadata"]["ownerReferences"]
    assert len(owners) == 2, "an owner per task"
    assert sky("stop", first).returncode == 0

    until_deleted(kubectl, first)
    assert file_config_maps(kubectl) == [name]
    assert sky("stop", submitted(again)).returncode == 0

    eventually(lambda: not file_config_maps(kubectl))


MOUNTS = """
file_mounts:
  /tmp/there/data: ./data
  ~/.config/tool.ini: tool.ini
  settings.json: other.json
  ~/.netrc: netrc
workdir: code
run: |
  pwd | grep -c '/sky_workdir$'
  cat main.py /tmp/there/data/deep/x ~/.config/tool.ini settings.json
  stat -c %a ~/.netrc
"""


@pytest.mark.practice_only
def test_submit_file_mounts_are_written_to_target_paths(
    sky: Command, kubectl: Command, tmp_path: Path
) -> None:
    for name, text in {
        "code/main.py": "main",
        "data/deep/x": "data",
        "tool.ini": "tool",
        "other.json": "{}",
        "netrc": "machine secret-host",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text + "\n")
    (tmp_path / "netrc").chmod(0o600)
    done = sky("submit", "-", "--id", "mounts01", stdin=MOUNTS)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[1:] == ["1", "main", "data", "tool", "{}", "600"]
    assert "sent in 1 ConfigMap and in a Secret" in done.stderr
    assert kubectl("get", "secret", "task-mounts01-files").returncode == 0

    shown = sky("render", "-", "--id", "mounts01", stdin=MOUNTS).stdout
    assert "UkVEQUNURUQ=" in shown


WORKING_DIR = "config: {kubernetes: {pod_config: {spec: {containers: [{workingDir: /usr}]}}}}\n"


@pytest.mark.parametrize(
    "setup", [pytest.param("", marks=pytest.mark.practice_only), "setup: basename $PWD\n"]
)
def test_submit_without_files_starts_in_sky_workdir(sky: Command, setup: str) -> None:
    run = "run: 'basename $PWD; cd -'\n"
    done = sky("submit", "-", stdin=setup + run + WORKING_DIR)
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines()[1:] if not line.startswith("kubectl-sky:")]
    assert lines == ["sky_workdir"] * (2 if setup else 1) + ["/usr"]


@pytest.mark.parametrize(
    "setup", [pytest.param("", marks=pytest.mark.practice_only), "setup: pwd\n"]
)
def test_submit_start_directory_of_image_starts_there(sky: Command, setup: str) -> None:
    assert sky("config", "set", "start_directory", "image").returncode == 0
    done = sky("submit", "-", stdin=f"{setup}run: pwd\n{WORKING_DIR}")
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines()[1:] if not line.startswith("kubectl-sky:")]
    assert lines == ["/usr"] * (2 if setup else 1)


LOCKED = """
workdir: code
file_mounts: {~/data/x: code/x}
config:
  kubernetes:
    pod_config:
      spec:
        securityContext: {runAsUser: 1000, runAsGroup: 1000, runAsNonRoot: true}
        containers:
          - securityContext: {readOnlyRootFilesystem: true, allowPrivilegeEscalation: false}
run: |
  id -u
  cat x ~/data/x
  echo more > new && cat new
"""


@pytest.mark.parametrize("image", ["busybox:1.36", "python:3.13-slim"])
def test_submit_workdir_as_non_root_on_read_only_root_is_writable(
    sky: Command, tmp_path: Path, image: str
) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "x").write_text("x\n")
    done = sky("submit", "-", "--image", image, stdin=LOCKED)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[1:] == ["1000", "x", "x", "more"]


def test_submit_file_mount_to_unwritable_path_fails_task(sky: Command, tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "x").write_text("x\n")
    (tmp_path / "code" / "x").write_text("x\n")
    done = sky("submit", "-", stdin=LOCKED.replace("~/data/x: code/x", "/data/x: code/x"))
    assert done.returncode == 4
    assert "the image's user cannot write to /data; use a path below ~/" in done.stdout
    status = sky.json("status", submitted(done))
    assert "cannot write to /data" in json.dumps(status)
