"""Hostile files and flags: the real command ends soon, in little memory, with one clear error."""

import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

MEMORY = 600 * 1024 * 1024
SECONDS = 30
MANY_LINES = 30  # of an answer: a limited list of problems, or click's usage

Sky = Callable[..., "subprocess.CompletedProcess[str]"]


def limited() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


@pytest.fixture
def sky(tmp_path: Path) -> Sky:
    def run(*arguments: str, stdin: int | None = None) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-m", "kubectl_sky", *arguments],
            cwd=tmp_path,
            env={"PATH": os.environ["PATH"], "HOME": str(tmp_path / "home"), "KUBECONFIG": "/none"},
            stdin=subprocess.DEVNULL if stdin is None else stdin,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            preexec_fn=limited,
            check=False,
        )

    return run


@pytest.fixture
def workdir(tmp_path: Path) -> Path:
    """A task in task.yaml that uploads this folder."""
    (tmp_path / "task.yaml").write_text("workdir: code\nrun: 'true'\n")
    folder = tmp_path / "code"
    folder.mkdir()
    return folder


def refused(done: "subprocess.CompletedProcess[str]", message: str) -> None:
    """Check that a command says what is wrong, and nothing else."""
    assert done.returncode == 2, done.stderr[-2000:]
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) <= MANY_LINES
    assert max(map(len, done.stderr.splitlines())) < 500


@pytest.mark.parametrize(
    "pattern",
    [
        "*a*a*a*a*a*a*a*a*b",
        "a*" * 2000 + "b",
        "**/a/" * 200 + "b",
        "[a-z]*" * 600 + "!",
        "?" * 4000,
        " " * 4095 + "x",
        "\\" * 4096,
    ],
    ids=lambda pattern: pattern[:12],
)
def test_ignore_pattern_with_many_stars_ends(sky: Sky, workdir: Path, pattern: str) -> None:
    deep = workdir.joinpath(*["a"] * 60)
    deep.mkdir(parents=True)
    (deep / ("a" * 200)).write_text("")
    (workdir / ".skyignore").write_text(f"{pattern}\n" * 20)
    done = sky("render", "task.yaml")
    assert done.returncode == 0, done.stderr


def test_ignore_file_larger_than_limit_is_refused(sky: Sky, workdir: Path) -> None:
    (workdir / ".skyignore").write_bytes(b"x*y\n" * 300_000)
    refused(sky("render", "task.yaml"), ".skyignore: is larger than 1 MiB")


def test_ignore_pattern_longer_than_path_is_refused(sky: Sky, workdir: Path) -> None:
    (workdir / ".gitignore").write_bytes(b"a\n" + b"x" * 5000)
    refused(sky("render", "task.yaml"), ".gitignore:2:1: the pattern is longer than 4,096 bytes")


@pytest.mark.parametrize(
    "expression", ["(?=a)b", r"(a)\1", "(", "((a{1000}){1000}){1000}", "\udcff"]
)
def test_grep_with_unsupported_syntax_is_refused(sky: Sky, expression: str) -> None:
    refused(sky("logs", "task", "--grep", expression), "invalid regular expression")


def test_ranks_named_too_often_are_refused(sky: Sky) -> None:
    refused(sky("logs", "task", "--rank", ",".join(["0-99999"] * 5000)), "more than 100,000 ranks")
