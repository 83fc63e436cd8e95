"""The server and the controllers in a cluster, from the image, where Pod Security is restricted."""

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import yaml

from tests.cluster import images
from tests.cluster.place import FOLDER
from tests.cluster.shell import run
from tests.cluster.target import ADMIN, Cluster, selected
from tests.e2e.command import PROGRAM, Command, InProcess
from tests.polling import eventually
from tests.wheel import build

pytestmark = [
    pytest.mark.timeout(400),  # the first one makes the image
    pytest.mark.parametrize(
        "cluster", [pytest.param("real", marks=pytest.mark.cluster)], indirect=True
    ),
]
IMAGE = "kubectl-sky.test/sky:1"
TASK = """\
resources: {image_id: 'busybox:1.36'}
config:
  kubernetes:
    pod_config:
      spec:
        securityContext: {runAsNonRoot: true, runAsUser: 1000}
"""
STAGES = "name: chain\n" + "".join(
    f"---\nname: {name}\n{TASK}run: {script}\n"
    for name, script in (("a", "sleep 20"), ("b", "echo b"), ("c", "echo c"))
)


@pytest.fixture(scope="module")
def image(real_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The image of this checkout, imported into the cluster."""
    entry, _ = selected(yaml.safe_load(real_cluster.kubeconfig.read_text()), ADMIN)
    built = [path for path in FOLDER.glob("*/kubeconfig") if entry["server"] in path.read_text()]
    if not built:
        pytest.skip("only a cluster that was built on this machine imports images from a file")
    socket = built[0].parent / "containerd.sock"
    folder = tmp_path_factory.mktemp("image")
    archive = images.ours(folder, IMAGE, build("wheel", tmp_path_factory.mktemp("wheel")))
    run(["ctr", "--address", socket, "-n", "k8s.io", "images", "import", archive])
    return IMAGE


@pytest.fixture
def restricted(kubectl: Command, namespace: str) -> str:
    level = "pod-security.kubernetes.io/enforce=restricted"
    assert kubectl("label", "namespace", namespace, level).returncode == 0
    return namespace


def leader(sky: Command, namespace: str) -> str:
    """Return the pod that leads, and check that both replicas are ready."""
    done = sky("controllers", "status", "-n", namespace, "-o", "json")
    (status,) = json.loads(done.stdout)["controllers"] or [{"leader": "", "ready": 0}]
    return str(status["leader"].split("_")[0]) if status["ready"] == 2 else ""


def test_in_cluster_controllers_finish_pipeline_after_leader_is_killed(
    sky: Command, kubectl: Command, restricted: str, image: str
) -> None:
    flags = ("--only", "tasks", "--replicas", "2", "--image", image, "-n", restricted)
    done = sky("controllers", "install", *flags, "--apply")
    assert done.returncode == 0, done.stderr
    eventually(lambda: leader(sky, restricted), seconds=90)
    first = leader(sky, restricted)
    done = sky("submit", sky.write("chain.yaml", STAGES), "--detach", "--id", "chain001")
    assert done.returncode == 0, done.stderr
    assert "no client is needed" in done.stderr
    kubectl("delete", "pod", first, "--force", "--grace-period=0")
    eventually(lambda: statuses(sky) == dict.fromkeys("abc", "completed"), seconds=120)
    assert leader(sky, restricted) not in ("", first)
    # It is written when the leader renews its Lease.
    eventually(lambda: "led a step" in sky("controllers", "status", "-n", restricted).stdout)


def statuses(sky: Command) -> dict[str, str]:
    """Return the status of each stage, by name."""
    tasks = json.loads(sky("status", "chain001", "-o", "json").stdout)["tasks"]
    return {task["name"]: task["status"] for task in tasks}


@contextmanager
def forwarded(kubectl: Command, environment: dict[str, str]) -> Iterator[str]:
    """Forward a local port to the server's Service, and yield its address."""
    command = [*kubectl.program, "port-forward", "service/kubectl-sky-api", ":80"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            match = re.search(r"127\.0\.0\.1:\d+", process.stdout.readline())
            assert match
            yield f"http://{match[0]}"
        finally:
            process.terminate()


def test_in_cluster_server_runs_task_of_user_with_token(
    environment: dict[str, str],
    sky: Command,
    kubectl: Command,
    restricted: str,
    image: str,
    cluster: Cluster,
) -> None:
    install = sky("api", "--install", "--image", image, "-n", restricted).stdout
    assert kubectl("apply", "-f", "-", stdin=install).returncode == 0
    ready = kubectl("rollout", "status", "deployment/kubectl-sky-api", "--timeout=90s")
    assert ready.returncode == 0, ready.stderr
    home, token = f"{restricted[:50]}-alice", cluster.token("alice")
    added = sky("users", "add", cluster.users["alice"], "--namespace", home)
    assert added.returncode == 0, added.stderr
    try:
        with forwarded(kubectl, environment) as url:
            alice = InProcess(PROGRAM, environment | {"KUBECTL_SKY_SERVER": url}, sky.folder)
            flags = ("--token", token, "-n", home)
            text = f"name: hello\n{TASK}run: echo hello from alice\n"
            done = alice(
                "submit", sky.write("hello.yaml", text), "--detach", "--id", "hello001", *flags
            )
            assert done.returncode == 0, done.stderr
            assert alice("wait", "hello001", *flags).returncode == 0
            assert "hello from alice" in alice("logs", "hello001", *flags).stdout
            refused = alice("list", "--token", token, "-n", restricted)
            assert refused.returncode == 3 and "forbidden" in refused.stderr.lower()
    finally:
        sky("users", "remove", cluster.users["alice"], "--namespace", home, "--yes", "--force")
        kubectl("delete", "namespace", home, "--wait=false", "--ignore-not-found")
