"""Local files that fit into ConfigMaps, over a cluster in memory."""

from pathlib import Path

import pytest

from tests.actions.conftest import Run
from tests.builders import ID
from tests.fake_cluster import FakeCluster

TASK = "name: code\nworkdir: code\nrun: cat a\n"
SUBMIT = ("submit", "task.yaml", "--detach", "--id")


@pytest.fixture(autouse=True)
def code(run: Run) -> Path:
    Path("task.yaml").write_text(TASK)
    Path("code").mkdir()
    file = Path("code/a")
    file.write_text("1")
    return file


def config_maps(api: FakeCluster) -> list[str]:
    return [name.split()[1] for name in api.names() if name.startswith("configmaps files-")]


def test_submit_existing_id_with_changed_files_is_refused(
    run: Run, api: FakeCluster, code: Path
) -> None:
    assert "sent in 1 ConfigMap\n" in run(*SUBMIT, ID)[2]
    assert run(*SUBMIT, ID)[1].split()[1] == "unchanged:"
    assert "sent in 1 ConfigMap (already exists)\n" in run(*SUBMIT, "other001")[2]
    code.write_text("2")
    status, _, err = run(*SUBMIT, ID)
    assert (status, "metadata.annotations[kubectl-sky/files]" in err) == (2, True), err
    assert len(config_maps(api)) == 1
    assert run("stop", "code", "--yes")[0] == 0
    assert config_maps(api) == []


@pytest.mark.parametrize("is_ignored", [True, False])
def test_submit_workdir_without_files_says_so(run: Run, code: Path, is_ignored: bool) -> None:
    assert "has no files" not in run(*SUBMIT, ID)[2]
    if is_ignored:
        (code.parent / ".skyignore").write_text("*\n")
    else:
        code.unlink()
    err = run(*SUBMIT, "other001")[2]
    assert "workdir: code has no files to upload: it is empty, or all are ignored\n" in err


def test_clean_unused_files_are_orphans_until_a_task_uses_them(run: Run, api: FakeCluster) -> None:
    assert run(*SUBMIT, ID)[0] == 0
    (files,) = [item for path, item in api.saved().items() if "/configmaps/files-" in path]
    (name,) = config_maps(api)
    assert run("stop", ID)[0] == 0
    del files["metadata"]["ownerReferences"]
    api.put(files)
    preview = run("clean", "--dry-run", "--older-than", "0s")[1]
    assert f"ConfigMap/{name}" in preview
    assert run(*SUBMIT, ID)[0] == 0
    assert run("clean", "--yes", "--older-than", "0s")[2] == "0 orphans found\n"
    assert config_maps(api) == [name]


def test_submit_existing_id_from_another_commit_is_unchanged(
    run: Run, api: FakeCluster, tmp_path: Path
) -> None:
    branch = Path(".git/refs/heads/main")
    branch.parent.mkdir(parents=True)
    Path(".git/HEAD").write_text("ref: refs/heads/main\n")
    for commit in ("a" * 40, "b" * 40):
        branch.write_text(f"{commit}\n")
        assert run(*SUBMIT, ID)[0] == 0
    status = run("status", ID, "-o", "jsonpath={.metadata.revisions}")[1]
    assert status == '{"~/sky_workdir":"aaaaaaaaaaaa"}'
