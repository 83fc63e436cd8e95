"""Commands through a `kubectl sky api` server: the same results as directly."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.rest_server import RestServer
from tests.e2e.command import Command

TASK = """\
name: pair
num_nodes: 2
workdir: code
run: cat hello.txt; sleep 600
"""


@pytest.fixture
def rest_server(cluster: Any) -> Iterator[RestServer]:
    with RestServer.start(cluster) as server:
        yield server


@pytest.fixture
def through(sky: Command, rest_server: RestServer) -> Command:
    """The command, which goes through the server."""
    return replace(sky, environment={**sky.environment, "KUBECTL_SKY_SERVER": rest_server.url})


@pytest.mark.practice_only
def test_task_through_the_server_is_the_same_task(sky: Command, through: Command) -> None:
    folder = Path(sky.folder)
    (folder / "code").mkdir()
    (folder / "code" / "hello.txt").write_text("hello from a file\n")
    submitted = through("submit", "-", "--detach", "--id", "through1", stdin=TASK)
    assert submitted.returncode == 0, submitted.stderr

    follower = through.start("logs", "-f", "through1")
    lines = [follower.stdout.readline() for _ in range(2)]  # type: ignore[union-attr]
    assert sorted(lines) == [f"node-{rank} | hello from a file\n" for rank in (0, 1)]

    ran = through("exec", "through1", "--rank", "1", "--", "cat", "hello.txt")
    assert (ran.returncode, ran.stdout) == (0, "hello from a file\n")
    assert through("cp", "through1:hello.txt", "copy.txt").returncode == 0
    assert (folder / "copy.txt").read_text() == "hello from a file\n"

    statuses = [
        json.loads(run("status", "through1", "-o", "json").stdout) for run in (sky, through)
    ]
    assert statuses[0] == statuses[1]
    assert through("stop", "through1").returncode == 0
    follower.communicate(timeout=60)  # it ends with its task
    assert "through1" not in sky("list").stdout
