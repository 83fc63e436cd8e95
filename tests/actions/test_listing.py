"""Kinds that are listed per cluster, and the number of requests."""

import json
import time
from collections.abc import Iterator

import pytest

from kubectl_sky.cluster.session import Connection, Session
from kubectl_sky.errors import ClusterError
from kubectl_sky.tasks import find
from kubectl_sky.workloads import registry
from tests.attacks.hostile import HostileServer, answer

LIST = b'{"metadata": {}, "items": []}'


def requested(groups: bytes, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the plurals that two listings by one session ask for."""

    def serve(head: str) -> Iterator[bytes]:
        yield groups if head.startswith("GET /apis ") else answer(LIST)

    monkeypatch.setenv("KUBECONFIG", "/none")
    server = HostileServer(serve)
    session = Session.connect(Connection(server=server.url))
    for _ in range(2):
        assert find.list_objects(session, find.Scope("default", None)) == []
    server.close()
    paths = [head.split()[1].partition("?")[0] for head in server.requests]
    return sorted(path.rpartition("/")[2] for path in paths)


def test_listing_with_jobset_installed_lists_jobsets(monkeypatch: pytest.MonkeyPatch) -> None:
    jobset = {"name": "jobset.x-k8s.io", "versions": [{"version": "v1alpha2"}]}
    groups = answer(json.dumps({"groups": [jobset]}).encode())
    assert requested(groups, monkeypatch).count("jobsets") == 2


def test_listing_without_right_to_discovery_lists_every_kind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plurals = requested(answer(b"{}", "403 Forbidden"), monkeypatch)
    assert {kind.plural for kind in registry.KINDS} <= set(plurals)


def test_listing_waits_once_for_server_that_does_not_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def serve(head: str) -> Iterator[bytes]:
        time.sleep(1.5 if head.startswith("GET /apis ") else 0)
        yield answer(b"{}", "404 Not Found")

    monkeypatch.setenv("KUBECONFIG", "/none")
    server = HostileServer(serve)
    session = Session.connect(Connection(server=server.url))
    for expected in (1, 2):  # a later listing asks again
        with pytest.raises(ClusterError):
            find.list_objects(session, find.Scope("default", None))
        assert sum(head.startswith("GET /apis ") for head in server.requests) == expected
    server.close()
