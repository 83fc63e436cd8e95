"""Cluster errors: a single line with a hint, and exit code 3."""

import json
import re
import socket
from pathlib import Path

import pytest

from tests.e2e.command import Command

pytestmark = pytest.mark.practice_only

HELLO = "name: hello\nrun: echo hello\n"
EVERY = (
    ("list",),
    ("status", "x"),
    ("logs", "x"),
    ("wait", "x"),
    ("stop", "--all", "-y"),
    ("clean", "-y"),
    ("volumes", "list"),
    ("volumes", "create", "v", "1Gi"),
    ("submit", "-"),
    ("submit", "-", "--dry-run=server"),
)


def only_line(sky: Command, arguments: tuple[str, ...]) -> str:
    """Run a command that must fail with exit code 3; return its error."""
    done = sky(*arguments, stdin=HELLO)
    assert (done.returncode, done.stdout) == (3, ""), done.stderr
    assert re.fullmatch(r"error: [^\n]+\n(hint: [^\n]+\n)?", done.stderr), done.stderr
    return done.stderr


@pytest.fixture
def closed() -> str:
    """The address of a closed port."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    return f"https://127.0.0.1:{port}"


def test_commands_unreachable_server_print_error(sky: Command, closed: str) -> None:
    for command in EVERY:
        line = only_line(sky, (*command, "--server", closed))
        assert "connection refused" in line
        assert closed.removeprefix("https://") in line


def test_commands_expired_token_print_error_without_token(sky: Command) -> None:
    config = json.loads(Path(sky.environment["KUBECONFIG"]).read_text())
    for user in config["users"]:
        user["user"] = {"token": "expired-secret-token"}
    Path(sky.environment["KUBECONFIG"]).write_text(json.dumps(config))
    for command in EVERY:
        line = only_line(sky, command)
        assert "unauthorized" in line and "expired" in line
        assert "expired-secret-token" not in line


def test_submit_unknown_namespace_prints_create_command(sky: Command) -> None:
    line = only_line(sky, ("submit", "-", "-n", "no-such-place"))
    assert "namespace no-such-place does not exist" in line
    assert "kubectl create namespace no-such-place" in line
