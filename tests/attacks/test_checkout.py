"""Checkouts of strangers: their git configuration starts no program and reads no pipe."""

import os
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from tests.attacks.test_resource_limits import MEMORY
from tests.e2e.command import PROGRAM
from tests.forked import Forked, limit_memory

TASK = "name: t\nworkdir: .\nfile_mounts: {/data: ./wd, /file: ./wd/a/f}\nrun: echo\n"
SERVICE = "service: {readiness_probe: /}\nresources: {ports: 8080}\n"
GIT = """\
#!{python}
import os
with open("{log}", "a") as log:
    print(os.getcwd(), os.environ.get("GIT_DIR"), file=log)
os.execv("{git}", ["git", *os.sys.argv[1:]])
"""
PROMISOR = """\
[core]
repositoryFormatVersion = 1
bare = false
worktree = .
sparseCheckout = true
sparseCheckoutCone = true
sshCommand = "touch {ran}; false"
fsmonitor = "touch {ran}; false"
[extensions]
partialClone = evil
[remote "evil"]
promisor = true
url = ssh://x/y
"""
COMMANDS = {
    "validate": (0, ["validate", "t.yaml"]),
    "render": (0, ["render", "t.yaml", "--user", "me"]),
    "diff": (3, ["diff", "t.yaml", "--user", "me"]),  # packs, and then finds no cluster
    "submit": (3, ["submit", "t.yaml", "--user", "me", "--dry-run=client"]),
    "serve": (3, ["serve", "up", "service.yaml", "--user", "me"]),
    "dev": (3, ["dev", "up", "t.yaml", "--user", "me"]),
}


def run_git(folder: Path, *arguments: str) -> str:
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@example.com", *arguments]
    return subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE, text=True).stdout


@pytest.fixture
def ran(tmp_path: Path) -> Path:
    """A file that a program of the checkout writes."""
    return tmp_path / "ran"


@pytest.fixture
def checkout(tmp_path: Path, ran: Path) -> Path:
    """A clone whose folder wd is a bare repository: git fetches a folder that its index needs."""
    folder = tmp_path / "checkout"
    repository = folder / "wd"
    repository.mkdir(parents=True)
    run_git(repository, "init", "-q")

    for name in ("a", "b"):
        (repository / name).mkdir()
        (repository / name / "f").write_text(name)

    run_git(repository, "add", ".")
    run_git(repository, "commit", "-qm", "x")
    run_git(repository, "sparse-checkout", "set", "--cone", "--sparse-index", "a")
    tree = run_git(repository, "rev-parse", "HEAD:b").strip()
    (repository / ".git" / "objects" / tree[:2] / tree[2:]).unlink()
    for path in (repository / ".git").iterdir():
        path.rename(repository / path.name)
    (repository / ".git").rmdir()
    (repository / "config").write_text(PROMISOR.format(ran=ran))
    run_git(folder, "init", "-q")
    (folder / "t.yaml").write_text(TASK)
    (folder / "service.yaml").write_text(TASK + SERVICE)
    return folder


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Where the stand-in for git writes its folder and its repository."""
    return tmp_path / "log"


@pytest.fixture
def sky(tmp_path: Path, checkout: Path, log: Path) -> Forked:
    """The program in the checkout, with a stand-in for git."""
    programs = tmp_path / "programs"
    programs.mkdir()
    git = subprocess.check_output(["sh", "-c", "command -v git"], text=True).strip()
    (programs / "git").write_text(GIT.format(python=sys.executable, log=log, git=git))
    (programs / "git").chmod(0o755)
    environment = {"PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(tmp_path / "home")}
    environment |= {"KUBECONFIG": "/none", "LC_ALL": "C.UTF-8"}
    return Forked(PROGRAM, environment, checkout, prepare=partial(limit_memory, MEMORY))


@pytest.mark.parametrize("command", COMMANDS)
def test_checkout_git_is_started_outside_of_it_only(
    sky: Forked, log: Path, ran: Path, command: str
) -> None:
    code, arguments = COMMANDS[command]
    done = sky(*arguments, timeout=60)
    assert done.returncode == code, done.stderr
    assert set(log.read_text().splitlines()) == {f"/ {os.devnull}"}
    assert not ran.exists()


@pytest.mark.parametrize("command", ["validate", "render"])
def test_checkout_unpacked_with_its_git_folder_starts_nothing(
    sky: Forked, checkout: Path, ran: Path, command: str
) -> None:
    inner = checkout / "wd" / ".git"
    inner.mkdir()
    for name in ("HEAD", "config", "index", "info", "objects", "refs"):
        (checkout / "wd" / name).rename(inner / name)
    (checkout / "t.yaml").write_text("name: t\nworkdir: wd\nrun: echo\n")
    _, arguments = COMMANDS[command]
    done = sky(*arguments, timeout=60)
    assert done.returncode == 0
    assert done.stderr.count("/wd: git's index is sparse: ignored files are not uploaded") == 1
    assert not ran.exists()


@pytest.mark.parametrize("part", [".", "", "wd/.."])
def test_checkout_programs_found_by_a_relative_path_are_not_started(
    sky: Forked, checkout: Path, ran: Path, part: str
) -> None:
    for name in ("git", "bash"):
        (checkout / name).write_text(f"#!/bin/sh\ntouch {ran}\n")
        (checkout / name).chmod(0o755)
    environment = {**sky.environment, "PATH": f"{part}:{sky.environment['PATH']}"}
    done = replace(sky, environment=environment)("validate", "t.yaml", timeout=60)
    assert done.returncode == 0, done.stderr
    assert not ran.exists()


@pytest.mark.parametrize("name", ["index", "HEAD", "config", "packed-refs", "info/exclude", "pipe"])
def test_checkout_pipe_in_git_folder_does_not_hang(sky: Forked, checkout: Path, name: str) -> None:
    file = checkout / ".git" / name
    with (checkout / ".git" / "config").open("a") as config:
        config.write(f"[include]\npath = {checkout}/.git/pipe\n")
    file.unlink(missing_ok=True)
    os.mkfifo(file)
    done = sky("validate", "t.yaml", timeout=60)
    assert done.returncode == 0, done.stderr
    assert ("git's index is a named pipe" in done.stderr) == (name == "index")
