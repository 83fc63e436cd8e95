"""The output of `kubectl sky serve`."""

from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from kubectl_sky.cli import options
from kubectl_sky.serve import action
from kubectl_sky.serve.command import command


@pytest.mark.parametrize("arguments", [["status"], ["down", "--all"]])
def test_names_without_services_are_no_line(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    session = SimpleNamespace(namespace="default")
    monkeypatch.setattr(options.ClusterFlags, "session", lambda self: session)
    monkeypatch.setattr(options, "scope", lambda *given: SimpleNamespace(namespace="", user=None))
    monkeypatch.setattr("kubectl_sky.actions.identity.user", lambda *given: None)
    for name in ("find_all", "leftovers"):
        monkeypatch.setattr(action, name, lambda *given: [])
    done = CliRunner().invoke(command, [*arguments, "-o", "name"], catch_exceptions=False)
    assert (done.exit_code, done.stdout) == (0, "")
