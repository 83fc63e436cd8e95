"""Hostile files and flags: the command exits quickly, in bounded memory, with a clear error."""

import contextlib
import os
import socket
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from tests.e2e.command import PROGRAM, Command, Done
from tests.forked import Forked, limit_memory

MEMORY = 300 << 20
MANY_LINES = 30  # of output: a limited list of problems, or click's usage


@pytest.fixture
def sky(tmp_path: Path) -> Forked:
    """The program with limits of memory and time."""
    (tmp_path / "task.yaml").write_text("run: x\n")
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path / "home")}
    environment |= {"KUBECONFIG": "/none", "LC_ALL": "C.UTF-8"}
    return Forked(PROGRAM, environment, tmp_path, prepare=partial(limit_memory, MEMORY))


@pytest.fixture
def workdir(tmp_path: Path) -> Path:
    """A task in task.yaml that uploads this folder."""
    (tmp_path / "task.yaml").write_text("workdir: code\nrun: 'true'\n")
    folder = tmp_path / "code"
    folder.mkdir()
    return folder


def refused(done: Done, message: str) -> None:
    """Check that a command prints a short error."""
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
def test_ignore_pattern_with_many_stars_terminates(
    sky: Command, workdir: Path, pattern: str
) -> None:
    deep = workdir.joinpath(*["a"] * 60)
    deep.mkdir(parents=True)
    (deep / ("a" * 200)).write_text("")
    (workdir / ".skyignore").write_text(f"{pattern}\n" * 20)
    done = sky("render", "task.yaml")
    assert done.returncode == 0, done.stderr


def test_ignore_file_larger_than_limit_is_refused(sky: Command, workdir: Path) -> None:
    (workdir / ".skyignore").write_bytes(b"x*y\n" * 300_000)
    refused(sky("render", "task.yaml"), ".skyignore: is larger than 1 MiB")


def test_ignore_lines_that_alternate_in_sign_are_refused(sky: Command, workdir: Path) -> None:
    lines = [b"!" * (line % 2) + b"**/" + b"*?" * 50 + b"%d\n" % line for line in range(7500)]
    (workdir / ".skyignore").write_bytes(b"".join(lines))
    message = ".skyignore: lines with and without ! alternate more than 200 times"
    refused(sky("validate", "task.yaml"), message)


def test_ignore_files_of_many_folders_are_bounded_together(sky: Command, workdir: Path) -> None:
    workdir.joinpath("x", "y").mkdir(parents=True)
    for folder in ("", "x"):
        (workdir / folder / ".gitignore").write_bytes(b"a\n!a\n" * 49)
    assert sky("validate", "task.yaml").returncode == 0
    (workdir / "x" / "y" / ".gitignore").write_bytes(b"a\n!a\n" * 2)
    refused(sky("validate", "task.yaml"), "x/y/.gitignore: lines with and without ! alternate")


def test_ignore_pattern_longer_than_path_is_refused(sky: Command, workdir: Path) -> None:
    (workdir / ".gitignore").write_bytes(b"a\n" + b"x" * 5000)
    refused(sky("render", "task.yaml"), ".gitignore:2:1: the pattern is longer than 4,096 bytes")


