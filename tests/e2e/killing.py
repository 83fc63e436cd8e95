"""Submits that are killed after some of their writes, and what commands say of what is left."""

import json
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from threading import Event, Lock
from typing import Any
from urllib.parse import urlsplit

import pytest

from kubectl_sky.cluster.session import Connection, Session
from kubectl_sky.workloads import registry
from tests.cluster.target import ADMIN, Cluster
from tests.contract.proxies import FrontProxy
from tests.e2e.command import Command
from tests.e2e.support import PAIR, objects
from tests.polling import eventually

ID = "killed01"


@dataclass(frozen=True)
class Write:
    """A write at which a submit is killed: it never returns, and `number` such ones came before.

    `nodes` nodes of the task exist then.
    """

    method: str
    word: str  # a plural, or the name of an object
    nodes: int
    number: int = 0


class StallingProxy(FrontProxy):
    """Forwards to the API server until the write at which a submit is killed; all others wait."""

    def __init__(self, direct: Session, write: Write) -> None:
        self._match = write.method, write.word
        self._left = write.number
        self._lock = Lock()
        self._closed = Event()
        self.stalled = Event()
        super().__init__(direct, [])

    def forward(
        self, direct: Session, request: BaseHTTPRequestHandler, body: bytes
    ) -> tuple[int, dict[str, str], bytes]:
        parts = urlsplit(request.path)
        writes = request.command in ("POST", "PATCH") and "dryRun" not in parts.query
        with self._lock:
            method, word = self._match
            if writes and request.command == method and parts.path.rpartition("/")[2] == word:
                self._left -= 1
                if self._left < 0:
                    self.stalled.set()
        if writes and "/namespaces/" in parts.path and self.stalled.is_set():
            self._closed.wait(60)
            return 500, {}, b"{}"
        return super().forward(direct, request, body)

    def close(self) -> None:
        self._closed.set()
        super().close()


def check(
    sky: Command,
    kubectl: Command,
    cluster: Cluster,
    backend: str,
    text: str = PAIR,
) -> None:
    """Kill a submit of two nodes at several writes; the next one goes on with --id.

    Nodes run only if the cluster has the controller.
    """
    plural = registry.named(backend).kind.plural
    one_job_per_node = [Write("POST", plural, nodes=1, number=1)] * (backend in ("jobs", "volcano"))
    no_owners = Write("PATCH", f"pair-{ID}", nodes=2)
    writes = [Write("POST", plural, nodes=0), *one_job_per_node, no_owners]
    runs = backend in ("jobs", "indexed") or (cluster.driver != "practice" and backend != "volcano")
    flags = ("--backend", backend, "--id", ID)
    session = Session.connect(Connection(kubeconfig=str(cluster.kubeconfig), context=ADMIN))
    try:
        for write in writes:
            _kill(sky, session, write, flags, text)
            _check_shown(sky, write.nodes)
        done = sky("submit", "-", "--detach", *flags, stdin=text)
        assert done.returncode == 0, done.stderr
        assert all("ownerReferences" in item["metadata"] for item in _auxiliary(kubectl))
        if runs:
            eventually(lambda: sky.json("status", ID)["metadata"]["running_nodes"] == 2, 90)
        assert sky("stop", ID).returncode == 0
        eventually(lambda: _left(kubectl, backend) == [], 60)

        _kill(sky, session, no_owners, flags, text)
        assert all("ownerReferences" not in item["metadata"] for item in _auxiliary(kubectl))
        done = sky("stop", ID)
        assert (done.returncode, done.stderr) == (0, "Stopped 1 task\n")
        eventually(lambda: _left(kubectl, backend) == [], 60)
    finally:
        session.close()


def _check_shown(sky: Command, nodes: int) -> None:
    """Check what the commands say of a task of which `nodes` of two nodes exist."""
    cleaned = sky("clean", "--orphans", "--older-than", "0s", "--dry-run=client")
    assert (ID in cleaned.stdout) == (nodes == 0), cleaned.stderr
    if nodes == 0:
        assert sky("list").stderr.startswith("No tasks found")
        assert f'task "{ID}" not found' in sky("doctor", ID).stderr
        return
    note = "incomplete: 1 of 2 nodes submitted"

    def agree() -> bool:
        listed, status = sky("list", "-o", "wide"), sky.json("status", ID)
        assert (note in listed.stderr and f"--id {ID}" in listed.stderr) == (nodes == 1)
        assert (status["metadata"]["note"] == note) == (nodes == 1), status
        state = listed.stdout.splitlines()[1].split()[2]
        assert state == status["status"] == sky.json("doctor", ID)["status"]
        return True

    eventually(agree)  # a node may start between two commands


def _auxiliary(kubectl: Command) -> list[dict[str, Any]]:
    """Return the objects of the task that its workload owns after a submit."""
    items = kubectl.json("get", "configmaps,secrets,services", "-l", f"task-id={ID}")["items"]
    assert items
    return list(items)


def _left(kubectl: Command, backend: str) -> list[str]:
    workload = registry.named(backend)
    resources = [kind.resource for kind in (workload.kind, workload.companion_kind) if kind]
    names = kubectl("get", ",".join(resources), "-l", f"task-id={ID}", "-o", "name")
    assert names.returncode == 0, names.stderr
    return objects(kubectl, ID) + names.stdout.split()


def _kill(sky: Command, direct: Session, write: Write, flags: Sequence[str], text: str) -> None:
    """Kill a submit that goes through a proxy."""
    proxy = StallingProxy(direct, write)
    try:
        path = Path(sky.environment["KUBECONFIG"])
        config = json.loads(path.read_text())
        current = next(
            item for item in config["contexts"] if item["name"] == config["current-context"]
        )
        context = {"name": "proxy", "context": {**current["context"], "cluster": "proxy"}}
        config["clusters"].append({"name": "proxy", "cluster": {"server": proxy.url}})
        config["contexts"].append(context)
        other = path.with_name("proxied")
        other.write_text(json.dumps(config))
        process = sky.start(
            *("submit", sky.write("task.yaml", text), "--detach", "--kubeconfig", str(other)),
            *("--context", "proxy", *flags),
        )
        if not proxy.stalled.wait(60):
            process.kill()
            pytest.fail(f"no such write: {process.communicate()}")
        process.send_signal(signal.SIGKILL)
        process.wait()
    finally:
        proxy.close()
