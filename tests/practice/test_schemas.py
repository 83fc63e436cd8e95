"""The schemas of the practice cluster are those of the real server of its version."""

import json

import pytest

from kubectl_sky.cluster.session import Connection, Session
from kubectl_sky.practice import schemas
from tests.cluster.target import Cluster
from tests.practice.schemas import of_server


def minor(cluster: Cluster) -> str:
    """The version of a server, to the second number."""
    with_version = Session.connect(Connection(kubeconfig=str(cluster.kubeconfig)))
    found = with_version.request("GET", "/version")
    return f"{found['major']}.{found['minor']}"


def test_same_as_the_real_server(real_cluster: Cluster, practice_cluster: Cluster) -> None:
    ours, theirs = minor(practice_cluster), minor(real_cluster)
    if ours != theirs:
        pytest.skip(f"the real cluster is of {theirs}, the practice cluster of {ours}")
    session = Session.connect(Connection(kubeconfig=str(real_cluster.kubeconfig)))
    real, kept = of_server(session), schemas.definitions()
    assert sorted(real) == sorted(kept)
    for name, schema in real.items():
        assert json.dumps(kept[name], sort_keys=True) == json.dumps(schema, sort_keys=True), (
            f"{name}: write them anew with `python -m tests.practice.schemas`"
        )
