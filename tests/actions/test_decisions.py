"""What `-v=4` says of the decisions of a command."""

from pathlib import Path

import pytest

from tests.actions.conftest import Run
from tests.builders import ID

TASK = """\
name: train
num_nodes: 2
resources: {image_id: "busybox:1.36", cpus: 2}
run: echo hello
"""


def explain(run: Run, path: Path, *flags: str, text: str = TASK) -> list[str]:
    """Return the lines that submit prints only with -v=4, of decisions and not of notes."""
    path.write_text(text)
    submit = ("submit", str(path), "--id", ID, "--detach", *flags)
    code, _, quiet = run(*submit, "--dry-run=client")
    assert code == 0, quiet
    _, _, explained = run(*submit, "--dry-run=client", "-v=4")
    return [line for line in explained.splitlines() if line not in quiet.splitlines()]


def test_each_decision_has_its_reason(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "task.yaml"
    assert explain(run, path) == [
        "owner alice: the cluster of context fake",
        "backend jobs: the default",
        "no queue: neither the file nor the settings",
        "nodes may start one by one: nothing starts those of backend jobs together",
        f"image busybox:1.36: {path}:3:13 resources.image_id",
        f"requests cpu 2: {path}:3:39 resources.cpus",
    ]


@pytest.mark.parametrize(
    ("flags", "line"),
    [
        (("--backend", "indexed"), "backend indexed: --backend config.kubectl_sky.backend"),
        (("--gang", "off"), "nodes may start one by one: --gang config.kubectl_sky.gang"),
        (("--user", "bob"), "owner bob: --user"),
        (("--cpus", "4"), "requests cpu 4: --cpus resources.cpus"),
    ],
    ids=str,
)
def test_reason_names_the_flag(run: Run, tmp_path: Path, flags: tuple[str, ...], line: str) -> None:
    assert line in explain(run, tmp_path / "task.yaml", *flags)


def test_reason_names_the_setting(run: Run, tmp_path: Path) -> None:
    assert run("config", "set", "image", "python:3.13")[0] == 0
    lines = explain(run, tmp_path / "task.yaml", text="name: train\nrun: echo hello\n")
    assert "image python:3.13: settings: image" in lines
    assert "requests nothing: no field of resources is set" in lines


def test_tasks_of_pipeline_are_named(run: Run, tmp_path: Path) -> None:
    text = "name: chain\n---\nname: a\nrun: echo a\n---\nname: b\nrun: echo b\n"
    lines = explain(run, tmp_path / "task.yaml", text=text)
    assert "a: backend jobs: the default" in lines
    assert "b: backend jobs: the default" in lines
