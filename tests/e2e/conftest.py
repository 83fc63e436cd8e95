"""The real command against both clusters: `sky` runs it, `kubectl` is kubectl."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.cluster import practice
from tests.cluster.shell import Unavailable, absent
from tests.cluster.target import Cluster
from tests.e2e.command import PROGRAM, Command, InProcess, home


@pytest.fixture
def environment(cluster: Cluster, namespace: str, tmp_path: Path) -> dict[str, str]:
    """A home of its own, and a kubeconfig whose contexts begin in the test's namespace."""
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    for context in config["contexts"]:
        context["context"]["namespace"] = namespace
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(json.dumps(config))
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return home(tmp_path) | {"KUBECONFIG": str(kubeconfig), "PATH": path}


@pytest.fixture
def offline(tmp_path: Path) -> Command:
    """This program, with neither a cluster nor a login."""
    environment = home(tmp_path) | {"PATH": os.environ["PATH"]}
    return InProcess(PROGRAM, environment, tmp_path)


@pytest.fixture
def sky(environment: dict[str, str], tmp_path: Path) -> Iterator[Command]:
    """This program, logged in as `tester`."""
    command = InProcess(PROGRAM, environment, tmp_path)
    assert command("auth", "login", "tester").returncode == 0
    yield command
    command.end()


@pytest.fixture
def kubectl(environment: dict[str, str], cluster: Cluster, tmp_path: Path) -> Command:
    """kubectl, which finds this program as a plugin."""
    try:
        program = cluster.kubectl or practice.kubectl()
    except Unavailable as error:
        absent(f"NO KUBECTL: {error}")
    return Command((str(program),), environment, tmp_path)
