"""Queues when Kueue is not installed, outdated, or without a matching queue."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.cluster import cache
from tests.cluster.target import Cluster
from tests.e2e.command import Command
from tests.e2e.support import crd_installed, pod_of
from tests.polling import eventually

pytestmark = pytest.mark.practice_only

QUEUED = """\
name: patient
resources: {cpus: 50m, memory: 64Mi}
run: echo let in
config:
  kubernetes:
    kueue: {local_queue_name: team-queue}
    set_pod_resource_limits: 2
    provision_timeout: 5
"""


LOCAL_QUEUE = {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "LocalQueue"}


def local_queues(version: str) -> dict[str, Any]:
    """Return the CRD of LocalQueues in this version."""
    name = "localqueues.kueue.x-k8s.io"
    approved = {"api-approved.kubernetes.io": "unapproved, of the tests"}
    schema = {"openAPIV3Schema": {"type": "object"}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": name, "annotations": approved},
        "spec": {
            "group": "kueue.x-k8s.io",
            "scope": "Namespaced",
            "names": {"kind": "LocalQueue", "plural": "localqueues"},
            "versions": [{"name": version, "served": True, "storage": True, "schema": schema}],
        },
    }


@contextmanager
def kueue(kubectl: Command, version: str) -> Iterator[None]:
    """Define LocalQueues without the Kueue controller; for one test at a time."""
    with cache.lock("localqueues"):
        if kubectl("get", "crd", "localqueues.kueue.x-k8s.io").returncode == 0:
            pytest.skip("the cluster has Kueue")
        with crd_installed(kubectl, local_queues(version)):
            yield


@pytest.fixture
def team_queue(kubectl: Command) -> Iterator[None]:
    """A LocalQueue of an older Kueue version."""
    with kueue(kubectl, "v1beta1"):
        queue = json.dumps(LOCAL_QUEUE | {"metadata": {"name": "team-queue"}})
        made = kubectl("apply", "-f", "-", stdin=queue)
        assert made.returncode == 0, made.stderr
        yield


def test_submit_queue_without_kueue_is_cluster_error(sky: Command, kubectl: Command) -> None:
    if kubectl("get", "crd", "localqueues.kueue.x-k8s.io").returncode == 0:
        pytest.skip("the cluster has Kueue")
    done = sky("submit", "-", "--queue", "gold", "--id", "nobody01", stdin="run: 'true'\n")
    assert (done.returncode, done.stderr) == (
        3,
        "error: the task is for the queue gold, and Kueue is not installed in the cluster"
        '\nhint: submit it without a queue: --queue "", or install Kueue: https://kueue.sigs.k8s.io\n',
    )
    assert kubectl("get", "jobs,configmaps", "-l", "task-id=nobody01", "-o", "name").stdout == ""
    listed = sky("queues", "list")
    assert listed.returncode == 3
    assert listed.stderr.startswith("error: Kueue is not installed in the cluster")


@pytest.mark.usefixtures("team_queue")
def test_submit_queue_of_other_namespace_is_refused(
    sky: Command, kubectl: Command, cluster: Cluster, namespace: str
) -> None:
    other = f"{namespace}-2"
    for allowed in (
        ("role", "alice", "--verb=list", "--resource=localqueues.kueue.x-k8s.io"),
        ("rolebinding", "alice", "--role=alice", f"--user={cluster.users['alice']}"),
    ):
        assert kubectl("create", *allowed).returncode == 0
    assert kubectl("create", "namespace", other).returncode == 0
    try:
        queue = LOCAL_QUEUE | {"metadata": {"name": "gold", "namespace": other}}
        assert kubectl("apply", "-f", "-", stdin=json.dumps(queue)).returncode == 0
        flags = ("--queue", "gold", "--id", "nobody01")
        done = sky("submit", "-", *flags, stdin="run: 'true'\n")
        hers = sky("submit", "-", *flags, "--context", "alice", stdin="run: 'true'\n")
    finally:
        kubectl("delete", "namespace", other, "--wait=false")
    assert (done.returncode, hers.returncode) == (2, 2)
    there = f'error: queue "gold" not found in namespace "{namespace}"\nhint: existing queues:'
    assert done.stderr == (
        f"{there} team-queue; one of this name is in {other}, and is only for tasks there\n"
    )
    assert hers.stderr == f"{there} team-queue\n", "alice has no right to list other namespaces"
    assert kubectl("get", "jobs,configmaps", "-l", "task-id=nobody01", "-o", "name").stdout == ""
    assert sky("queues", "list", "-o", "name").stdout == "queue/team-queue\n"
    wrong = sky("queues", "status", "gold")
    assert (wrong.returncode, wrong.stderr) == (
        2,
        f'error: queue "gold" not found in namespace "{namespace}"\nhint: queues: team-queue\n',
    )


def test_submit_queue_with_outdated_kueue_is_cluster_error(sky: Command, kubectl: Command) -> None:
    with kueue(kubectl, "v1alpha1"):
        done = sky("submit", "-", "--queue", "gold", "--id", "nobody01", stdin="run: 'true'\n")
        listed = sky("queues", "list")
    assert (done.returncode, done.stdout, done.stderr) == (
        3,
        "",
        "error: the cluster serves Kueue's kinds only as kueue.x-k8s.io/v1alpha1, but"
        " kueue.x-k8s.io/v1beta2 or kueue.x-k8s.io/v1beta1 is required\nhint: update Kueue\n",
    )
    assert (listed.returncode, listed.stderr) == (3, done.stderr)
    assert kubectl("get", "jobs,configmaps", "-l", "task-id=nobody01", "-o", "name").stdout == ""


@pytest.mark.usefixtures("team_queue")
def test_submit_queued_task_waits_until_admitted(sky: Command, kubectl: Command) -> None:
    file = sky.write("task.yaml", QUEUED)
    running = sky.start("submit", file, "--id", "wait2345")
    eventually(lambda: sky("status", "wait2345").returncode == 0)
    time.sleep(6)  # longer than provision_timeout, which does not count time in a queue
    assert running.poll() is None
    status = sky("status", "wait2345")
    assert "pending (queued) — node-0: Queued" in status.stdout
    assert "in the queue team-queue" in status.stdout
    (job,) = kubectl.json("get", "jobs", "-l", "kueue.x-k8s.io/queue-name=team-queue")["items"]
    assert job["spec"]["suspend"] is True
    assert kubectl("get", "pods", "-o", "name").stdout == ""
    patch = '{"spec": {"suspend": false}}'  # as Kueue does
    assert kubectl("patch", "job", job["metadata"]["name"], "-p", patch).returncode == 0
    out, err = running.communicate(timeout=60)
    assert (running.returncode, out.splitlines()[-1]) == (0, "let in"), err
    assert "patient: queued: in the queue team-queue" in err
    limits = pod_of(kubectl, "wait2345")["spec"]["containers"][0]["resources"]["limits"]
    assert limits == {"cpu": "100m", "memory": "128Mi"}
    again = sky("submit", file, "--id", "wait2345", "-d")
    assert "task/wait2345 unchanged" in again.stdout, again.stderr
