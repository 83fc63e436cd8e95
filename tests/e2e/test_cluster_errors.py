"""Cluster errors: a single line with a hint, and exit code 3."""

import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from kubectl_sky.cluster.session import Connection, Session
from tests.cluster.target import Cluster
from tests.contract.proxies import FrontProxy
from tests.e2e.command import Command
from tests.polling import eventually

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


def test_list_without_kubeconfig_prints_error(sky: Command) -> None:
    Path(sky.environment["KUBECONFIG"]).unlink()
    line = only_line(sky, ("list",))
    assert "no kubeconfig" in line and "--kubeconfig" in line


def test_list_invalid_kubeconfig_prints_error(sky: Command) -> None:
    for text in ("{", "- a", "", "kind: Config\n"):
        Path(sky.environment["KUBECONFIG"]).write_text(text)
        only_line(sky, ("list",))


def test_list_unknown_context_prints_existing_contexts(sky: Command) -> None:
    line = only_line(sky, ("list", "--context", "nowhere"))
    assert "nowhere" in line and "alice" in line


def test_submit_unknown_namespace_prints_create_command(sky: Command) -> None:
    line = only_line(sky, ("submit", "-", "-n", "no-such-place"))
    assert "namespace no-such-place does not exist" in line
    assert "kubectl create namespace no-such-place" in line


@pytest.fixture
def proxy(cluster: Cluster) -> Iterator[FrontProxy]:
    """A proxy in front of the API server that records requests."""
    session = Session.connect(Connection(kubeconfig=str(cluster.kubeconfig)))
    found = FrontProxy(session, ())
    yield found
    found.close()
    session.close()


def requested_plurals(proxy: FrontProxy) -> list[str]:
    """Return the plurals requested since the last call."""
    found = sorted(path.partition("?")[0].rpartition("/")[2] for _, path in proxy.seen)
    proxy.seen.clear()
    return found


def test_list_sends_single_request_per_kind(
    sky: Command, cluster: Cluster, proxy: FrontProxy
) -> None:
    for number in range(3):
        flags = ("--id", f"count00{number}", "--detach", "--cpus", "500")
        done = sky("submit", "-", *flags, stdin=HELLO)
        assert done.returncode == 0, done.stderr
    assert len(sky.json("list", "--server", proxy.url)["tasks"]) == 3
    first = requested_plurals(proxy)
    assert first.count("apis") == first.count("pods") == first.count("jobs") == 1
    if cluster.driver == "practice":  # no other kinds are installed
        assert first == ["apis", "jobs", "pods"]
    assert sky("list", "--server", proxy.url).returncode == 0
    assert requested_plurals(proxy) == first
    assert sky("auth", "logout").returncode == 0
    assert sky("list", "--server", proxy.url).returncode == 0
    assert "selfsubjectreviews" in requested_plurals(proxy), (
        "a request for the identity of the user"
    )
    assert sky("stop", "--all", "--all-users", "-y").returncode == 0


HALF = "name: half\nnum_nodes: 2\nrun: test $SKYPILOT_NODE_RANK = 0 || sleep 300\n"


def test_list_formats_show_same_states(sky: Command) -> None:
    tasks = {"over0001": HELLO, "half0001": HALF, "half0002": HALF, "fail0001": "run: exit 3\n"}
    for task_id, text in tasks.items():
        backend = "indexed" if task_id == "half0002" else "jobs"
        flags = ("--id", task_id, "--backend", backend, "--detach")
        done = sky("submit", "-", *flags, stdin=text)
        assert done.returncode == 0, done.stderr
    template = (
        'jsonpath={range .tasks[*]}{.task_id}{" "}{.metadata.nodes[*].detailed_status}{"\\n"}{end}'
    )
    wanted = [
        "fail0001 failed",
        "half0001 completed running",
        "half0002 completed running",
        "over0001 completed",
    ]

    def check() -> bool:
        rows = sorted(filter(None, sky("list", "-o", template).stdout.splitlines()))
        assert rows == wanted
        return True

    eventually(check, 90)
    states = [line.split()[:4] for line in sky("list").stdout.splitlines()]
    assert [line.split()[:4] for line in sky("list", "-o", "wide").stdout.splitlines()] == states
    assert sky("list", "--status", "running", "-o", "name").returncode == 0
    assert sky("stop", "--all", "-y").returncode == 0
