"""`make test-all` checks the workflows by actionlint, where Go is installed."""

import pytest

from tests.cluster import actionlint, golang
from tests.cluster.shell import Broken, Unavailable


def refuse(monkeypatch: pytest.MonkeyPatch, problem: Exception) -> None:
    def build(*_: object) -> None:
        raise problem

    monkeypatch.setattr(golang, "build", build)


def test_actionlint_without_go_prints_warning(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    refuse(monkeypatch, Unavailable("Go is not installed"))
    actionlint.main()
    expected = "warning: workflows not checked by actionlint: Go is not installed\n"
    assert capsys.readouterr() == ("", expected)


def test_actionlint_that_fails_exits_with_error(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(monkeypatch, Broken("release.yml:1:1: unexpected key"))
    with pytest.raises(SystemExit, match=r"^error: actionlint: release.yml:1:1: unexpected key$"):
        actionlint.main()
