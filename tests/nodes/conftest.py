"""Three cluster nodes, a user with the rights of `users add`, and what may happen to them."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.cluster.node_faults import NodeFaults
from tests.cluster.target import Cluster
from tests.e2e.command import PROGRAM, Command, InProcess
from tests.e2e.conftest import environment, kubectl  # noqa: F401
from tests.polling import eventually


@pytest.fixture(scope="session")
def cluster(three_nodes: Cluster) -> Cluster:
    """The cluster of three cluster nodes."""
    return three_nodes


@pytest.fixture
def faults(cluster: Cluster) -> Iterator[NodeFaults]:
    """Inject faults; repair everything afterwards."""
    control = NodeFaults(cluster)
    yield control
    control.mend()


@pytest.fixture
def rights() -> tuple[str, ...]:
    """Flags of `users add` for more rights than those of tasks."""
    return ()


@pytest.fixture
def sky(
    environment: dict[str, str],  # noqa: F811
    cluster: Cluster,
    namespace: str,
    rights: tuple[str, ...],
    tmp_path: Path,
) -> Iterator[Command]:
    """The program as alice, who has nothing but the Role of `users add`."""
    user = cluster.users["alice"]
    admin = InProcess(PROGRAM, environment, tmp_path)
    added = admin("users", "add", user, "--namespace", namespace, *rights)
    assert added.returncode == 0, added.stderr

    config = yaml.safe_load(Path(environment["KUBECONFIG"]).read_text())
    config["current-context"] = "alice"
    kubeconfig = tmp_path / "kubeconfig-of-alice"
    kubeconfig.write_text(json.dumps(config))
    command = InProcess(PROGRAM, environment | {"KUBECONFIG": str(kubeconfig)}, tmp_path)
    eventually(lambda: command("list").returncode == 0)
    yield command
    command.end()
