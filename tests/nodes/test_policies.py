"""NetworkPolicies of the documented installations, on three cluster nodes that enforce them."""

import shutil
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from tests.cluster import images, nodes, policies
from tests.cluster.place import Place
from tests.cluster.target import Cluster
from tests.e2e.command import PROGRAM, Command, InProcess
from tests.e2e.test_in_cluster import (
    IMAGE,
    TASK,
    forwarded,
    install_server,
    leader,
    statuses,
)
from tests.e2e.test_server_install import DEPLOY, built
from tests.polling import eventually

pytestmark = pytest.mark.timeout(400)  # the first one makes the image


@pytest.fixture(scope="module")
def image(three_nodes: Cluster, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The image of this checkout, imported into all cluster nodes."""
    folder = tmp_path_factory.mktemp("image")
    images.load(three_nodes, images.ours(folder, (IMAGE,)))
    return IMAGE


@pytest.fixture
def sky(environment: dict[str, str], tmp_path: Path) -> Iterator[Command]:
    """The program as a cluster admin."""
    command = InProcess(PROGRAM, environment, tmp_path)
    assert command("auth", "login", "tester").returncode == 0
    yield command
    command.end()


# It prints the status of an answer, or why there is none.
OPEN = """\
import ssl, sys, urllib.request
try:
    context = ssl._create_unverified_context()
    print(urllib.request.urlopen(sys.argv[1], timeout=10, context=context).status)
except OSError as error:
    print(error)
"""
DENIED = "<urlopen error timed out>"  # packets are dropped: a closed port has another error
SHORT = "name: chain\n" + "".join(
    f"---\nname: {name}\n{TASK}run: echo {name}\n" for name in ("a", "b")
)


class Pod(NamedTuple):
    """A pod with Python, which opens URLs."""

    kubectl: Command
    namespace: str
    name: str

    @classmethod
    def start(cls, kubectl: Command, namespace: str, name: str) -> "Pod":
        """Start one that serves on port 9000, and wait until it is ready."""
        flags = ("-n", namespace, "--image=python:3.13-slim", f"-l=app.kubernetes.io/name={name}")
        command = ("python3", "-m", "http.server", "9000", "--directory", "/tmp")
        # A new namespace has no account at once.
        eventually(lambda: kubectl("run", name, *flags, "--", *command).returncode == 0)
        ready = ("wait", "-n", namespace, f"pod/{name}", "--for=condition=Ready", "--timeout=60s")
        assert kubectl(*ready).returncode == 0
        return cls(kubectl, namespace, name)

    def url(self, port: int, path: str = "/") -> str:
        pod = self.kubectl.json("get", "pod", "-n", self.namespace, self.name)
        return f"http://{pod['status']['podIP']}:{port}{path}"

    def open(self, url: str) -> str:
        """Return the status of the answer, or the error."""
        command = ("python3", "-c", OPEN, url)
        done = self.kubectl("exec", "-n", self.namespace, self.name, "--", *command)
        return done.stdout.strip() or done.stderr


def policies_of_team(kubectl: Command, folder: Path, namespace: str, monitoring: str) -> str:
    """Return the policies of the example overlay, with OIDC and metrics."""
    deploy = shutil.copytree(DEPLOY, folder / "deploy")
    overlay = Path(deploy) / "overlays" / "example"
    ports = kubectl.json("get", "endpointslices", "-n", "default", "kubernetes")["ports"]
    changes = {
        "values.yaml": ("monitoring", monitoring),
        "api-server-port.yaml": ("16443", str(ports[0]["port"])),
        "kustomization.yaml": ("# Copy", f"namespace: {namespace}\n# Copy"),
    }
    for name, change in changes.items():
        (overlay / name).write_text((overlay / name).read_text().replace(*change, 1))
    items = built(kubectl, overlay).items()
    return yaml.safe_dump_all([item for (kind, _), item in items if kind == "NetworkPolicy"])


class Team(NamedTuple):
    """Server and controller, installed as documented, and pods beside them."""

    server: Pod
    controller: Pod
    login: Pod
    stranger: Pod
    prometheus: Pod


@contextmanager
def team(sky: Command, kubectl: Command, namespace: str, image: str) -> Iterator[Team]:
    """Install what a team has, and start the pods beside it, two of them in other namespaces."""
    flags = ("--only", "tasks", "--image", image, "-n", namespace)
    done = sky("controllers", "install", *flags, "--apply")
    assert done.returncode == 0, done.stderr
    install_server(sky, kubectl, namespace, image)
    leading = eventually(lambda: leader(sky, namespace, 1), seconds=90)
    selector = "app.kubernetes.io/name=kubectl-sky-api"
    (server,) = kubectl.json("get", "pods", "-l", selector)["items"]
    names = (f"{namespace[-30:]}-other", f"{namespace[-30:]}-monitoring")

    try:
        for name in names:
            assert kubectl("create", "namespace", name).returncode == 0
        yield Team(
            Pod(kubectl, namespace, server["metadata"]["name"]),
            Pod(kubectl, namespace, leading),
            Pod.start(kubectl, namespace, "kubectl-sky-login"),
            Pod.start(kubectl, names[0], "stranger"),
            Pod.start(kubectl, names[1], "prometheus"),
        )
    finally:
        kubectl("delete", "namespace", *names, "--wait=false", "--ignore-not-found")


def opened(urls: Iterable[tuple[Pod, str]]) -> list[str]:
    """Let pods open URLs; return what each got."""
    with ThreadPoolExecutor() as pool:
        return list(pool.map(lambda it: it[0].open(it[1]), urls))


def check_closed(kubectl: Command, urls: Sequence[tuple[Pod, str]]) -> None:
    """Check that policies close URLs, and nothing else does."""
    assert opened(urls) == [DENIED] * len(urls)
    assert kubectl("delete", "networkpolicies", "--all").returncode == 0
    eventually(lambda: opened(urls) == ["200"] * len(urls))


def test_policies_let_server_and_controller_work_and_nothing_else_pass(
    environment: dict[str, str],
    sky: Command,
    kubectl: Command,
    namespace: str,
    image: str,
    cluster: Cluster,
) -> None:
    with team(sky, kubectl, namespace, image) as pods:
        service = f"http://kubectl-sky-api.{namespace}.svc"
        urls = [f"{service}{path}" for path in ("/readyz", "/ui/", "/metrics")]
        assert opened((pods.stranger, url) for url in urls) == ["200"] * 3

        with forwarded(kubectl, environment) as url:
            variables = environment | {"KUBECTL_SKY_SERVER": url}
            user = InProcess(PROGRAM, variables, sky.folder)
            flags = ("--token", cluster.token(), "-n", namespace)
            chain = sky.write("chain.yaml", SHORT)
            done = user("submit", chain, "--detach", "--id", "chain001", *flags)
            assert done.returncode == 0, done.stderr
        eventually(lambda: statuses(sky) == dict.fromkeys("ab", "completed"))

        health = pods.controller.url(8080, "/healthz")
        outside = pods.stranger.url(9000)
        closed = [(pod, health) for pod in (pods.stranger, pods.login)]
        closed += [(pod, outside) for pod in (pods.server, pods.controller)]
        check_closed(kubectl, closed)


def test_policies_of_oidc_and_metrics_let_in_proxy_and_prometheus_only(
    sky: Command, kubectl: Command, namespace: str, image: str, cluster: Cluster
) -> None:
    with team(sky, kubectl, namespace, image) as pods:
        text = policies_of_team(kubectl, sky.folder, namespace, pods.prometheus.namespace)
        force = ("--server-side", "--force-conflicts")
        done = kubectl("apply", *force, "-f", "-", stdin=text)
        assert done.returncode == 0, done.stderr

        ready = f"http://kubectl-sky-api.{namespace}.svc/readyz"
        metrics = pods.server.url(8000, "/metrics")
        health = pods.controller.url(8080, "/healthz")
        outside = pods.stranger.url(9000)
        scraped = [(pods.prometheus, url) for url in (metrics, health)]
        api = (pods.server, "https://kubernetes.default.svc/readyz")
        assert opened([(pods.login, ready), *scraped, api]) == ["200"] * 4
        with policies.seeing_services(nodes.places(Place(int(cluster.kubeconfig.parent.name)))):
            assert opened([api]) == ["200"]

        closed = [(pods.stranger, url) for url in (ready, metrics, health)]
        closed += [(pods.login, health), (pods.server, outside)]
        check_closed(kubectl, closed)
