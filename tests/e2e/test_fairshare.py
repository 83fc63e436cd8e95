"""Fair share with the real CRDs of Volcano; the tests set the phases of PodGroups."""

import json
import signal
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import yaml

from kubectl_sky.cluster import objects
from kubectl_sky.cluster.session import Connection, Session
from kubectl_sky.errors import ClusterError
from kubectl_sky.plan.fair_share import LABEL, class_name
from kubectl_sky.words import kinds
from kubectl_sky.words.names import CONTROLLERS_NAMESPACE
from kubectl_sky_server.fairshare.model_policy import Policy
from kubectl_sky_server.fairshare.model_state import State
from tests.cluster.target import ADMIN, Cluster
from tests.e2e.command import Command
from tests.e2e.volcano import alone, volcano
from tests.polling import eventually

__all__ = ["alone", "volcano"]

Json = dict[str, Any]

POLICY = Policy(base=100_000, floor=1_000, penalty=10, recovery_interval=10**6)


@pytest.fixture
def queue(namespace: str, cluster: Cluster) -> Iterator[str]:
    """The name of a queue that only one test uses; its classes are deleted afterwards."""
    name = f"q-{uuid4().hex[:8]}"
    yield name
    session = connect(str(cluster.kubeconfig), namespace)
    for item in objects.list_all(session, kinds.PRIORITY_CLASS, label_selector=LABEL):
        if item.metadata.name.startswith(class_name(name, "")[:20]):
            objects.delete(session, kinds.PRIORITY_CLASS, item.metadata.name)
    session.close()


def connect(kubeconfig: str, namespace: str) -> Session:
    return Session.connect(Connection(kubeconfig=kubeconfig, context=ADMIN, namespace=namespace))


class Groups:
    """PodGroups of alice in a queue, and the class that they use."""

    def __init__(self, session: Session, queue: str) -> None:
        self.session = session
        self.queue = queue
        self.name = class_name(queue, "alice")

    def create(self, name: str, phase: str = "") -> None:
        objects.create(
            self.session,
            {
                "apiVersion": kinds.POD_GROUP.api_version,
                "kind": kinds.POD_GROUP.kind,
                "metadata": {"name": name, "labels": {"username": "alice"}},
                "spec": {"minMember": 1, "queue": self.queue, "priorityClassName": self.name},
            },
        )
        if phase:
            self.phase(name, phase)

    def phase(self, name: str, phase: str) -> None:
        body = {"status": {"phase": phase}}
        objects.patch(self.session, kinds.POD_GROUP, name, None, body)

    def numbers(self) -> tuple[int, int, int]:
        """Return value, count and running; the value must be one that the policy allows."""
        item = objects.get(self.session, kinds.PRIORITY_CLASS, self.name)
        state = State.read(item.metadata.annotations)
        assert state
        assert item.value == POLICY.value(state.weight)
        return item.value, state.count, len(state.running)


@pytest.fixture
def groups(cluster: Cluster, namespace: str, queue: str, volcano: None) -> Iterator[Groups]:
    """PodGroups of an open queue."""
    session = connect(str(cluster.kubeconfig), namespace)
    manifest = {
        "apiVersion": kinds.VOLCANO_QUEUE.api_version,
        "kind": kinds.VOLCANO_QUEUE.kind,
        "metadata": {"name": queue},
        "spec": {"weight": 1},
    }
    objects.create(session, manifest)
    yield Groups(session, queue)
    objects.delete(session, kinds.VOLCANO_QUEUE, queue)
    session.close()


def write_settings(sky: Command, queue: str, **policy: object) -> None:
    folder = Path(sky.environment["HOME"]) / ".config" / "kubectl-sky"
    fields = {"base": 100_000, "floor": 1_000, "penalty": 10, **policy}
    (folder / "settings.yaml").write_text(json.dumps({"fair_share": {queue: fields}}))


TASK = """
name: fair
resources: {cpus: 100m, memory: 50Mi, image_id: 'busybox:1.36'}
run: sleep 1
"""


def test_controller_process_follows_submitted_task_and_is_restarted(
    sky: Command, kubectl: Command, kubeconfig: str, groups: Groups
) -> None:
    """With no more than the rights that `controllers install` gives."""
    write_settings(sky, groups.queue, recovery_interval=3)
    account = ("--kubeconfig", kubeconfig, "--context", ADMIN)
    run = ("controllers", "run", "-A", "--only", "fairshare", *account)
    process = sky.start(*run)
    try:
        flags = (
            "--backend",
            "volcano",
            "--queue",
            groups.queue,
            "--id",
            "fairsh01",
            "--user",
            "alice",
        )
        done = sky("submit", "-", "-d", *flags, stdin=TASK)
        assert done.returncode == 0, done.stderr
        eventually(lambda: quietly(groups) == (100_000, 0, 0))
        groups.phase("fair-fairsh01", "Running")
        eventually(lambda: quietly(groups) == (99_990, 0, 1))

        elsewhere = {**sky.environment, "KUBECTL_SKY_CONFIG_HOME": str(sky.folder / "none")}
        unnamed = replace(sky, environment=elsewhere)
        done = unnamed("submit", "-", *flags[:4], "--dry-run=server", stdin=TASK)
        assert f'warning: queue "{groups.queue}" has fair share' in done.stderr, done.stderr

        process.kill()
        process.wait()
        # A killed process holds its Lease for a while.
        kubectl("delete", "leases", "--all", "-n", CONTROLLERS_NAMESPACE)
        groups.phase("fair-fairsh01", "Completed")
        process = sky.start(*run)
        eventually(lambda: quietly(groups) == (99_990, 1, 0))
        eventually(lambda: quietly(groups) == (100_000, 0, 0))
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0, process.communicate()
    finally:
        process.kill()


@pytest.fixture
def kubeconfig(
    sky: Command, kubectl: Command, cluster: Cluster, alone: None, tmp_path: Path
) -> Iterator[str]:
    """A kubeconfig of the account of `controllers install`, with its rights."""
    rendered = sky("controllers", "install", "--only", "fairshare").stdout
    items = [item for item in yaml.safe_load_all(rendered) if item["kind"] != "Deployment"]
    text = yaml.safe_dump_all(items)
    done = kubectl("apply", "-f", "-", stdin=text)

    try:
        assert done.returncode == 0, done.stderr
        name = "kubectl-sky-controller-fairshare"
        token = kubectl("create", "token", name, "-n", CONTROLLERS_NAMESPACE)
        assert token.returncode == 0, token.stderr
        config = yaml.safe_load(cluster.kubeconfig.read_text())
        (context,) = (item for item in config["contexts"] if item["name"] == ADMIN)
        config["users"] = [{"name": "controller", "user": {"token": token.stdout.strip()}}]
        context["context"]["user"] = "controller"
        path = tmp_path / "kubeconfig-of-controller"
        path.write_text(json.dumps(config))
        yield str(path)
    finally:
        kubectl("delete", "--ignore-not-found", "--timeout=60s", "-f", "-", stdin=text)


def quietly(groups: Groups) -> tuple[int, int, int] | None:
    with suppress(ClusterError):
        return groups.numbers()
    return None