BIG = "x" * 100_000
MANY = range(3000)
TASKS = {
    "variable 20,000 times": (
        f"envs: {{A: {BIG}}}\nfile_mounts:\n  /a: {'$A' * 20_000}\nrun: x\n",
        "task.yaml:3:7: file_mounts./a: its variables make this too long",
    ),
    "variable in many keys": (
        f"envs: {{A: {BIG}}}\nvolumes:\n" + "".join(f"  /$A/{i}: v\n" for i in range(900)),
        "its variables make this too long",
    ),
    "3,000 documents": (
        "---\n".join(["name: p\n", *(f"name: t{i}\nrun: x\n" for i in MANY)]),
        "task.yaml:1500:1: document 501: the file has more than 500 documents",
    ),
    "combinations of candidates": (
        "resources:\n  accelerators: {" + ", ".join(f"A{i}: 1" for i in range(50)) + "}\n"
        "  any_of: [" + ", ".join(f"{{cpus: {i + 1}}}" for i in range(50)) + "]\nrun: x\n",
        "task.yaml:1:1: resources: up to 2,550 combinations of candidates; the limit is 300",
    ),
    "1,000 candidates": (
        "resources:\n  any_of:\n" + "".join(f"  - cpus: {i + 1}\n" for i in range(1000)),
        "combinations of candidates; the limit is 300",
    ),
    "GPUs in one text": (
        f"resources: {{accelerators: '{{{','.join(['L4:1'] * 1000)}}}'}}\nrun: x\n",
        "combinations of candidates; the limit is 300",
    ),
    "3,000 mounts": (
        "file_mounts:\n" + "".join(f"  /m{i}: /etc/hostname\n" for i in MANY) + "run: x\n",
        "task.yaml:1:1: file_mounts: 3,000 entries; the limit is 1,000",
    ),
    "3,000 volumes": (
        "volumes:\n" + "".join(f"  /v{i}: claim\n" for i in MANY) + "run: x\n",
        "task.yaml:1:1: volumes: 3,000 entries; the limit is 1,000",
    ),
    "nodes": ("num_nodes: 100000000\nrun: x\n", "task.yaml:1:12: num_nodes: more than 10,000"),
    "huge integer": (f"num_nodes: {10**4000}\nrun: x\n", "task.yaml:1:12: number too long"),
    "huge hexadecimal": (f"num_nodes: 0x{'f' * 4000}\nrun: x\n", "task.yaml:1:12: number too"),
    "sexagesimal": (f"num_nodes: 1{':59' * 4000}\nrun: x\n", "task.yaml:1:12: number too long"),
    "exponent": ("resources: {cpus: 1e999999999}\nrun: x\n", "task.yaml:1:19: resources.cpus:"),
    "ports": ("resources: {ports: 1-65535}\nrun: x\n", "task.yaml:1:20: resources.ports: 65,535"),
    "deep lists": ("run: " + "[" * 10_000 + "]" * 10_000, "nested more than 100 levels deep"),
    "deep maps": (
        "\n".join(" " * i + "a:" for i in range(2500)),
        "task.yaml:101:101: nested more than 100 levels deep",
    ),
    "alias bomb": (
        "x-0: &x0 [x, x, x, x, x, x, x, x, x]\n"
        + "".join(f"x-{i + 1}: &x{i + 1} [{', '.join([f'*x{i}'] * 9)}]\n" for i in range(9)),
        "more than 100,000 values",
    ),
    "alias bomb of text": (
        f"x-a: &a {'x' * 1_000_000}\nsecrets: {{T: [{', '.join(['*a'] * 300)}]}}\n",
        "10 MB of text",
    ),
    "values": ("".join(f"k{i}: 1\n" for i in range(90_000)), "more than 100,000 values"),
    "long key": (f"resources: {{? {'x' * 3_000_000} : 1}}\nrun: x\n", "unknown field"),
    "control characters": ('"a\\e[31m\\a": 1\nrun: x\n', "unknown field"),
    "long text": (f"run: {'x' * 5_000_000}\n", "task.yaml: cannot be read: is larger than 4 MiB"),
}  # fmt: skip


@pytest.mark.parametrize("case", TASKS)
def test_hostile_task_file_is_refused(sky: Command, tmp_path: Path, case: str) -> None:
    text, message = TASKS[case]
    (tmp_path / "task.yaml").write_text(text)
    done = sky("render", "task.yaml")
    refused(done, message)
    assert not any(char in done.stderr for char in "\a\033")


@pytest.mark.parametrize(
    "line", ["  k{}: 1\n", "  ? k{}\n  : {{a: 1}}\n"], ids=["unknown fields", "maps"]
)
def test_validate_many_problems_are_truncated(sky: Command, tmp_path: Path, line: str) -> None:
    text = "resources:\n" + "".join(line.format(i) for i in range(8_000)) + "run: x\n"
    (tmp_path / "task.yaml").write_text(text)
    for command in ("validate", "render"):
        done = sky(command, "task.yaml")
        assert done.returncode == 2
        assert len(done.stderr.splitlines()) == 101
        assert done.stderr.endswith("\nand more: only the first 100 problems are listed\n")


def test_validate_many_warnings_do_not_hide_error(sky: Command, tmp_path: Path) -> None:
    envs = "".join(f"  V{i}: 0x1f\n" for i in range(1000))
    (tmp_path / "task.yaml").write_text(f"envs:\n{envs}run: x\nrunn: x\n")
    done = sky("validate", "task.yaml")
    assert "task.yaml:1003:1: runn: unknown field" in done.stderr
    assert len(done.stderr.splitlines()) == 101


