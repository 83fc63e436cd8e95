"""Trouble with the cluster: one line that says what and what next, and exit code 3."""

import json
import os
import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kubectl_sky import kinds
from kubectl_sky.cluster.session import Connection, Session
from kubectl_sky.workloads import registry
from tests.cluster.target import Cluster
from tests.contract.proxies import FrontProxy
from tests.e2e.conftest import Command

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
    """Run what has to fail by the cluster's fault; return its only line."""
    done = sky(*arguments, stdin=HELLO)
    assert (done.returncode, done.stdout) == (3, ""), done.stderr
    assert re.fullmatch(r"error: [^\n]+\n", done.stderr), done.stderr
    return done.stderr


@pytest.fixture
def closed() -> str:
    """The address of a port where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    return f"https://127.0.0.1:{port}"


@pytest.mark.parametrize("command", EVERY, ids=" ".join)
def test_a_dead_server(sky: Command, closed: str, command: tuple[str, ...]) -> None:
    line = only_line(sky, (*command, "--server", closed))
    assert "connection refused" in line
    assert closed.removeprefix("https://") in line


@pytest.mark.parametrize("command", EVERY, ids=" ".join)
def test_a_token_that_is_no_longer_good(sky: Command, command: tuple[str, ...]) -> None:
    config = json.loads(Path(sky.environment["KUBECONFIG"]).read_text())
    for user in config["users"]:
        user["user"] = {"token": "expired-secret-token"}
    Path(sky.environment["KUBECONFIG"]).write_text(json.dumps(config))
    line = only_line(sky, command)
    assert "unauthorized" in line and "expired" in line
    assert "expired-secret-token" not in line


def test_no_kubeconfig(sky: Command) -> None:
    Path(sky.environment["KUBECONFIG"]).unlink()
    line = only_line(sky, ("list",))
    assert "no kubeconfig" in line and "--kubeconfig" in line


@pytest.mark.parametrize("text", ["{", "- a", "", "kind: Config\n"])
def test_a_kubeconfig_that_is_none(sky: Command, text: str) -> None:
    Path(sky.environment["KUBECONFIG"]).write_text(text)
    only_line(sky, ("list",))


def test_a_context_that_is_not_there(sky: Command) -> None:
    line = only_line(sky, ("list", "--context", "nowhere"))
    assert "nowhere" in line and "alice" in line


def test_a_namespace_that_is_not_there(sky: Command) -> None:
    line = only_line(sky, ("submit", "-", "-n", "no-such-place"))
    assert "namespace no-such-place does not exist" in line
    assert "kubectl create namespace no-such-place" in line


@pytest.fixture
def proxy(cluster: Cluster) -> Iterator[FrontProxy]:
    """A proxy before the API server that keeps what was asked for."""
    session = Session.connect(Connection(kubeconfig=str(cluster.kubeconfig)))
    found = FrontProxy(session, ())
    yield found
    found.close()
    session.close()


def asked(proxy: FrontProxy) -> list[str]:
    """What was asked for, by plural, since the last time."""
    found = sorted(path.partition("?")[0].rpartition("/")[2] for _, path in proxy.seen)
    proxy.seen.clear()
    return found


def test_list_costs_a_request_a_kind_however_many_tasks(
    sky: Command, cluster: Cluster, proxy: FrontProxy
) -> None:
    for number in range(5):
        flags = ("--id", f"count00{number}", "--detach", "--cpus", "500")
        done = sky("submit", "-", *flags, stdin=HELLO)
        assert done.returncode == 0, done.stderr
    assert len(sky.json("list", "--server", proxy.url)["tasks"]) == 5
    every = sorted(kind.plural for kind in (*registry.KINDS, kinds.POD))
    assert asked(proxy) == every
    assert sky("list", "--server", proxy.url).returncode == 0
    again = asked(proxy)
    if cluster.driver == "practice":  # where nobody installs anything
        assert again == ["jobs", "pods"], "what is not served is not asked for each time"
    old = time.time() - 700
    for file in Path(sky.folder, ".cache/kubectl-sky/absent").glob("*/*"):
        os.utime(file, (old, old))
    assert len(sky.json("list", "--server", proxy.url)["tasks"]) == 5
    assert asked(proxy) == every, "it may be installed by now"
    assert sky("auth", "logout").returncode == 0
    assert sky("list", "--server", proxy.url).returncode == 0
    assert "selfsubjectreviews" in asked(proxy), "and one to know who asks"
    assert sky("stop", "--all", "--all-users", "-y").returncode == 0
