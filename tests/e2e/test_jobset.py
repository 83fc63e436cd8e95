"""JobSets on the real cluster with the real controller."""

import json
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime
from itertools import product
from pathlib import Path

import pytest

from tests.cluster import kwok
from tests.cluster.controllers import jobset_webhook
from tests.cluster.target import Cluster
from tests.e2e.command import Command, submitted
from tests.e2e.gallery import check_run
from tests.e2e.support import (
    FAILING,
    GRACE,
    objects,
    selected_pods,
    until_deleted,
    write_settings,
)
from tests.polling import eventually

pytestmark = pytest.mark.usefixtures("jobset")


@pytest.fixture
def cluster(real_cluster: Cluster) -> Cluster:
    """The real cluster: only it has the controller."""
    return real_cluster


def remaining_objects(kubectl: Command, task_id: str) -> list[str]:
    """List the objects of a task in the cluster, including the JobSet."""
    names = kubectl("get", "jobsets,pods", "-l", f"task-id={task_id}", "-o", "name").stdout.split()
    return objects(kubectl, task_id) + names


def test_submit_jobset_nodes_reach_each_other(sky: Command, kubectl: Command) -> None:
    script = "name: ring\nnum_nodes: 3\nrun: echo $NODE_RANK of $NUM_NODES\n"
    done = sky("submit", "-", "--backend", "auto", "--ports", "80", stdin=script)
    assert done.returncode == 0, done.stderr
    assert "\nbackend jobset: a JobSet, whose nodes fail together" in done.stderr

    expected = [f"node-{rank} | {rank} of 3" for rank in range(3)]
    assert sorted(done.stdout.splitlines()[1:]) == expected

    task_id = submitted(done)
    assert sky("logs", task_id, "--by-node").stdout.splitlines() == expected
    assert sky("wait", task_id).stdout == f"task/{task_id} (ring) completed\n"

    ready = ("wait", "--for=condition=Completed", "--timeout=30s")
    assert kubectl(*ready, f"jobset/ring-{task_id}").returncode == 0

    for form in ((), ("-o", "wide")):
        rows = sky("list", *form).stdout.splitlines()
        assert rows[1].split()[:4] == [task_id, "ring", "completed", "3/3"]
    assert selected_pods(kubectl, f"ring-{task_id}-ports") == [f"ring-{task_id}-node-0-0"]

    flags = ("--backend", "jobset", "--ports", "80")
    again = sky("submit", "-", "--id", task_id, *flags, stdin=script)
    assert again.stdout.startswith(f"task/{task_id} unchanged: ring, 3 nodes")
    assert sky("stop", task_id).returncode == 0

    until_deleted(kubectl, task_id)
    eventually(lambda: remaining_objects(kubectl, task_id) == [])


def test_submit_jobset_failed_node_stops_remaining_nodes(sky: Command, kubectl: Command) -> None:
    done = sky("submit", "-", "--backend", "jobset", "--id", "failing1", stdin=FAILING)
    assert done.returncode == 4, done.stderr
    assert "node-2 failed: exit code 7; the other nodes are being stopped\n" in done.stderr

    kubectl("wait", "jobset", "three-failing1", "--for=condition=Failed", "--timeout=60s")
    jobset = kubectl.json("get", "jobset", "three-failing1")
    (failed,) = (c for c in jobset["status"]["conditions"] if c["type"] == "Failed")
    pods = kubectl.json("get", "pods", "-l", "task-id=failing1")["items"]
    (pod,) = (pod for pod in pods if "deletionTimestamp" not in pod["metadata"])
    ended = pod["status"]["containerStatuses"][0]["state"]["terminated"]["finishedAt"]
    took = datetime.fromisoformat(failed["lastTransitionTime"]) - datetime.fromisoformat(ended)
    assert took.total_seconds() < GRACE

    output = sky("status", "failing1").stdout
    assert "failed — node-2: exit code 7" in output
    assert output.count("Stopped") == 3
    assert sky("stop", "failing1").returncode == 0


