"""`init` writes a valid file and never overwrites an existing file."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kubectl_sky.actions import init
from kubectl_sky.cli.main import sky
from kubectl_sky.errors import SkyError
from tests.actions.test_taskfile import drafted, plans


def run(*arguments: str) -> Result:
    return CliRunner().invoke(sky, ["init", *arguments], prog_name="kubectl sky")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "file", "name"),
    [
        ((), "task.yaml", "task"),
        (("train",), "train.yaml", "train"),
        (("a-b.yml",), "a-b.yml", "a-b"),
    ],
)
def test_init_writes_valid_task(
    folder: Path, arguments: tuple[str, ...], file: str, name: str
) -> None:
    done = run(*arguments)
    assert done.exit_code == 0, done.output
    assert f"{file} created" in done.output
    text = (folder / file).read_text()
    assert text.startswith("# yaml-language-server: $schema=")
    task_file = drafted(text, folder)
    assert task_file.tasks[0].name == name
    assert task_file.warnings == ()
    assert plans(task_file)[0].requests == {"cpu": "1", "memory": "1Gi"}


def test_init_commented_fields_are_valid(folder: Path) -> None:
    lines = init.text("task.yaml", "task").splitlines()
    text = "\n".join(
        line.replace("# ", "", 1) if line.strip().startswith("# ") and ":" in line else line
        for line in lines[2:]
        if not line.startswith(("# What", "# The task", '# "kubectl'))
    ).replace("#   ", "  ")
    task = drafted(text, folder, gpus=None).tasks[0]
    assert (task.num_nodes, task.envs, task.setup) == (2, {"EPOCHS": "10"}, "pip install numpy\n")


def test_init_dash_prints_to_stdout(folder: Path) -> None:
    done = run("-")
    assert (done.exit_code, done.output) == (0, init.text("task.yaml", "task"))
    assert list(folder.iterdir()) == []


def test_init_existing_file_requires_force(folder: Path) -> None:
    (folder / "task.yaml").write_text("mine")
    with pytest.raises(SkyError, match=r"task\.yaml already exists; to overwrite it, use --force"):
        init.write("task", force=False)
    assert (folder / "task.yaml").read_text() == "mine"
    assert run("--force").exit_code == 0
    assert (folder / "task.yaml").read_text() != "mine"


@pytest.mark.parametrize("name", ["no/such/folder/x", "a b", "x\0y", "$(id)", "-x: {", ""])
def test_init_invalid_name_is_refused(folder: Path, name: str) -> None:
    with pytest.raises(SkyError) as caught:
        init.write(name, force=False)
    assert caught.value.exit_code == 2
    assert list(folder.iterdir()) == []
