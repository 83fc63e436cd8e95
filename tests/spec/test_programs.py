"""Warnings about programs that a task calls and the default image lacks."""

import time
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kubectl_sky.spec import programs
from tests.spec.documents import make_document, read

IMAGE = "python:3.13-slim"


def warning(text: str) -> str:
    found = [programs.missing(document, IMAGE) for document in read(text)]
    return "\n".join(str(problem) for problem in found if problem)


def reported(run: str, setup: str = "", **fields: Any) -> str:
    """Return the programs named in the warning, with their lines."""
    problem = programs.missing(make_document(run=run, setup=setup, **fields), IMAGE)
    return problem.message.partition("has no ")[2] if problem else ""


def test_programs_missing_program_is_warned_with_line_and_hint() -> None:
    text = "name: a\nsetup: |\n  pip install x\n  git clone y\nrun: |\n\n  python x\n  curl z\n"
    assert warning(text) == (
        "task.yaml:4:1: setup: warning: the default image python:3.13-slim has no git or"
        " curl (line 8); run `kubectl sky config set defaults skypilot` to use SkyPilot's image,"
        " or set image_id"
    )


SKYPILOT = "run `kubectl sky config set defaults skypilot` to use SkyPilot's image, or set image_id"


@pytest.mark.parametrize(
    ("script", "gpus", "hint"),
    [
        ("git pull; wget x", None, SKYPILOT),
        ("git pull; wget x", "A100:1", f"{SKYPILOT}; install wget in setup"),
        ("cmake . && aws s3 ls", None, "install cmake and aws in setup, or set image_id"),
        (
            "docker run vllm",
            "A100:1",
            "pods have no daemon for docker: set image_id to the image that it runs",
        ),
        (
            "git pull; docker-compose up",
            None,
            f"{SKYPILOT}; pods have no daemon for docker-compose: set image_id to the image that"
            " it runs",
        ),
    ],
)
def test_programs_hint_names_an_image_only_if_it_has_them(
    script: str, gpus: str | None, hint: str
) -> None:
    document = make_document(run=script, resources={"accelerators": gpus} if gpus else {})
    problem = programs.missing(document, IMAGE)
    assert problem and problem.hint == hint


@pytest.mark.parametrize("script", ["run: git pull\n", 'run: "echo\\ngit pull"\n'])
def test_programs_line_of_plain_script_is_that_of_field(script: str) -> None:
    assert warning(f"name: a\n{script}").startswith("task.yaml:2:6: run: warning: ")


def test_programs_are_reported_once_in_order() -> None:
    text = "run: |\n  uv venv\n  wget a\n  uv pip\n  conda activate b\n  wget c\n"
    assert "has no uv, wget (line 3) or conda (line 5);" in warning(text)


CALLED = [
    "git clone x && cd y",
    "if true; then\n  git pull\nfi",
    "cd x; git pull",
    "x=$(git rev-parse HEAD)",
    "echo `git rev-parse HEAD`",
    "sudo -E git pull",
    "A=1 B=2 git pull",
    "env A=1 git pull",
    "timeout 5m nice -n 5 git pull",
    "nohup git pull &",
    "for i in 1 2; do git pull; done",
    "echo x | git apply -",
    "(git pull)",
    "git clone x || true",
    "cat <<EOF\n$(git log)\nEOF",
    "pip install git+https://github.com/a/b",
    "update() { git pull; }",
]


@pytest.mark.parametrize("script", CALLED)
def test_programs_called_program_is_reported(script: str) -> None:
    assert reported(script) == "git"


NOT_CALLED = [
    "# git clone",
    "echo git clone",
    "echo 'git clone'",
    'echo "git clone"',
    "cat <<EOF > x.sh\ngit clone\nEOF",
    "cat <<'EOF'\n$(git log)\nEOF",
    "command -v git || echo",
    "if ! which git > /dev/null; then exit 1; fi; git pull",
    "type git && git pull",
    "hash git 2> /dev/null; git pull",
    "apt-get update && apt-get install -y git=1:2.39 && git pull",
    "sudo apt install -y curl git\ngit pull",
    "apk add --no-cache git; git pull",
    "git() { true; }; git pull",
    "git --version",
    "./git pull",
    "/opt/bin/git pull",
    "$GIT pull",
    "mygit pull",
    "git=1",
    "python git.py",
    "python -m git pull",
    "ls git",
]


@pytest.mark.parametrize("script", NOT_CALLED)
def test_programs_not_called_or_installed_are_not_reported(script: str) -> None:
    assert reported(script) == ""


INSTALLED = [
    "pip install -U uv\nuv venv",
    "python3 -m pip install 'uv>=0.5'\nuv venv",
    "wget -qO- https://astral.sh/uv/install.sh | sh\nuv venv\nuvx x",
    "wget https://repo.anaconda.com/miniconda/Miniconda3-latest-Linux-x86_64.sh\nconda create",
    "source /data/miniconda3/etc/profile.d/conda.sh\nconda activate x\nwget x",
    'export PATH="/data/miniconda3/bin:$PATH"\nconda activate x\nwget x',
    "wget https://get.docker.com\ndocker run x",
    "wget https://ollama.com/install.sh | sh\nollama serve",
    "apt-get install -y libopenmpi-dev build-essential procps wget\nmpirun x\nmake\nps\nwget",
    "conda install -c conda-forge gcc-12 make nodejs\ngcc x\nnpm i",
]


@pytest.mark.parametrize("script", INSTALLED)
def test_programs_of_package_or_installer_are_not_reported(script: str) -> None:
    assert reported(script) in ("", "wget", "conda")


def test_programs_installed_by_setup_are_not_reported_in_run() -> None:
    assert reported("uv run x.py", setup="pip install uv") == ""
    assert reported("pip install uv", setup="uv venv") == "uv"


@pytest.mark.parametrize("script", ["nvidia-smi || true", "ps aux | head || echo no", "! ps || :"])
def test_programs_with_fallback_are_not_reported(script: str) -> None:
    assert reported(script) == ""
    assert reported(script.replace("||", "&&")) != ""


def test_programs_nvidia_smi_is_available_with_gpus() -> None:
    assert reported("nvidia-smi") == "nvidia-smi"
    assert reported("nvidia-smi", resources={"accelerators": "L4"}) == ""
    assert reported("nvidia-smi", resources={"any_of": [{"gpus": "L4"}]}) == ""


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
    assert "has no git or uv (line 4)" in warning(text)


def test_programs_of_header_and_volume_are_not_checked() -> None:
    assert warning("name: git\n---\nrun: a\n---\nrun: b\n") == ""
    assert warning("name: git\ntype: k8s-pvc\nsize: 1Gi\n") == ""


@given(st.text(st.sampled_from("git $({[`'\"<>|&;\n#\\}])=-EOF")) | st.text())
def test_programs_random_script_is_parsed(script: str) -> None:
    programs.missing(make_document(yaml.safe_load(yaml.safe_dump({"run": script}))), IMAGE)


@pytest.mark.parametrize(
    "unit", ["(", "$(", "git && ", "if git; then ", "<<EOF\n", "ps || true; ", "`", "{", "'", "\\"]
)
def test_programs_hostile_script_is_parsed_in_bounded_time(unit: str) -> None:
    start = time.process_time()
    reported((unit * 200_000)[:200_000])
    assert time.process_time() - start < 5