def test_validate_million_lines_are_read(sky: Command, tmp_path: Path) -> None:
    (tmp_path / "task.yaml").write_text("run: x\n" + "#\n" * 1_000_000)
    assert sky("validate", "task.yaml").returncode == 0


NO_FILES = {
    "pipe": "is a named pipe",
    "/dev/zero": "is a device",
    "/dev/random": "is a device",
    "/proc/kmsg": "",  # not permitted, or nothing to read
    ".": "is a directory",
    "socket": "",
    "missing": "no such file",
}


@pytest.mark.parametrize("path", NO_FILES)
def test_path_of_non_regular_file_is_refused(sky: Command, tmp_path: Path, path: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as listener, contextlib.chdir(tmp_path):
        listener.bind("socket")
        refused(sky("validate", path), NO_FILES[path])


def test_validate_endless_stdin_is_refused(sky: Forked) -> None:
    with Path("/dev/zero").open("rb") as zero:
        refused(sky("validate", "-", stdin=zero.fileno()), "<stdin>: the file is larger than 4 MiB")


def test_validate_shell_pipe_is_read(sky: Forked) -> None:
    """`<(command)` is the path of a descriptor; so is /dev/stdin."""
    reading, writing = os.pipe()
    os.write(writing, b"run: echo $A\n")
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        done = sky("validate", "/dev/fd/0", stdin=pipe.fileno())
    assert done.returncode == 0, done.stderr
    assert "is empty" in sky("validate", "/dev/null").stderr


@pytest.mark.parametrize("flag", ["--env-file", "--secret-file"])
def test_env_file_that_is_not_text_is_refused(sky: Command, tmp_path: Path, flag: str) -> None:
    (tmp_path / "vars.env").write_bytes(b"\xff")
    refused(sky("render", "task.yaml", flag, "vars.env"), "is not UTF-8")


FLAGS = {
    "array": (["--array", "0-999999999"], "1,000,000,000 tasks are too many"),
    "array of digits": (["--array", "1" * 5000], "expected numbers"),
    "nodes": (["--num-nodes", "1" * 5000], "--num-nodes: num_nodes: expected a whole number"),
    "ports": (["--ports", "1-65535"], "65,535 ports"),
    "gpus": (["--gpus", "{" + ",".join(["L4"] * 2000) + "}"], "the limit is 300"),
    "cpus": (["--cpus", "9" * 5000], "resources.cpus: CPUs are a number"),
}


@pytest.mark.parametrize("case", FLAGS)
def test_hostile_flag_is_refused(sky: Command, tmp_path: Path, case: str) -> None:
    flags, message = FLAGS[case]
    refused(sky("render", "task.yaml", *flags), message)


@pytest.mark.parametrize(
    "flags",
    [
        ("--name", "\udcff"),
        ("--image", "\udcff"),
        ("--namespace", "\udcff"),
        ("--env", "A=\udcff"),
        ("--secret", "A=\udcff"),
        ("--secret", "LATIN"),
    ],
)
def test_flag_with_invalid_utf8_is_refused(offline: Command, flags: tuple[str, str]) -> None:
    environment = {**offline.environment, "LATIN": "\udcff"}
    done = replace(offline, environment=environment)("render", "-", *flags, stdin="run: x\n")
    assert (done.returncode, done.stdout) == (2, "")
    assert "is not UTF-8" in done.stderr
    assert flags[0] in done.stderr


@pytest.mark.parametrize(
    "template", [b"{{ 1 // 0 }}", b'{% include "configmap.yaml.j2" %}', b"\xff\xfe"]
)
def test_render_failing_template_is_user_error(offline: Command, template: bytes) -> None:
    (offline.folder / "mine").mkdir()
    (offline.folder / "mine" / "configmap.yaml.j2").write_bytes(template)
    done = offline("render", "-", "--templates", "mine", stdin="run: x\n")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: template configmap.yaml.j2")
    assert done.stderr.count("\n") == 1


def test_workdir_folders_too_deep_are_refused(sky: Command, workdir: Path) -> None:
    folder = os.open(workdir, os.O_RDONLY)
    for _ in range(300):
        os.mkdir("d", dir_fd=folder)
        inner = os.open("d", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = inner
    os.close(folder)
    refused(sky("render", "task.yaml"), "is more than 200 folders deep")
