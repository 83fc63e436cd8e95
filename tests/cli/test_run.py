"""`run` and `-o task`: the task file of a command, without a cluster."""

import shlex
from pathlib import Path

import pytest
import yaml

from tests.e2e.command import Command


def task_file(sky: Command, *arguments: str) -> dict[str, object]:
    done = sky("run", "--dry-run=client", "-o", "task", *arguments)
    assert done.returncode == 0, done.stderr
    data = yaml.safe_load(done.stdout)
    assert isinstance(data, dict)
    return data


@pytest.mark.parametrize(
    "words",
    [
        ["python", "train.py", "--lr", "3e-4"],
        ["sh", "-c", 'echo "$HOME" > a; ls *'],
        ["printf", "%s\n", "it's", "", "a  b", "ü\t\\n", "--", "-o", "#", "a: b", "~"],
        ["./my program", "x"],
    ],
)
def test_run_words_reach_the_program_unchanged(sky: Command, words: list[str]) -> None:
    assert shlex.split(str(task_file(sky, "--", *words)["run"])) == words


@pytest.mark.parametrize("line", ["nvidia-smi", 'cd src && echo "$RANK" | tee a', "one\ntwo\n"])
def test_run_single_word_is_a_line_of_shell(sky: Command, line: str) -> None:
    assert task_file(sky, line)["run"] == line


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["python3.13", "a.py"], "python3-13"),
        (["/usr/bin/env", "x"], "env"),
        (["echo hi"], "echo"),
        (["--name", "train", "--", "x"], "train"),
        (["'%' x"], "task"),
    ],
)
def test_run_task_is_named_after_its_program(sky: Command, words: list[str], name: str) -> None:
    assert task_file(sky, *words)["name"] == name


def test_run_flags_become_fields_without_values_of_secrets(sky: Command) -> None:
    flags = ["--gpus", "A100:8", "--num-nodes", "2", "--image", "a/b", "--workdir", "."]
    flags += ["--env", "A=1", "--secret", "TOKEN", "--queue", "q", "--backend", "indexed"]
    assert task_file(sky, *flags, "x") == {
        "name": "x",
        "run": "x",
        "num_nodes": 2,
        "workdir": ".",
        "resources": {"accelerators": "A100:8", "image_id": "a/b"},
        "envs": {"A": "1"},
        "secrets": {"TOKEN": None},
        "config": {"kubectl_sky": {"backend": "indexed"}, "kubernetes": {"quota": {"queue": "q"}}},
    }


def test_task_file_of_run_is_one_that_submit_reads(sky: Command, tmp_path: Path) -> None:
    printed = sky("run", "--dry-run", "-o", "task", "--cpus", "2", "--", "echo", "a b").stdout
    (tmp_path / "task.yaml").write_text(printed)
    assert sky("submit", "task.yaml", "--dry-run", "-o", "task").stdout == printed


def test_task_file_of_pipeline_has_header_and_all_tasks(sky: Command) -> None:
    text = "name: two\n---\nname: a\nrun: x\n---\nname: b\nrun: y\n"
    done = sky("submit", "-", "--dry-run", "-o", "task", "--cpus", "1", stdin=text)
    header, *tasks = yaml.safe_load_all(done.stdout)
    assert header == {"name": "two"}
    assert [(task["name"], task["resources"]) for task in tasks] == [
        ("a", {"cpus": "1"}),
        ("b", {"cpus": "1"}),
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run"], "missing argument '-- CMD...'"),
        (["run", ""], "the command is empty"),
        (["run", "train", "--", "python", "a.py"], '"train" stands before --'),
        (["run", "python", "a.py", "--lr", "1"], "'--lr'; write the options of CMD after --"),
        (["run", "--gpu", "1", "--", "x"], "no such option '--gpu'; did you mean"),
        (["exec", "train", "ls", "--all"], "`kubectl-sky exec train -- ls --all`"),
        (["run", "-o", "task", "x"], "add --dry-run=client"),
        (["run", "--num-nodes", "0", "--dry-run", "-o", "task", "x"], "--num-nodes: num_nodes"),
        (["submit"], "submit needs FILE or --from TASK"),
        (["submit", "a.yaml", "--from", "train"], "submit needs FILE or --from TASK"),
        (["submit", "a.yaml", "b.yaml", "--dry-run", "-o", "task"], "-o task prints one task"),
    ],
)
def test_run_refused_arguments_exit_with_2(
    sky: Command, arguments: list[str], message: str
) -> None:
    done = sky(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr


def test_task_file_has_the_array_and_the_sweep_of_flags(sky: Command) -> None:
    for words, field in (
        ("--array 0-3%2", '    array: "0-3%2"\n'),
        ("--sweep LR=1,2 --sweep-limit 1", '    sweep:\n      LR: "1,2"\n'),
    ):
        done = sky("run", *words.split(), "--dry-run", "-o", "task", "x")
        assert done.returncode == 0
        assert field in done.stdout


@pytest.fixture
def _files(tmp_path: Path) -> None:
    for name in ("x.py", "x.sh", "tool", "ok.yaml"):
        (tmp_path / name).write_text("x")
    (tmp_path / "x.sbatch").write_text("#!/bin/bash\n#SBATCH -N1\necho\n")


@pytest.mark.usefixtures("_files")
@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (
            "--gpus 1 -- python3 x.py --lr 1",
            "use `kubectl sky run --gpus 1 --workdir . -- python3 x.py --lr 1`",
        ),
        ("x.py", "use `kubectl sky run --workdir . -- python x.py`"),
        ("./x.sh a", "use `kubectl sky run --workdir . -- sh ./x.sh a`"),
        ("./tool", "use `kubectl sky run --workdir . -- ./tool`"),
        ("'python3 x.py'", "use `kubectl sky run --workdir . -- python3 x.py`"),
        ("ok.yaml", "use `kubectl sky submit ok.yaml`"),
        ("x.sbatch a", "use `kubectl sky submit x.sbatch a`"),
        ("-- sbatch x.sbatch --lr 1", "use `kubectl sky submit x.sbatch -- --lr 1`"),
        (
            "--secret K=hidden --token hidden x.py",
            "use `kubectl sky run --secret K --workdir . -- python x.py`",
        ),
        ("--workdir . x.py", "use `kubectl sky run --workdir . -- python x.py`"),
    ],
)
def test_run_of_a_local_file_names_the_command_that_works(
    sky: Command, words: str, hint: str
) -> None:
    done = sky("run", *shlex.split(words))
    assert (done.returncode, done.stdout) == (2, "")
    assert f"hint: {hint}\n" in done.stderr


@pytest.mark.usefixtures("_files")
@pytest.mark.parametrize(
    "words",
    [
        "--workdir . -- python x.py",
        "'echo > x.py; python x.py'",
        "-- python /x.py",
        "-- ls nope",
        f"-- python -c {'x' * 300}",
    ],
)
def test_run_of_files_that_the_nodes_have_is_no_error(sky: Command, words: str) -> None:
    done = sky("run", "--dry-run", "-o", "task", *shlex.split(words))
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.usefixtures("_files")
def test_run_of_a_file_that_the_image_may_have_is_noted(sky: Command) -> None:
    done = sky("run", "--dry-run", "-o", "task", "--image", "mine", "--", "python", "x.py")
    assert done.returncode == 0
    assert '"x.py" is a file on this machine' in done.stderr
