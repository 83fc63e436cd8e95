"""Public service files come up on the practice cluster: accepted, and their pods scheduled."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from kubectl_sky.cluster.session import Connection, Session
from practice_tests import process
from tests.contract.corpus import make_files, open_values
from tests.contract.test_service_corpus import REFUSED, services
from tests.e2e.command import PROGRAM, InProcess, home
from tests.polling import eventually
from tests.spec.test_corpus import CORPUS

pytestmark = [pytest.mark.practice, pytest.mark.outside]
GPUS = ("A100", "L4", "T4", "V100")  # at least one of those that each file may use


@pytest.fixture(scope="module")
def kubeconfig() -> Iterator[Path]:
    """A practice cluster with GPU nodes that run nothing: no program of the files starts."""
    with process.server() as server:
        path = server.folder / "kubeconfig"
        session = Session.connect(Connection(kubeconfig=str(path)))
        amounts = {"cpu": "999", "memory": "9Ti", "ephemeral-storage": "9Ti", "pods": "999"}

        for gpu in GPUS:
            labels = {"skypilot.co/accelerator": gpu.lower()}
            node = {"metadata": {"name": f"gpu-{gpu.lower()}", "labels": labels}}
            created = session.send("POST", "/api/v1/nodes", body=node).body
            created["status"] = dict.fromkeys(
                ("allocatable", "capacity"), amounts | {"nvidia.com/gpu": "64"}
            )
            url = f"/api/v1/nodes/{node['metadata']['name']}/status"
            session.send("PUT", url, body=created)

        url = "/api/v1/nodes/practice"
        cordoned = session.send("GET", url).body
        cordoned["spec"]["unschedulable"] = True
        session.send("PUT", url, body=cordoned)
        session.close()
        yield path


@pytest.mark.parametrize("name", services())
def test_public_service_comes_up_and_its_pods_are_scheduled(
    name: str, kubeconfig: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (task,) = (task for task in yaml.safe_load_all((CORPUS / name).read_text()) if task)
    make_files(task)
    sky = InProcess(PROGRAM, home(tmp_path) | {"KUBECONFIG": str(kubeconfig)}, tmp_path)
    flags = [f"--env={value}" for value in open_values([task], "envs")]
    flags += [f"--secret={value}" for value in open_values([task], "secrets")]
    done = sky("serve", "up", str(CORPUS / name), "--name=web", "--user=ann", "--detach", *flags)
    if name in REFUSED:
        assert done.returncode == 2 and REFUSED[name] in done.stderr
        return
    assert done.returncode == 0, done.stderr

    try:
        eventually(lambda: _are_scheduled(sky), 60, lambda: sky("serve", "status", "web").stdout)
    finally:
        down = sky("serve", "down", "web", "--user=ann", "--wait=false")  # their nodes end no pod
        assert down.returncode == 0


def _are_scheduled(sky: InProcess) -> bool:
    web = sky.json("serve", "status", "web", "--user=ann")
    hosts = [pod["host"] for pod in web["pods"]]
    return len(hosts) == web["replicas"]["wanted"] and all(hosts)
