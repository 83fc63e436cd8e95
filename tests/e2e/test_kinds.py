"""The real definitions of backends and services, without their controllers."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
import yaml

from tests.cluster import cache
from tests.cluster.target import Cluster
from tests.e2e.command import ROOT, Command
from tests.e2e.support import PAIR, crd_installed, objects, until_deleted

CRDS = ROOT.parent / "shared" / "crds"
FILES = {
    "jobset": "jobset.x-k8s.io_jobsets.yaml",
    "mpijob": "kubeflow.org_mpijobs.yaml",
    "appwrapper": "workload.codeflare.dev_appwrappers.yaml",
    "rayservice": "ray.io_rayservices.yaml",
}


@pytest.fixture
def cluster(practice_cluster: Cluster) -> Cluster:
    """The real one has the controllers, in other tests."""
    return practice_cluster


@pytest.fixture
def install(kubectl: Command) -> Iterator[Callable[[str], None]]:
    """Install the kind of a backend until the test ends, for one test at a time."""
    with ExitStack() as stack:

        def install(backend: str) -> None:
            path = CRDS / FILES[backend]
            if not path.is_file():
                pytest.skip(f"the definition of {backend} is not beside the checkout")
            definition = yaml.load(path.read_text(), Loader=yaml.CSafeLoader)
            stack.enter_context(cache.lock("kuberay-kinds" if backend == "rayservice" else backend))
            stack.enter_context(crd_installed(kubectl, definition))

        yield install


@pytest.mark.parametrize("backend", ["jobset", "mpijob", "appwrapper"])
def test_submit_backend_is_accepted_pending_and_unchanged_when_submitted_again(
    sky: Command, kubectl: Command, install: Callable[[str], None], backend: str
) -> None:
    """A server drops or refuses fields that the definition does not have, and adds defaults."""
    install(backend)
    submit = ("submit", "-", "--backend", backend, "--id", "kinds001", "--detach")
    done = sky(*submit, stdin=PAIR)
    assert done.returncode == 0, done.stderr
    again = sky(*submit, stdin=PAIR)
    assert again.stdout.startswith("task/kinds001 unchanged: pair, 2 nodes"), again.stderr
    task = sky.json("status", "kinds001")
    assert (task["status"], task["metadata"]["backend"]) == ("pending", backend)
    assert len(objects(kubectl, "kinds001")) >= 1
    assert sky("stop", "kinds001").stdout == "task/kinds001 (pair) stopped\n"
    until_deleted(kubectl, "kinds001")


def test_rayservice_of_serve_is_accepted(
    sky: Command, kubectl: Command, install: Callable[[str], None]
) -> None:
    install("rayservice")
    task = "name: fruit\nservice: {replicas: 2}\nrun: serve run fruit:app size=3\n"
    task += "resources: {ports: 8000, image_id: rayproject/ray}\nsecrets: {T: x}\n"
    flags = ("--backend", "rayservice", "--dry-run=client", "-o", "yaml")
    rendered = sky("serve", "up", sky.write("fruit.yaml", task), *flags)
    assert rendered.returncode == 0, rendered.stderr
    done = kubectl("apply", "--dry-run=server", "-f", "-", stdin=rendered.stdout)
    assert "rayservice.ray.io/fruit created" in done.stdout, done.stderr
