"""The server and the controllers in a cluster, from the image, where Pod Security is restricted."""

import json
import re
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import httpx2
import pytest

from tests.cluster import images
from tests.cluster.marks import ON_REAL
from tests.cluster.target import Cluster
from tests.e2e.command import PROGRAM, Command, InProcess
from tests.e2e.support import pod_of
from tests.polling import eventually
from tests.ports import free_port

pytestmark = [
    pytest.mark.timeout(400),  # the first one makes the image
    ON_REAL,
]
IMAGE = "kubectl-sky.test/sky:1"
UPGRADE = "kubectl-sky.test/sky:2"
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
    folder = tmp_path_factory.mktemp("image")
    images.load(real_cluster, images.ours(folder, (IMAGE, UPGRADE)))
    return IMAGE


@pytest.fixture
def restricted(kubectl: Command, namespace: str) -> str:
    level = "pod-security.kubernetes.io/enforce=restricted"
    assert kubectl("label", "namespace", namespace, level).returncode == 0
    return namespace


def leader(sky: Command, namespace: str, replicas: int = 2) -> str:
    """Return the pod that leads, and check that all replicas are ready."""
    done = sky("controllers", "status", "-n", namespace, "-o", "json")
    (status,) = json.loads(done.stdout)["controllers"] or [{"leader": "", "ready": 0}]
    return str(status["leader"].split("_")[0]) if status["ready"] == replicas else ""


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
    eventually(
        lambda: (
            "continued pipeline/chain001" in sky("controllers", "status", "-n", restricted).stdout
        )
    )


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


def install_server(sky: Command, kubectl: Command, namespace: str, image: str) -> None:
    """Install the server, or another image of it, and wait until all its pods are the new ones."""
    manifests = sky("api", "--install", "--image", image, "-n", namespace).stdout
    assert kubectl("apply", "-f", "-", stdin=manifests).returncode == 0
    ready = kubectl("rollout", "status", "deployment/kubectl-sky-api", "--timeout=90s")
    assert ready.returncode == 0, ready.stderr


def test_in_cluster_server_runs_task_of_user_with_token(
    environment: dict[str, str],
    sky: Command,
    kubectl: Command,
    restricted: str,
    image: str,
    cluster: Cluster,
) -> None:
    install_server(sky, kubectl, restricted, image)
    home = f"{restricted[:50]}-alice"
    token = cluster.token("alice")
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


@contextmanager
def balanced(kubectl: Command) -> Iterator[str]:
    """Yield an address whose connections go to the Service: each to any of its pods."""
    service = kubectl.json("get", "service", "kubectl-sky-api")["spec"]["clusterIP"]
    port = free_port()
    listen = f"TCP-LISTEN:{port},bind=127.0.0.1,fork,reuseaddr"
    with subprocess.Popen(["socat", listen, f"TCP:{service}:80"]) as process:
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


class Page(threading.Thread):
    """Follow a stream as the dashboard does: again from the last id until an event is final."""

    def __init__(self, url: str, token: str, is_final: Callable[[str, Any], bool]) -> None:
        super().__init__(daemon=True)
        self.events: list[tuple[str, Any]] = []
        self.connections = 0
        self._url = url
        self._is_final = is_final
        self._last = ""
        self._headers = {"Accept": "text/event-stream", "Authorization": f"Bearer {token}"}
        self.start()

    def run(self) -> None:
        while not (self.events and self._is_final(*self.events[-1])):
            with suppress(httpx2.TransportError):
                self._read()

    def _read(self) -> None:
        headers = self._headers | ({"Last-Event-ID": self._last} if self._last else {})
        fields: dict[str, str] = {}

        with httpx2.stream("GET", self._url, headers=headers, timeout=60) as answer:
            assert answer.status_code == 200, answer.read()
            self.connections += 1
            for line in answer.iter_lines():
                if line:
                    name, _, value = line.partition(": ")
                    fields[name] = value
                    continue
                self._last = fields.get("id", self._last)
                if "event" in fields:
                    self.events.append((fields["event"], json.loads(fields["data"])))
                    if self._is_final(*self.events[-1]):
                        return
                fields = {}


class Visitor(threading.Thread):
    """Open the server again and again; count the answers and the connections that failed."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self.answers = self.failures = 0
        self._url = url
        self._stop_now = threading.Event()
        self.start()

    def run(self) -> None:
        while not self._stop_now.wait(0.05):
            try:
                self.answers += httpx2.get(self._url, timeout=60).status_code == 200
            except httpx2.TransportError:
                self.failures += 1

    def end(self) -> None:
        self._stop_now.set()
        self.join()


COUNT = f"""\
name: count
{TASK}run: |
  i=0; until [ -e /tmp/done ]; do echo line $i; i=$((i+1)); sleep 0.1; done
"""


KEY = "A" * 43 + "="
IMAGES = "jsonpath={.items[*].spec.containers[*].image}"


def whoami(url: str, session: str) -> int:
    return httpx2.get(f"{url}/whoami", headers={"X-Kubectl-Sky-Session": session}).status_code


def test_in_cluster_server_upgrade_keeps_sessions_and_every_line_of_open_streams(
    sky: Command, kubectl: Command, restricted: str, image: str, cluster: Cluster
) -> None:
    kubectl("create", "secret", "generic", "kubectl-sky-sessions", f"--from-literal=keys={KEY}")
    install_server(sky, kubectl, restricted, image)
    kubectl("scale", "deployment/kubectl-sky-api", "--replicas=2")
    done = sky("submit", sky.write("count.yaml", COUNT), "--detach", "--id", "count001")
    assert done.returncode == 0, done.stderr

    with balanced(kubectl) as url:
        ready = kubectl("rollout", "status", "deployment/kubectl-sky-api", "--timeout=90s")
        assert ready.returncode == 0, ready.stderr
        command = sky.start("logs", "-f", "count001", "--server-url", url)
        where = f"namespace={restricted}&all_users=true"
        token = cluster.token()
        log = Page(f"{url}/tasks/count001/logs?{where}", token, lambda name, data: name == "end")
        tasks = Page(f"{url}/tasks/events?{where}", token, is_completed)
        visitor = Visitor(f"{url}/healthz")
        session = httpx2.post(f"{url}/login", json={"token": token}).json()["session"]
        eventually(lambda: log.events and tasks.events)
        install_server(sky, kubectl, restricted, UPGRADE)
        pods = ("get", "pods", "-l", "app.kubernetes.io/name=kubectl-sky-api", "-o", IMAGES)
        eventually(lambda: kubectl(*pods).stdout.split() == [UPGRADE] * 2)
        visitor.end()
        assert {whoami(url, session) for _ in range(9)} == {200}, "both replicas accept it"
        kubectl("exec", pod_of(kubectl, "count001")["metadata"]["name"], "--", "touch", "/tmp/done")
        printed, errors = command.communicate(timeout=60)
        lines = [f"line {number}" for number in range(len(printed.splitlines()))]
        assert (command.returncode, printed.splitlines()) == (0, lines), errors
        for page in (log, tasks):
            page.join(20)
            assert not page.is_alive() and page.connections > 1, "its pod was replaced"
        assert [data["text"] for name, data in log.events if name == "line"] == lines
        assert log.events[-1] == ("end", {"state": "completed"})
        assert is_completed(*tasks.events[-1])
        assert len(lines) > 50 and visitor.answers and not visitor.failures


def is_completed(name: str, data: Any) -> bool:
    if name not in ("task", "tasks"):
        return False
    tasks = data["tasks"] if name == "tasks" else [data]
    return [task["status"] for task in tasks] == ["completed"]
