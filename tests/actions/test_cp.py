"""Copies whose connection is lost after a long time."""

from functools import partial
from pathlib import Path
from time import sleep

import pytest

from kubectl_sky.cluster import exec as executing
from kubectl_sky.cluster import session as sessions
from kubectl_sky.cluster.exec import Pipes, Program
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import Unreachable
from kubectl_sky.tasks.cp import Place
from kubectl_sky.tasks.ui import UI
from tests.attacks.tars import entry, tar
from tests.fake_cluster import FakeCluster

_TIMEOUT = 0.2


@pytest.fixture
def place(api: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A pod, reached by a session that waits for a short time for the API server."""
    monkeypatch.setattr(sessions, "TIMEOUT_SECONDS", _TIMEOUT)
    session = api.session()
    session.send("GET", "/version")
    return Place(session, partial(Program, "default", "a", "main"), "pod a", UI())


def _lose(session: Session, program: Program, pipes: Pipes) -> int:
    sleep(2 * _TIMEOUT)
    raise Unreachable("the connection was lost")


def test_copy_that_is_lost_after_a_long_time_goes_on(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tar(entry("./a", b"x" * 1000))
    runs: list[str] = []

    def execute(session: Session, program: Program, pipes: Pipes) -> int:
        first = int(program.command[5])
        runs.append(program.command[6])
        pipes.stdout(b"state\n" + data[:700] if first == 1 else data[first - 1 :])
        return _lose(session, program, pipes) if first == 1 else 0

    monkeypatch.setattr(executing, "run", execute)
    place.get("/out/a", str(tmp_path / "a"))
    assert runs == ["", "state"]
    assert (tmp_path / "a").read_bytes() == b"x" * 1000


def test_part_that_is_lost_after_a_long_time_is_sent_again(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_text("x")
    sent: list[bytes] = []

    def execute(session: Session, program: Program, pipes: Pipes) -> int:
        if pipes.stdin is None:
            pipes.stdout(b"/in/a")
            return 0
        sent.append(b"".join(pipes.stdin))
        return 0 if len(sent) == 2 else _lose(session, program, pipes)

    monkeypatch.setattr(executing, "run", execute)
    place.put(str(tmp_path / "a"), "/in/")
    assert len(sent) == 2
    assert sent[0] == sent[1]
