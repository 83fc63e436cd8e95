"""`render`: the task that submit would make, or what is not known without a cluster."""

import json
from pathlib import Path

import pytest
import yaml

from kubectl_sky.words import settings
from tests.actions.conftest import Run
from tests.builders import ID
from tests.fake_cluster import FakeCluster

NOTE = 'owner "os-user" is your OS user name: use --user NAME, or --as-submitted'


@pytest.fixture(autouse=True)
def task(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "task.yaml").write_text("name: train\nsecrets: {KEY: hunter2}\nrun: 'true'\n")
    monkeypatch.setattr(settings, "system_user", lambda: "os-user")


def owners(text: str) -> set[str]:
    items = [item for item in yaml.safe_load_all(text) if item]
    return {item["metadata"]["labels"].get("username", "") for item in items}


def test_render_offline_notes_unknown_owner(run: Run, api: FakeCluster) -> None:
    code, out, err = run("render", "task.yaml")
    assert (code, owners(out)) == (0, {"os-user"})
    assert err.startswith(NOTE)
    assert not api.requests


def test_render_with_user_or_login_has_known_owner_and_no_note(run: Run) -> None:
    code, out, err = run("render", "task.yaml", "--user", "bob")
    assert (code, owners(out), err) == (0, {"bob"}, "")
    assert run("auth", "login", "carol")[0] == 0
    code, out, err = run("render", "task.yaml")
    assert (code, owners(out), err) == (0, {"carol"}, "")
    assert run("auth", "logout")[0] == 0


def test_render_as_submitted_equals_dry_run_of_submit(run: Run, api: FakeCluster) -> None:
    flags = ("task.yaml", "--id", ID, "-o", "json")
    code, out, err = run("render", *flags, "--as-submitted")
    assert (code, err) == (0, "")
    assert json.loads(out) == json.loads(run("submit", *flags, "--dry-run")[1])
    assert {item["metadata"]["namespace"] for item in json.loads(out)["items"]} == {"default"}
    assert '"username": "alice"' in out
    assert "hunter2" not in out
    assert not [text for text in api.writes if "dry run" not in text]


@pytest.mark.parametrize("flags", [(), ("--id", ID)])
def test_render_as_submitted_over_quota_warns(
    run: Run, api: FakeCluster, flags: tuple[str, ...]
) -> None:
    hard = {"pods": "1"}
    api.put(
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "few"},
            "spec": {"hard": hard},
            "status": {"hard": hard, "used": hard},
        }
    )
    code, out, err = run("render", "task.yaml", "--as-submitted", *flags)
    assert (code, owners(out)) == (0, {"alice"})
    assert err == "warning: quota few is full: pods: requested 1, used 1 of 1\n"
    assert run("submit", "task.yaml", "--detach", *flags)[0] == 3


def test_render_as_submitted_takes_flags_of_render(run: Run, tmp_path: Path) -> None:
    out = run("render", "task.yaml", "--as-submitted", "--explain", "--id", ID)[1]
    assert "# task.yaml:1:1 name" in out
    assert "hunter2" not in out
    out = run("render", "task.yaml", "--as-submitted", "--show-secrets", "--id", ID)[1]
    assert "hunter2" in out or "aHVudGVyMg==" in out
    assert run("render", "task.yaml", "--as-submitted", "--output-dir", "manifests")[0] == 0
    assert len(list((tmp_path / "manifests").iterdir())) == 3


def test_render_without_runtime_names_omitted_config_map(run: Run, tmp_path: Path) -> None:
    (tmp_path / "setup.yaml").write_text("name: train\nsetup: 'true'\nrun: 'true'\n")
    complete = run("render", "setup.yaml", "--id", ID)[1]
    code, out, err = run("render", "setup.yaml", "--id", ID, "--no-runtime")
    (name,) = {item["metadata"]["name"] for item in yaml.safe_load_all(complete)} - {
        item["metadata"]["name"] for item in yaml.safe_load_all(out)
    }
    assert (code, name.startswith("kubectl-sky-runtime-")) == (0, True)
    assert f"omitted ConfigMap/{name}: " in err


def test_render_of_batch_script_with_dependency_says_that_manifests_do_not_wait(
    run: Run, tmp_path: Path
) -> None:
    file = tmp_path / "eval.sbatch"
    file.write_text("#!/bin/bash\n#SBATCH -J eval -d afterok:train\necho\n")
    code, out, err = run("render", str(file), "--user", "alice")
    assert code == 0
    assert "suspend: true" not in out
    assert "the manifests do not wait: submit the file with --after train" in err
    assert "has succeeded" not in err
