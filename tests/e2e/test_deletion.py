"""What a finalizer keeps: `stop` stops the pods all the same, and says what is left."""

import pytest

from kubectl_sky.cluster import objects
from kubectl_sky.cluster.session import Connection, Session
from kubectl_sky.tasks import deletion
from kubectl_sky.words import kinds
from tests.e2e.command import Command
from tests.polling import eventually

STUCK = "example.com/stuck"
TASK = "name: fin\nresources: {image_id: 'busybox:1.36', cpus: 0.1}\nrun: sleep 600\n"


def test_stop_task_with_finalizer_stops_its_pods(
    sky: Command, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sky("submit", "-", "--id", "stuck001", "--detach", stdin=TASK)
    assert sky("wait", "stuck001", "--for=running").returncode == 0
    session = Session.connect(Connection(kubeconfig=sky.environment["KUBECONFIG"]))
    (job,) = objects.list_all(session, kinds.JOB, namespace)
    name = job.metadata.name
    finalizers = {"metadata": {"finalizers": [STUCK]}}
    objects.patch(session, kinds.JOB, name, namespace, finalizers)
    monkeypatch.setattr(deletion, "LIMIT_SECONDS", 3.0)

    done = sky("stop", "stuck001")
    assert (done.returncode, done.stdout) == (3, "")
    assert f"Job {name} waits for finalizer {STUCK}" in done.stderr
    eventually(lambda: not objects.list_all(session, kinds.POD, namespace))

    assert f": waits for finalizer {STUCK}" in sky("list").stdout
    assert f"waits for finalizer {STUCK}" in sky("doctor", "stuck001").stdout

    no_finalizers = {"metadata": {"finalizers": None}}
    objects.patch(session, kinds.JOB, name, namespace, no_finalizers)
    assert sky("wait", "stuck001", "--for=delete").returncode == 0
    assert sky("list", "-o", "name").stdout == ""
