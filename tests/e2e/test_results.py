"""Results of finished tasks, read on their volumes in a small pod."""

import json
from pathlib import Path

import pytest

from tests.e2e.command import Command
from tests.polling import eventually

TASK = """
name: out
resources: {image_id: "busybox:1.36"}
volumes: {/data: {name: results, sub_path: team}}
run: mkdir -p /data/run7/sub && echo good > /data/run7/model && echo 1 > /data/run7/sub/log
"""


@pytest.fixture
def task(sky: Command) -> str:
    """A finished task that has written to a volume."""
    created = sky("volumes", "create", "results", "1Gi")
    assert created.returncode == 0, created.stderr
    done = sky("submit", "-", "--id", "outtask1", stdin=TASK)
    assert done.returncode == 0, done.stderr
    return "outtask1"


def test_results_of_a_finished_task_are_copied_from_its_volume(
    sky: Command, tmp_path: Path, task: str
) -> None:
    done = sky("cp", f"{task}:/data/run7", "got", "--yes")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "got" / "model").read_text() == "good\n"
    assert (tmp_path / "got" / "sub" / "log").read_text() == "1\n"
    eventually(lambda: sky("list", "-o", "name").stdout == f"task/{task}\n")  # its pod is gone
    lost = sky("cp", f"{task}:/data/run8", "got", "--yes")
    assert f"error: {task}:/data/run8: no such file or folder\n" in lost.stderr
    lost = sky("cp", f"{task}:/data/run7/model", "models/", "--yes")
    assert (
        "error: models/: no such folder\nhint: create it first; without the last /" in lost.stderr
    )
    assert sky("cp", f"{task}:/data/run7", "models/", "--yes").returncode == 0, "a folder"
    assert (tmp_path / "models" / "model").read_text() == "good\n"


def test_volume_is_listed_measured_and_copied_to(sky: Command, tmp_path: Path, task: str) -> None:
    (tmp_path / "new").write_text("mine")
    done = sky("cp", "new", "vol/results:team/run7/", "--yes")
    assert done.returncode == 0, done.stderr
    listed = json.loads(sky("volumes", "ls", "results", "team/run7", "--yes", "-o", "json").stdout)
    kinds = {file["name"]: file["kind"] for file in listed["files"]}
    assert kinds == {"model": "regular file", "new": "regular file", "sub": "directory"}
    used = json.loads(sky("volumes", "du", "results", "--yes", "-o", "json").stdout)
    assert [folder["name"] for folder in used["folders"]] == [".", "team"]
    lost = sky("cp", "new", "vol/results:team/run8/", "--yes")
    assert lost.returncode == 2, lost.stderr
    assert "error: vol/results:team/run8/: no such target folder\n" in lost.stderr
    assert "hint: create it first; without the last / the file gets that name" in lost.stderr
    (tmp_path / "folder").mkdir()
    assert sky("cp", "folder", "vol/results:team/run8/", "--yes").returncode == 0
    missing = sky("volumes", "ls", "results", "nope", "--yes")
    assert (missing.returncode, missing.stdout) == (2, "")
    assert "nope: no such file or folder on the volume" in missing.stderr
