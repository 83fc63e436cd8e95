"""AppWrappers of users without the right to create the wrapped objects."""

import pytest

from tests.cluster.target import Cluster
from tests.cluster.webhooks import WATCHED
from tests.e2e.command import Command
from tests.e2e.support import until_deleted, wait_for_controller

TASK = "name: wrapped\nnum_nodes: 2\nresources: {image_id: 'busybox:1.36'}\nrun: echo $NODE_RANK\n"
FLAGS = ("--backend", "appwrapper", "--id", "wrapped1", "--context", "alice")
ROLE = """
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: alice}
rules:
- {apiGroups: [workload.codeflare.dev], resources: [appwrappers], verbs: ['*']}
- {apiGroups: [batch], resources: [jobs], verbs: [list, watch]}
- {apiGroups: [''], resources: [pods, pods/log, configmaps, secrets, services], verbs: ['*']}
"""
EMPTY = """
apiVersion: workload.codeflare.dev/v1beta2
kind: AppWrapper
metadata: {name: trial}
spec: {components: []}
"""


@pytest.fixture
def cluster(real_cluster: Cluster) -> Cluster:
    """The real cluster: only its AppWrapper webhook checks rights."""
    return real_cluster


@pytest.mark.usefixtures("asking")
def test_submit_appwrapper_without_right_to_create_jobs_is_refused(
    sky: Command, kubectl: Command, cluster: Cluster, namespace: str
) -> None:
    (label,) = (f"{key}={value}" for key, value in WATCHED.items())
    assert kubectl("label", "namespace", namespace, label).returncode == 0
    user = cluster.users["alice"]
    assert kubectl("apply", "-f", "-", stdin=ROLE).returncode == 0
    kubectl("create", "rolebinding", "alice", "--role=alice", f"--user={user}")
    trial = ("create", "--dry-run=server", "-f", "-")
    wait_for_controller(
        lambda: "components contains no podspecs" in kubectl(*trial, stdin=EMPTY).stderr
    )
    done = sky("submit", "-", *FLAGS, stdin=TASK)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.splitlines()[-2] == (
        f"error: user {user} is not entitled to the contained resources: creating jobs in namespace"
        f" {namespace} is not allowed; the created objects were deleted again"
    )
    until_deleted(kubectl, "wrapped1")
    wait_for_controller(lambda: kubectl("get", "appwrappers", "-o", "name").stdout == "")
    listed = sky("list", "--context", "alice")
    assert (listed.returncode, listed.stdout) == (0, ""), listed.stderr
    for command in ("status", "wait", "doctor", "logs"):
        done = sky(command, "wrapped1", "--context", "alice")
        assert done.returncode == 2, (command, done.stderr)
        assert 'task "wrapped1" not found' in done.stderr, (command, done.stderr)
    kubectl("create", "rolebinding", "more", "--clusterrole=edit", f"--user={user}")
    done = sky("submit", "-", *FLAGS, "--detach", stdin=TASK)
    assert done.returncode == 0, done.stderr
    (wrapper,) = kubectl.json("get", "appwrappers")["items"]
    assert "workload.codeflare.dev/user" in wrapper["metadata"]["labels"], "set by the webhook"
    again = sky("submit", "-", *FLAGS, "--detach", stdin=TASK)
    assert again.stdout.startswith("task/wrapped1 unchanged")
    assert sky("stop", "wrapped1", "--context", "alice").returncode == 0
    until_deleted(kubectl, "wrapped1")
