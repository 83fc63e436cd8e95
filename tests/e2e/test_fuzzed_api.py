"""The REST API fuzzed from its OpenAPI, by a user with rights in one namespace only."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.rest_server import RestServer
from tests.cluster.target import Cluster
from tests.e2e.command import Command

SEED = "7"
SECONDS = "60"  # of each run; what is left after the first cases goes to random ones
CONFIG = """
[[operations]]  # what a task file or a size means is checked beyond the schema
include-path-regex = "^/(tasks/submit|render|volumes/create|services/create|services/.*/update)$"
checks.positive_data_acceptance.enabled = false

[[operations]]  # says what is wrong instead of refusing it
include-path = "/validate"
checks.negative_data_rejection.enabled = false
"""
NOT_FUZZED = "^/kubernetes|/events$|^/log(in|out)$"  # others test these; some never end


@pytest.mark.tools
@pytest.mark.practice_only
@pytest.mark.timeout(600)
@pytest.mark.parametrize("known", [False, True], ids=["any namespace", "own namespace"])
def test_schemathesis_with_all_checks_finds_nothing(
    known: bool, cluster: Cluster, sky: Command, namespace: str, tmp_path: Path
) -> None:
    added = sky("users", "add", cluster.users["alice"], "-n", namespace)
    assert added.returncode == 0, added.stderr

    as_alice = ("-n", namespace, "--context", "alice")
    hello = "name: hello\nresources: {image_id: 'busybox:1.36'}\nrun: echo hello\n"
    task = sky("submit", "-", "-o", "name", *as_alice, stdin=hello)
    assert task.returncode == 0, task.stderr

    config = CONFIG
    if known:
        config += f'[parameters]\n"query.namespace" = "{namespace}"\n'
        config += f'"path.task_id" = "{task.stdout.split()[-1].removeprefix("task/")}"\n'
    file = tmp_path / "schemathesis.toml"
    file.write_text(config)
    with RestServer.start(cluster) as server:
        options = ("--seed", SEED, "--max-time", SECONDS, "--exclude-path-regex", NOT_FUZZED)
        token = ("-H", f"Authorization: Bearer {cluster.token('alice')}")
        program = [str(Path(sys.executable).with_name("st")), "--config-file", str(file), "run"]
        done = subprocess.run(
            [*program, f"{server.url}/openapi.json", *token, *options, "--no-color"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stdout[-20_000:]
    assert "Tested: " in done.stdout
