"""Errors of the cluster, in every command: a single line with a hint, and exit code 3."""

import re
from pathlib import Path

import pytest

from kubectl_sky.cli import main
from tests.actions.conftest import Run
from tests.fake_cluster import FakeCluster
from tests.ports import free_port

COMMANDS = (
    "list",
    "status x",
    "logs x",
    "wait x",
    "stop --all -y",
    "clean -y",
    "volumes list",
    "volumes create v 1Gi",
    "submit task.yaml",
    "submit task.yaml --dry-run=server",
)


@pytest.fixture(autouse=True)
def task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("task.yaml").write_text("name: hello\nrun: echo hello\n")


def check(code: int, out: str, err: str) -> None:
    assert (code, out) == (3, ""), err
    assert re.fullmatch(r"error: [^\n]+\n(hint: [^\n]+\n)?", err), err


@pytest.mark.usefixtures("api")  # its short waits
@pytest.mark.parametrize("command", COMMANDS)
def test_command_with_unreachable_server_prints_one_error(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    address = f"127.0.0.1:{free_port()}"
    code = main.main([*command.split(), "--server", f"https://{address}"])
    out, err = capsys.readouterr()
    check(code, out, err)
    assert "connection refused" in err
    assert address in err


@pytest.mark.parametrize("command", COMMANDS)
def test_command_with_expired_token_prints_one_error_without_it(
    run: Run, api: FakeCluster, command: str
) -> None:
    code, out, err = run(*command.split(), "--token", "expired-secret-token")
    check(code, out, err)
    assert "unauthorized" in err
    assert "expired" in err
    assert "expired-secret-token" not in err


def test_server_url_of_another_machine_needs_https(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["list", "--server-url", "http://sky.example.com"]) == 2
    assert "use https://HOST, or http:// on this machine" in capsys.readouterr().err
