"""Flags have an effect, or they are refused: none is ignored silently."""

import json
from pathlib import Path

import pytest

from tests.actions.conftest import Run
from tests.builders import ID
from tests.fake_cluster import FakeCluster

TASK = "name: train\nrun: echo hello\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("list --watch --all-contexts", "--watch cannot be combined with --all-contexts"),
        ("list --context west --all-contexts", "--context cannot be combined with --all-contexts"),
        ("list --deleted --watch", "--deleted cannot be combined with --watch or --all-contexts"),
        (f"doctor {ID} --role", "--role is about no task"),
        ("exec a b c -- ls", '"b" stands before --'),
        ("cp a:x d:\\x", "d:\\x: a path of Windows"),
        ("cp s3://b/x a:y", "s3://b/x: a URL, and cp copies files of this machine"),
        ("cp a:x b:y", "cannot copy from one node or volume to another"),
        ("cp x y", "source or target must be in a task or on a volume"),
    ],
)
def test_flags_and_arguments_that_exclude_each_other_are_refused(
    run: Run, words: str, message: str
) -> None:
    code, out, err = run(*words.split())
    assert (code, out, err.splitlines()[0]) == (2, "", f"error: {message}")


def test_render_json_to_folder_writes_json(run: Run, tmp_path: Path) -> None:
    Path("task.yaml").write_text(TASK)
    code, out, _ = run("render", "task.yaml", "-o", "json", "--output-dir", "out")
    files = sorted((tmp_path / "out").iterdir())
    assert (code, out.split()) == (0, [f"out/{file.name}" for file in files])
    assert [file.suffix for file in files] == [".json", ".json"]
    assert [json.loads(file.read_text())["kind"] for file in files] == ["ConfigMap", "Job"]


@pytest.mark.parametrize("words", ["stop --leftovers", "users remove alice"])
def test_dry_run_without_value_is_that_of_client(api: FakeCluster, run: Run, words: str) -> None:
    assert "requires an argument" not in run(*words.split(), "--dry-run")[2]
    assert "requires an argument" not in run(*words.split(), "--dry-run=client")[2]


def test_list_of_all_contexts_without_context_is_error(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "config").write_text("{apiVersion: v1, kind: Config, contexts: []}")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    code, out, err = run("list", "--all-contexts")
    assert (code, out) == (3, "")
    assert err.startswith("error: the kubeconfig has no contexts\n")


def test_list_of_all_contexts_without_tasks_says_so(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config = "{apiVersion: v1, kind: Config, contexts: [{name: west, context: {}}]}"
    (tmp_path / "config").write_text(config)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    assert run("list", "--all-contexts") == (0, "", "No tasks found in any context.\n")
    assert run("list", "--all-contexts", "-o", "name") == (0, "", "")


@pytest.mark.parametrize("words", ["volumes list", "stop --all --yes"])
def test_names_of_nothing_are_no_empty_line(run: Run, words: str) -> None:
    assert run(*words.split(), "-o", "name")[:2] == (0, "")
