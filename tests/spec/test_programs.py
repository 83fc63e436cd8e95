"""Warnings about programs that a task calls and the default image lacks."""

from typing import Any

import pytest

from kubectl_sky.spec import programs
from tests.spec.documents import make_document, read

IMAGE = "python:3.13-slim"


def warning(text: str) -> str:
    found = [programs.missing(document, IMAGE) for document in read(text)]
    return "\n".join(str(problem) for problem in found if problem)


def reported(run: str, setup: str = "", **fields: Any) -> str:
    """Return the programs named in the warning."""
    problem = programs.missing(make_document(run=run, setup=setup, **fields), IMAGE)
    return problem.message.partition("has no ")[2] if problem else ""


def test_programs_missing_program_is_warned_with_position_and_hint() -> None:
    text = "name: a\nsetup: |\n  pip install x\n  cd x; git clone y\nrun: |\n\n  curl z\n"
    assert warning(text) == (
        "task.yaml:4:9: setup: warning: the default image python:3.13-slim has no git or curl;"
        " install it in setup, set image_id, or run `kubectl sky config set defaults skypilot` to"
        " use SkyPilot's image"
    )


def test_programs_blank_first_line_does_not_change_position() -> None:
    assert warning("run: |\n\n     true\n       git pull\n").startswith("task.yaml:4:8: run: ")


@pytest.mark.parametrize("script", ["run: git pull\n", 'run: "echo\\ngit pull"\n'])
def test_programs_position_in_plain_script_is_that_of_field(script: str) -> None:
    assert warning(f"name: a\n{script}").startswith("task.yaml:2:6: run: warning: ")


def test_programs_are_reported_once_in_order() -> None:
    text = "run: |\n  uv venv\n  wget a\n  uv pip\n  conda activate b\n  wget c\n"
    assert "has no uv, wget or conda;" in warning(text)


def test_programs_git_in_local_workdir_is_warned_that_git_folder_is_not_uploaded() -> None:
    def warned(run: str, workdir: object = ".", setup: str = "") -> str:
        document = make_document(setup=setup, run=run, workdir=workdir)
        return str(programs.without_git_folder(document) or "")

    assert warned("commit=$(git rev-parse HEAD)") == (
        "task.yaml:1:6: run: warning: .git is not uploaded with the workdir;"
        " write !.git in .skyignore"
    )
    assert not warned("git rev-parse HEAD", {"url": "https://github.com/a/b.git"})
    assert not warned("git rev-parse HEAD || echo unknown")
    assert not warned("cd x; git log", setup="git clone x")


CALLED = [
    "git clone x && cd y",
    "if true; then\n  git pull\nfi",
    "cd x; git pull",
    "x=$(git rev-parse HEAD)",
    "sudo -E git pull",
    "A=1 git pull",
    "for i in 1 2; do git pull; done",
    "echo x | git apply -",
    "(git pull)",
    "git clone x || true",
    "pip install git+https://example.org/a/b",
]


NOT_CALLED = [
    "# git clone",
    "echo git clone",
    "command -v git || echo",
    "if ! which git > /dev/null; then exit 1; fi; git pull",
    "apt-get update && apt-get install -y git=1:2.39 && git pull",
    "apt-get install -y build-essential; make",
    "apk add --no-cache git; git pull",
    "git() { true; }; git pull",
    "./git pull",
    "/opt/bin/git pull",
    "mygit pull",
    "git=1",
    "python git.py",
    "python -m git pull",
    "pip install -U uv\nuv venv",
    "source /data/miniconda3/etc/profile.d/conda.sh\nconda activate x",
]


@pytest.mark.parametrize("script", [*CALLED, *NOT_CALLED])
def test_programs_only_called_ones_are_reported(script: str) -> None:
    assert reported(script) == ("git" if script in CALLED else "")


def test_programs_installed_by_setup_are_not_reported_in_run() -> None:
    assert reported("uv run x.py", setup="pip install uv") == ""
    assert reported("pip install uv", setup="uv venv") == "uv"


@pytest.mark.parametrize(
    "fields",
    [
        {"resources": {"image_id": "ubuntu"}},
        {"resources": {"any_of": [{"image_id": "a"}, {"image_id": "b"}]}},
        {"config": {"kubernetes": {"pod_config": {"spec": {"containers": [{"image": "a"}]}}}}},
    ],
)
def test_programs_with_image_are_not_checked(fields: dict[str, Any]) -> None:
    assert reported("git pull", **fields) == ""


@pytest.mark.parametrize(
    "resources",
    [{"image_id": "ami-1"}, {"any_of": [{"image_id": "a"}, {"cpus": 1}]}, {"image_id": {}}],
)
def test_programs_with_default_image_in_candidate_are_checked(resources: object) -> None:
    assert reported("git pull", resources=resources) == "git"


def test_programs_git_workdir_requires_git() -> None:
    text = "workdir: {url: https://github.com/a/b}\nrun: |\n  git pull\n  uv venv\n"
    assert warning(text).startswith("task.yaml:1:10: workdir: warning: ")
    assert "has no git or uv" in warning(text)


def test_programs_of_header_and_volume_are_not_checked() -> None:
    assert warning("name: git\n---\nrun: a\n---\nrun: b\n") == ""
    assert warning("name: git\ntype: k8s-pvc\nsize: 1Gi\n") == ""


def test_programs_after_start_of_script_are_not_read() -> None:
    assert reported(" " * 5000 + "git pull") == ""


SSH = "run: warning: the nodes have no ssh to start processes on the others; use the mpijob backend"
DOCKER = "setup: warning: a task has no Docker daemon; name the image in image_id"
UNAVAILABLE = {
    "num_nodes: 2\nrun: |\n  if true; then\n    mpirun -np 2 -H $ips x\n  fi\n": f"4:5: {SSH}",
    "num_nodes: 2\nrun: |\n  /opt/bin/mpirun \\\n    -x A --hostfile h x\n": f"3:12: {SSH}",
    "num_nodes: 2\nrun: deepspeed --hostfile=h x\n": f"2:6: {SSH}",
    "setup: |\n  sudo docker pull x\nrun: docker run x\n": f"2:8: {DOCKER}",
}


@pytest.mark.parametrize("text", UNAVAILABLE)
def test_programs_call_that_fails_with_any_image_is_warned(text: str) -> None:
    (document,) = read(text)
    (problem,) = programs.find_unavailable(document, None)
    assert str(problem).startswith(f"task.yaml:{UNAVAILABLE[text]}")


AVAILABLE = (
    "num_nodes: 2\nrun: mpirun -np 2 x\n",
    "run: mpirun -H localhost:2 x\n",
    "num_nodes: 2\nconfig: {kubectl_sky: {backend: mpijob}}\nrun: mpirun -H $ips x\n",
    "num_nodes: 2\nrun: torchrun --nnodes 2 x\n",
    "run: |\n  dockerd &\n  docker run x\n",
    "run: docker --version; echo docker run\n",
)


@pytest.mark.parametrize("text", AVAILABLE)
def test_programs_other_calls_are_not_warned(text: str) -> None:
    (document,) = read(text)
    assert list(programs.find_unavailable(document, None)) == []
    mpi = "num_nodes: 2\nrun: mpirun -H $ips x\n"
    assert list(programs.find_unavailable(read(mpi)[0], "mpijob")) == []
