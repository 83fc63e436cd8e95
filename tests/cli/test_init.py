"""`init` writes a valid file for every kind and never overwrites an existing file."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kubectl_sky.actions import gallery, init
from kubectl_sky.actions.init import KINDS, Draft
from kubectl_sky.cli.main import main, sky
from kubectl_sky.errors import SkyError, UserError
from tests.actions.drafts import drafted, plans

TORCH = "import os\nimport torch.distributed as dist\n"


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


@pytest.mark.parametrize("kind", ["", *KINDS])
@pytest.mark.parametrize("gpus", ["", "H100:8", "2"])
@pytest.mark.parametrize("nodes", [1, 3])
@pytest.mark.parametrize("script", ["", "my train.py", "run.sh", "src/tool"])
def test_init_every_kind_is_valid(
    folder: Path, kind: str, gpus: str, nodes: int, script: str
) -> None:
    task_file = drafted(init.text(Draft("a", script, gpus, nodes, kind), "a.yaml"), folder)
    assert task_file.warnings == ()
    assert task_file.tasks[0].num_nodes == nodes
    assert bool(task_file.tasks[0].run)


@pytest.mark.parametrize(
    ("name", "content", "arguments", "command"),
    [
        ("hello.py", "print(1)\n", (), "python hello.py\n"),
        ("a b.sh", "echo\n", (), "bash 'a b.sh'\n"),
        ("tool", "\x7fELF\0\xff", (), "./tool\n"),
        ("train.py", TORCH, (), "torchrun \\\n"),
        ("train.py", "# import torch\n", (), "python train.py\n"),
        ("train.py", TORCH, ("--kind", "script"), "python train.py\n"),
        ("other.py", "print(1)\n", ("--nodes", "2", "--gpus", "A100:8"), "torchrun \\\n"),
        ("train.py", TORCH, ("--kind", "vllm"), 'vllm serve "$MODEL" --port 8000'),
    ],
)
def test_init_script_runs_it_from_uploaded_folder(
    folder: Path, name: str, content: str, arguments: tuple[str, ...], command: str
) -> None:
    (folder / name).write_text(content)
    done = run(name, *arguments)
    assert done.exit_code == 0, done.output
    written = (folder / f"{Path(name).stem}.yaml").read_text()
    task = drafted(written, folder).tasks[0]
    assert task.run is not None and task.run.startswith(command)
    assert ("\nworkdir: ." in written) == (not command.startswith("vllm"))


@pytest.mark.parametrize(
    ("gpus", "cpu", "memory"),
    [("A100", "4", "16Gi"), ("H100:8", "32", "128Gi"), ("2", "8", "32Gi")],
)
def test_init_gpus_sizes_are_those_of_skypilot(
    folder: Path, gpus: str, cpu: str, memory: str
) -> None:
    task_file = drafted(init.text(Draft("a", "", gpus), "a.yaml"), folder)
    assert plans(task_file)[0].requests == {"cpu": cpu, "memory": memory}


def test_init_torchrun_has_nodes_gpus_and_image(folder: Path) -> None:
    (folder / "my_Train.py").write_text(TORCH)
    assert run("my_Train.py", "--gpus", "H100:8", "--nodes", "2").exit_code == 0
    text = (folder / "my_Train.yaml").read_text()
    assert "name: my-train\n" in text
    assert "\nnum_nodes: 2 " in text and "  accelerators: H100:8\n" in text
    assert "image_id: docker:pytorch/pytorch:" in text and "    my_Train.py\n" in text


def test_init_commented_fields_are_valid(folder: Path) -> None:
    lines = init.text(Draft(), "task.yaml").splitlines()
    text = "\n".join(
        line.replace("# ", "", 1) if line.strip().startswith("# ") and ":" in line else line
        for line in lines[2:]
        if not line.startswith(("# What", "# The task", '# "kubectl'))
    ).replace("#   ", "  ")
    task = drafted(text, folder, gpus=None).tasks[0]
    assert (task.num_nodes, task.envs, task.setup) == (2, {"EPOCHS": "10"}, "pip install numpy\n")


def test_init_dash_prints_to_stdout(folder: Path) -> None:
    done = run("-")
    assert (done.exit_code, done.output) == (0, init.text(Draft(), "task.yaml"))
    assert list(folder.iterdir()) == []


def test_init_existing_file_requires_force(folder: Path) -> None:
    (folder / "task.yaml").write_text("mine")
    with pytest.raises(SkyError, match=r"task\.yaml already exists; to overwrite it, use --force"):
        init.write(Draft(), Path("task.yaml"), force=False)
    assert (folder / "task.yaml").read_text() == "mine"
    assert run("--force").exit_code == 0
    assert (folder / "task.yaml").read_text() != "mine"


@pytest.mark.parametrize(
    "name",
    [
        "no/such/folder/x",
        "a b",
        "x\0y",
        "$(id)",
        "-x: {",
        "",
        "none.py",
        "x\ny",
        "\0.py",
        "/etc/profile",
        "../x.sh",
    ],
)
def test_init_invalid_name_is_refused(folder: Path, name: str) -> None:
    with pytest.raises(SkyError) as caught:
        draft, path = init.draft(name, "", 1, "")
        init.write(draft, path, force=False)
    assert caught.value.exit_code == 2
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("gpus", ["A100:two", "a\nb: c", "{", "A100:-1"])
def test_init_invalid_gpus_are_refused(folder: Path, gpus: str) -> None:
    with pytest.raises(SkyError) as caught:
        init.text(Draft(gpus=gpus), "task.yaml")
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("k: v",), 'invalid task name "k: v"'),
        (("e # x",), 'invalid task name "e # x"'),
        (("w", "--gpus", "A100:1\nsetup: x"), "invalid --gpus"),
    ],
)
def test_init_text_that_is_other_yaml_is_refused(
    folder: Path, arguments: tuple[str, ...], message: str
) -> None:
    done = run(*arguments)
    assert message in f"{done.exception}{done.output}"
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("arguments", [("vllm",), ("vllm", "--kind", "script")])
def test_init_name_of_kind_notes_option(arguments: tuple[str, ...]) -> None:
    noted = "kubectl sky init vllm --kind vllm --force" in run(*arguments).output
    assert noted == (len(arguments) == 1)


def test_init_example_copies_it_with_its_programs(folder: Path) -> None:
    done = run("--example", "ddp")
    assert done.exit_code == 0, done.output
    assert {"pytorch-ddp.yaml created", "pytorch/train.py created"} <= {*done.output.splitlines()}
    text = (folder / "pytorch-ddp.yaml").read_text()
    assert text.startswith("# kubectl sky submit pytorch-ddp.yaml\n")
    assert drafted(text, folder).tasks[0].name == "ddp"
    assert "pytorch-ddp.yaml already exists" in str(run("--example", "ddp").exception)


@pytest.mark.parametrize("name", gallery.list_examples())
def test_init_every_example_has_all_that_it_names(folder: Path, name: str) -> None:
    assert run("--example", name).exit_code == 0
    assert main(["validate", "--as-task", f"{name}.yaml"]) == 0
    assert "examples/" not in (folder / f"{name}.yaml").read_text()


def test_init_list_shows_examples(folder: Path) -> None:
    assert re.search("^pytorch-ddp +PyTorch's", run("--list").output, re.MULTILINE)
    assert all(text for _, text in gallery.list_examples().values())
    assert "several examples match" in str(run("--example", "vllm").exception)
    assert "there is no example" in str(run("--example", "nothing").exception)
    wrong = run("--example", "mulit-node").exception
    assert isinstance(wrong, UserError) and 'did you mean "multi-node"?' in wrong.hint
    assert "copies files as they are" in str(run("--example", "hello", "--gpus", "1").exception)
    assert list(folder.iterdir()) == []
