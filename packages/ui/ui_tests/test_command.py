"""`kubectl sky ui` without its packages, and without a terminal."""

import io
import os
import sys

import pytest

from kubectl_sky.cli import main, output
from kubectl_sky.cluster.session import Session
from tests.fake_cluster import FakeCluster


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def on_terminal(monkeypatch: pytest.MonkeyPatch) -> dict[str, Terminal]:
    """Make stdin, stdout and stderr terminals; pytest replaces them after fixtures."""
    streams = {name: Terminal() for name in ("stdin", "stdout", "stderr")}
    for name, stream in streams.items():
        monkeypatch.setattr(sys, name, stream)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(output, "style", output.Style())  # --color changes it
    return streams


def test_ui_on_dumb_terminal_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    streams = on_terminal(monkeypatch)
    monkeypatch.setenv("TERM", "dumb")
    assert main.main(["ui"]) == 2
    assert "TERM=dumb" in streams["stderr"].getvalue()


@pytest.mark.parametrize("name", ["stdin", "stdout", "stderr"])
def test_ui_without_terminal_is_refused(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    streams = on_terminal(monkeypatch)
    no_terminal = io.StringIO()
    stderr = no_terminal if name == "stderr" else streams["stderr"]
    monkeypatch.setattr(sys, name, no_terminal)
    assert main.main(["ui", "--color", "never"]) == 2
    message = "stdin, stdout or stderr is not a terminal"
    hint = "use `kubectl sky list --watch`"
    assert stderr.getvalue() == f"error: {message}\nhint: {hint}\n"
    assert streams["stdout"].getvalue() == ""


@pytest.mark.parametrize(("flags", "no_color"), [((), None), (("--color", "never"), "1")])
def test_ui_starts_with_scope_of_flags(
    monkeypatch: pytest.MonkeyPatch, flags: tuple[str, ...], no_color: str | None
) -> None:
    started: list[tuple[object, ...]] = []

    def run(session: Session, *scope: object) -> int:
        started.append((*scope, os.environ.get("NO_COLOR")))
        return 130

    monkeypatch.setattr("kubectl_sky_ui.app.run", run)
    monkeypatch.setattr(Session, "connect", FakeCluster().session)
    on_terminal(monkeypatch)
    monkeypatch.setenv("NO_COLOR", "")
    assert main.main(["ui", "-A", "--all-users", "--user", "alice", *flags]) == 130
    ((user, namespace, all_users, color),) = started
    assert (str(user), namespace, all_users) == ("User(name='alice')", None, True)
    assert color == no_color
