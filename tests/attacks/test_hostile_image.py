"""An image with hostile versions of sh and tar."""

import base64
from pathlib import Path

import pytest

from tests.attacks.tars import FOLDER, entry, folder, hard_link, symlink, tar
from tests.e2e.command import PROGRAM, Command, Done
from tests.e2e.support import submit, until_running

MEMORY = 700_000  # KiB of address space; a copy of a small file takes 250,000
DIR = "/tmp/evil"
TASK = f"""
name: evil
envs: {{{{PATH: "{DIR}:/usr/local/bin:/usr/bin:/bin"}}}}
run: |
  mkdir -p {DIR}
  cd {DIR}
  printf %s '{{data}}' | base64 -d > data
  printf '%s\\n' '#!/bin/sh' '{{program}}' > {{name}}
  chmod +x {{name}}
  touch ready
  sleep 300
"""


@pytest.fixture
def limited(environment: dict[str, str], tmp_path: Path) -> Command:
    """The command in a separate folder, with a memory limit."""
    work = tmp_path / "work"
    work.mkdir()
    shell = ("sh", "-c", f'ulimit -v {MEMORY}; exec "$@"', "sh")
    return Command((*shell, *PROGRAM), environment, work)


def start(sky: Command, name: str, program: str, data: bytes = b"") -> str:
    """Run a task whose image has a hostile program."""
    encoded = base64.b64encode(data).decode()
    text = TASK.format(name=name, program=program, data=encoded)
    submit(sky, text, "evil0001")
    until_running(sky, "evil0001")
    wait = f"until [ -e {DIR}/ready ]; do sleep 0.2; done"
    assert sky("exec", "evil0001", "--", "/bin/sh", "-c", wait).returncode == 0
    return "evil0001"


def assert_refused(done: Done) -> None:
    """Check for a short error, no traceback, and not the exit code of a bug."""
    assert done.returncode in (2, 3), (done.returncode, done.stderr)
    assert "error: " in done.stderr and "internal error" not in done.stderr
    assert len(done.stderr) < 20_000


HARMFUL = [
    entry(".ssh/authorized_keys", b"evil"),
    folder(),
    symlink("up", "../../.ssh"),
    entry("up/authorized_keys", b"evil"),
    entry("../evil", b"evil"),
    hard_link("stolen", "../secret"),
]


@pytest.mark.practice_only
@pytest.mark.parametrize("first", [0, 1])
def test_cp_from_hostile_image_writes_only_to_target(
    sky: Command, limited: Command, first: int
) -> None:
    work = limited.folder
    (work / ".ssh").mkdir()
    (work / "secret").write_text("secret")
    task = start(sky, "tar", f"cat {DIR}/data", tar(*HARMFUL[first:]))
    done = limited("cp", f"{task}:/tmp", ".")
    paths = {str(path.relative_to(work)) for path in work.rglob("*")}
    if first == 0:
        assert_refused(done)
        assert paths == {".ssh", "secret"}
    else:
        assert done.returncode == 0
        assert paths == {".ssh", "secret", "tmp", "tmp/up", "tmp/up/authorized_keys"}
    assert (work / "secret").stat().st_nlink == 1


@pytest.mark.practice_only
def test_cp_to_hostile_image_with_endless_path_is_refused(sky: Command, limited: Command) -> None:
    task = start(sky, "sh", "exec yes /x/.ssh")
    (limited.folder / "file").write_text("x")
    done = limited("cp", "file", f"{task}:/tmp")
    assert_refused(done)
    assert "writes too many messages" in done.stderr


def test_cp_endless_stderr_uses_bounded_memory(sky: Command, limited: Command) -> None:
    """The same of stdout is shown by the tests of `extract`."""
    task = start(sky, "tar", "exec yes >&2", FOLDER * 100)
    done = limited("cp", f"{task}:/tmp", ".", timeout=280)
    assert_refused(done)
    assert "writes too many messages" in done.stderr
    assert list(limited.folder.iterdir()) == []
