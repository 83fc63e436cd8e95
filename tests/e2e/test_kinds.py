"""Backends whose kinds are installed without a controller: the tests do what it would do."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
import yaml

from tests.cluster import cache
from tests.cluster.target import Cluster
from tests.e2e import killing
from tests.e2e.command import ROOT, Command
from tests.e2e.support import PAIR, crd_installed, failure_texts, until_deleted

CRDS = ROOT.parent / "shared" / "crds"
FILES = {
    "jobset": "jobset.x-k8s.io_jobsets.yaml",
    "mpijob": "kubeflow.org_mpijobs.yaml",
    "appwrapper": "workload.codeflare.dev_appwrappers.yaml",
}
FAILING = PAIR.replace("sleep 600", "test $NODE_RANK = 0 || exit 7; sleep 600")


@pytest.fixture
def cluster(practice_cluster: Cluster) -> Cluster:
    """The real one has the controllers, in other tests."""
    return practice_cluster


@pytest.fixture
def install(kubectl: Command) -> Iterator[Callable[[str], None]]:
    """Install the kind of a backend until the test ends."""
    with ExitStack() as stack:

        def install(backend: str) -> None:
            path = CRDS / FILES[backend]
            if not path.is_file():
                pytest.skip(f"the definition of {backend} is not beside the checkout")
            text = path.read_text()
            stack.enter_context(crd_installed(kubectl, yaml.load(text, Loader=yaml.CSafeLoader)))

        yield install


@pytest.mark.parametrize("backend", FILES)
def test_submit_killed_at_every_write_can_be_resumed_and_stopped(
    sky: Command,
    kubectl: Command,
    cluster: Cluster,
    install: Callable[[str], None],
    backend: str,
) -> None:
    install(backend)
    killing.check(sky, kubectl, cluster, backend)


def test_backend_auto_names_choice_and_reason(
    sky: Command, kubectl: Command, cluster: Cluster, install: Callable[[str], None]
) -> None:
    grant = ("create", "rolebinding", "alice", "--clusterrole=edit")
    assert kubectl(*grant, f"--user={cluster.users['alice']}").returncode == 0

    def chosen(*flags: str) -> str:
        flags = ("--backend", "auto", "--dry-run=client", *flags)
        done = sky("submit", "-", *flags, stdin="num_nodes: 2\nrun: 'true'\n")
        assert done.returncode == 0, done.stderr
        return done.stderr.splitlines()[0]

    indexed = (
        "backend indexed: one Job for all nodes, which the cluster stops together when one fails; "
    )
    assert chosen() == f"{indexed}JobSet is not installed"
    install("jobset")
    assert chosen().startswith("backend jobset: a JobSet, whose nodes fail together")
    assert chosen("--context", "alice") == f"{indexed}you may not create JobSets"
    assert chosen("--num-nodes", "1") == "backend jobs: the task has one node"


def test_appwrapper_failed_commands_agree(
    sky: Command, kubectl: Command, install: Callable[[str], None]
) -> None:
    install("appwrapper")
    flags = ("--backend", "appwrapper", "--id", "wrapped1", "--detach")
    done = sky("submit", "-", *flags, stdin=FAILING)
    assert done.returncode == 0, done.stderr
    make_job(kubectl, "pair-wrapped1")
    failed = ("wait", "--for=condition=Failed", "job/pair-wrapped1", "--timeout=60s")
    assert kubectl(*failed).returncode == 0
    set_failed(kubectl, "FoundFailedPods", "Found 1 failed pods")
    for command, text in failure_texts(sky, "wrapped1").items():
        assert "failed" in text and "node-1" in text, (command, text)
        assert "exit code 7" in text, (command, text)
    assert sky("status", "wrapped1").stdout.count("Stopped") == 1

    assert kubectl("delete", "job", "pair-wrapped1").returncode == 0
    set_failed(kubectl, "MissingComponent", "Only found 0 deployed components")
    for command, text in failure_texts(sky, "wrapped1").items():
        assert "failed" in text and "MissingComponent" in text, (command, text)
    assert sky("stop", "wrapped1").returncode == 0
    until_deleted(kubectl, "wrapped1")


def make_job(kubectl: Command, name: str) -> None:
    """Create the Job that an AppWrapper wraps, as its controller does."""
    wrapper = kubectl.json("get", "appwrapper", name)
    job = wrapper["spec"]["components"][0]["template"]
    owner = {"apiVersion": wrapper["apiVersion"], "kind": "AppWrapper", "controller": True}
    owner |= {"name": name, "uid": wrapper["metadata"]["uid"]}
    labels = {"workload.codeflare.dev/appwrapper": name}
    job["metadata"] |= {"labels": labels, "ownerReferences": [owner]}
    assert kubectl("create", "-f", "-", stdin=json.dumps(job)).returncode == 0
    set_status(kubectl, name, {"phase": "Running"})


def set_failed(kubectl: Command, reason: str, message: str) -> None:
    """Let the controller of AppWrappers give one up."""
    unhealthy = {"type": "Unhealthy", "status": "True", "reason": reason, "message": message}
    unhealthy["lastTransitionTime"] = "2026-01-01T00:00:00Z"
    set_status(kubectl, "pair-wrapped1", {"phase": "Failed", "conditions": [unhealthy]})


def set_status(kubectl: Command, name: str, status: dict[str, object]) -> None:
    patch = ("patch", "appwrapper", name, "--subresource=status", "--type=merge")
    done = kubectl(*patch, "-p", json.dumps({"status": status}))
    assert done.returncode == 0, done.stderr


def test_rayservice_of_serve_is_accepted(sky: Command, kubectl: Command) -> None:
    path = CRDS / "ray.io_rayservices.yaml"
    if not path.is_file():
        pytest.skip("the definition of RayServices is not beside the checkout")
    task = "name: fruit\nservice: {replicas: 2}\nrun: serve run fruit:app size=3\n"
    task += "resources: {ports: 8000, image_id: rayproject/ray}\nsecrets: {T: x}\n"
    file = sky.write("fruit.yaml", task)
    definition = yaml.load(path.read_text(), Loader=yaml.CSafeLoader)
    with cache.lock("kuberay-kinds"), crd_installed(kubectl, definition):
        rendered = sky("serve", "render", file, "--backend", "rayservice")
        assert rendered.returncode == 0, rendered.stderr
        done = kubectl("apply", "--dry-run=server", "-f", "-", stdin=rendered.stdout)
        assert "rayservice.ray.io/fruit created" in done.stdout, done.stderr