@pytest.fixture
def slices(
    cluster: Cluster, jobset: Path, kubectl: Command, namespace: str, tmp_path: Path
) -> Iterator[None]:
    """Two node pools as GKE has them for slices of 16 chips; nothing runs there."""
    webhook = jobset_webhook(jobset, namespace)
    nodes = []
    for pool, at in product(("tpu-a", "tpu-b"), range(4)):
        labels = {
            **kwok.LABELS,
            "cloud.google.com/gke-nodepool": pool,
            "cloud.google.com/gke-tpu-accelerator": "tpu-v5-lite-podslice",
            "cloud.google.com/gke-tpu-topology": "4x4",
        }
        size = {"cpu": "112", "memory": "192Gi", "pods": "110", "google.com/tpu": "4"}
        taint = {"key": "google.com/tpu", "value": "present", "effect": "NoSchedule"}
        nodes.append(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": f"{pool}-{at}", "labels": labels},
                "spec": {"taints": [taint]},
                "status": {"capacity": size, "allocatable": size},
            }
        )
    with kwok.running(cluster, tmp_path):
        manifest = {"kind": "List", "apiVersion": "v1", "items": [webhook, *nodes]}
        created = kubectl("create", "-f", "-", stdin=json.dumps(manifest))
        assert created.returncode == 0, created.stderr
        try:
            yield
        finally:
            kubectl("delete", "mutatingwebhookconfiguration", webhook["metadata"]["name"])
            kubectl("delete", "nodes", "-l", "type=kwok", "--wait=false")


@pytest.mark.builds("kwok")
@pytest.mark.usefixtures("slices")
def test_nodes_of_a_tpu_slice_are_on_one_node_pool(sky: Command, kubectl: Command) -> None:
    script = "resources: {accelerators: tpu-v5litepod-16}\nrun: train\n"
    for task_id in ("slices01", "slices02"):
        done = sky("submit", "-", "--id", task_id, "--detach", stdin=script)
        assert done.returncode == 0, done.stderr

    def hosts() -> dict[str, set[str]]:
        """The cluster nodes of each task."""
        found: dict[str, set[str]] = defaultdict(set)
        for pod in kubectl.json("get", "pods")["items"]:
            if host := pod["spec"].get("nodeName"):
                found[pod["metadata"]["labels"]["task-id"]].add(host)
        return found

    eventually(lambda: [len(names) for names in hosts().values()] == [4, 4])
    pools = [{name.rpartition("-")[0] for name in names} for names in hosts().values()]
    assert {"tpu-a"} in pools and {"tpu-b"} in pools


def test_submit_jobset_restart_restarts_all_nodes(sky: Command) -> None:
    script = """
name: again
num_nodes: 2
resources: {job_recovery: {max_restarts_on_errors: 1}}
run: |
  echo rank $NODE_RANK
  test $NODE_RANK = 0 || exit 5
  sleep 300
"""
    done = sky("submit", "-", "--backend", "jobset", "--id", "again001", stdin=script)
    assert done.returncode == 4, done.stderr

    lines = sorted(line for line in done.stdout.splitlines() if "rank" in line)
    assert lines == ["node-0 | rank 0"] * 2 + ["node-1 | rank 1"] * 2
    assert "failed: node-1: exit code 5 after 1 restart" in done.stderr

    metadata = json.loads(sky("status", "again001", "-o", "json").stdout)["metadata"]
    assert metadata["restarts"] == 1
    assert sky("stop", "again001").returncode == 0


def test_submit_jobset_whose_buckets_cannot_be_copied_uses_no_restart(
    sky: Command, kubectl: Command, tmp_path: Path
) -> None:
    write_settings(tmp_path, "fetch_image: busybox:1.36\nstores: {s3: {secret: keys}}\n")
    keys = [f"--from-literal=AWS_{name}=x" for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY")]
    assert kubectl("create", "secret", "generic", "keys", *keys).returncode == 0
    script = """
num_nodes: 2
resources: {image_id: "busybox:1.36", job_recovery: {max_restarts_on_errors: 3}}
file_mounts: {/data: s3://box}
run: echo ran
"""
    done = sky("submit", "-", "--backend", "jobset", "--id", "refused1", stdin=script)
    assert done.returncode == 4, done.stderr
    assert "the image that copies buckets has no rclone" in done.stderr
    assert sky.json("status", "refused1")["metadata"]["restarts"] == 0


def test_submit_jobset_example_prints_expected_output(sky: Command) -> None:
    check_run(sky, "14-jobset")
