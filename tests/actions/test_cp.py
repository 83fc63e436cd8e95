"""Copies whose connection is lost after a long time."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic

import pytest

from kubectl_sky.cluster import backoff
from kubectl_sky.cluster import exec as executing
from kubectl_sky.cluster import session as sessions
from kubectl_sky.cluster.exec import Pipes, Program
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import Unreachable
from kubectl_sky.sync import archive
from kubectl_sky.tasks.cp import Place
from kubectl_sky.tasks.ui import UI
from tests.attacks.tars import entry, tar
from tests.fake_cluster import FakeCluster

_TIMEOUT_SECONDS = 60.0
_USER = 65534 if os.geteuid() == 0 else None


class Clock:
    """A clock that only moves when a connection is lost, each time after a long time."""

    def __init__(self) -> None:
        self.seconds = monotonic()  # tests before may have noted when they were interrupted

    def lose(self) -> int:
        self.seconds += 2 * _TIMEOUT_SECONDS
        raise Unreachable("the connection was lost")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    for module in (backoff, sessions):
        monkeypatch.setattr(module, "monotonic", lambda: clock.seconds)
    return clock


@pytest.fixture
def place(api: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A pod, reached by a session that waits for the API server."""
    monkeypatch.setattr(sessions, "TIMEOUT_SECONDS", _TIMEOUT_SECONDS)
    session = api.session()
    session.send("GET", "/version")
    return Place(session, partial(Program, "default", "a", "main"), "pod a", UI())


@pytest.mark.parametrize("losses", [1, 2])
def test_copy_that_is_lost_after_a_long_time_goes_on_once(
    clock: Clock, place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, losses: int
) -> None:
    data = tar(entry("./a", b"x" * 1000))
    runs: list[str] = []

    def execute(session: Session, program: Program, pipes: Pipes) -> int:
        first = int(program.command[5])
        runs.append(program.command[6])
        if len(runs) == 1:
            pipes.stdout(b"state\n" + data[:700])
        if len(runs) <= losses:
            return clock.lose()
        pipes.stdout(data[first - 1 :])
        return 0

    monkeypatch.setattr(executing, "run", execute)
    with nullcontext() if losses == 1 else pytest.raises(Unreachable):
        place.get("/out/a", str(tmp_path / "a"))
    assert runs == ["", "state"]
    assert losses == 2 or (tmp_path / "a").read_bytes() == b"x" * 1000


@pytest.mark.parametrize("losses", [1, 2])
def test_part_that_is_lost_after_a_long_time_is_sent_again_once(
    clock: Clock, place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, losses: int
) -> None:
    (tmp_path / "a").write_text("x")
    sent: list[bytes] = []

    def execute(session: Session, program: Program, pipes: Pipes) -> int:
        if pipes.stdin is None:
            pipes.stdout(b"/in/a")
            return 0
        sent.append(b"".join(pipes.stdin))
        return clock.lose() if len(sent) <= losses else 0

    monkeypatch.setattr(executing, "run", execute)
    with nullcontext() if losses == 1 else pytest.raises(Unreachable):
        place.put(str(tmp_path / "a"), "/in/")
    assert len(sent) == 2
    assert sent[0] == sent[1]


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder of a user who is not root: root may write read-only files."""
    with TemporaryDirectory() as path:
        if _USER:
            os.chown(path, _USER, -1)
        yield Path(path)


def test_parts_of_read_only_file_that_are_sent_again_give_the_same_file(
    place: Place, tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "PART_BYTES", 2 << 20)
    source = tmp_path / "big"
    source.write_bytes(os.urandom(5_000_000))
    source.chmod(0o444)
    runs: list[list[str]] = []

    def execute(session: Session, program: Program, pipes: Pipes) -> int:
        command = program.command
        data = b"".join(pipes.stdin or ())
        done = subprocess.run(
            command,
            input=data,
            capture_output=True,
            user=_USER,
            env={"PATH": os.defpath},  # that of the tests may have folders of root
            check=False,
        )
        pipes.stdout(done.stdout)
        pipes.stderr(done.stderr)
        runs.append(list(command))
        if pipes.stdin is not None and runs.count(runs[-1]) == 1:
            raise Unreachable("the connection was lost")
        return done.returncode

    monkeypatch.setattr(executing, "run", execute)
    place.put(str(source), f"{folder}/")
    assert len(runs) == 1 + 2 * 4, "each part twice"
    assert (folder / "big").read_bytes() == source.read_bytes()
    assert (folder / "big").stat().st_mode & 0o777 == 0o444
