"""What commands say of evicted and terminating pods, other contexts, and killed submits."""

import json
import signal
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from threading import Event, Lock
from urllib.parse import urlsplit

import pytest
import yaml

from kubectl_sky.cluster.session import Connection, Session
from tests.cluster.target import ADMIN, Cluster
from tests.contract.proxies import FrontProxy
from tests.e2e.conftest import Command
from tests.e2e.test_submit import gone, objects
from tests.e2e.test_truth import PAIR, started, texts
from tests.polling import eventually


def pod_of(kubectl: Command, task_id: str, rank: int) -> str:
    (pod,) = kubectl.json("get", "pods", "-l", f"task-id={task_id},node-idx={rank}")["items"]
    return str(pod["metadata"]["name"])


def test_commands_pod_evicted_name_node_and_reason(
    sky: Command, kubectl: Command, namespace: str
) -> None:
    started(sky, "evict001")
    pod = pod_of(kubectl, "evict001", 1)
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}}
    path = f"/api/v1/namespaces/{namespace}/pods/{pod}/eviction"
    done = kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(eviction))
    assert done.returncode == 0, done.stderr
    for command, text in texts(sky, "evict001").items():
        assert "failed" in text and "node-1" in text, (command, text)
    assert sky("stop", "evict001").returncode == 0


@pytest.mark.practice_only
def test_commands_node_low_on_memory_say_evicted(
    sky: Command, kubectl: Command, cluster: Cluster
) -> None:
    if cluster.driver != "practice":
        pytest.skip("a real kubelet overwrites the status of a pod")
    started(sky, "evict002")
    message = "The node was low on resource: memory."
    status = {"phase": "Failed", "reason": "Evicted", "message": message}
    patch = ("patch", "pod", pod_of(kubectl, "evict002", 1), "--subresource=status", "--type=merge")
    assert kubectl(*patch, "-p", json.dumps({"status": status})).returncode == 0
    for command, text in texts(sky, "evict002").items():
        assert "failed" in text and "node-1" in text, (command, text)
        reason = "the cluster node was low on memory" if command == "doctor" else "Evicted"
        assert reason in text, (command, text)
        assert "BackoffLimitExceeded" not in text, (command, text)
    assert sky("stop", "evict002").returncode == 0


@pytest.mark.practice_only
def test_commands_pod_terminating_name_it_until_it_is_deleted(
    sky: Command, kubectl: Command
) -> None:
    stubborn = PAIR.replace("sleep 600", "trap '' TERM; while true; do sleep 1; done")
    started(sky, "ending01", text=stubborn)
    pod = pod_of(kubectl, "ending01", 1)
    assert kubectl("delete", "pod", pod, "--wait=false", "--grace-period=60").returncode == 0
    (row,) = sky("list", "-o", "wide").stdout.splitlines()[1:]
    assert row.split()[2:4] == ["running", "2/2"]
    assert "node-1: Terminating" in row
    assert "running — node-1: Terminating" in sky("status", "ending01").stdout
    doctor = sky("doctor", "ending01").stdout
    assert "is running: its pod is being deleted" in doctor and "node-1: its pod" in doctor
    waited = sky("wait", "ending01", "--timeout", "1s")
    assert waited.returncode == 1
    assert "node-1: Terminating" in waited.stderr
    assert kubectl("delete", "pod", pod, "--grace-period=0", "--force").returncode == 0
    for command, text in texts(sky, "ending01").items():
        assert ("its pod was deleted" if command == "doctor" else "PodDeleted") in text, text
    assert sky("stop", "ending01").returncode == 0


@pytest.fixture
def contexts(sky: Command, namespace: str, cluster: Cluster, tmp_path: Path) -> Command:
    """Two contexts: `first`, the current one, in the test's namespace, `second` in `default`."""
    path = tmp_path / "kubeconfig"
    config = yaml.safe_load(path.read_text())
    current = next(
        item["context"] for item in config["contexts"] if item["name"] == config["current-context"]
    )
    config["contexts"] = [
        {"name": "first", "context": {**current, "namespace": namespace}},
        {"name": "second", "context": {**current, "namespace": "default"}},
    ]
    config["current-context"] = "first"
    path.write_text(json.dumps(config))
    return sky


@pytest.mark.practice_only
def test_task_of_other_context_is_shown_with_its_context_only(contexts: Command) -> None:
    script = "name: far\nresources: {image_id: 'busybox:1.36'}\nrun: exit 3\n"
    second = ("--context", "second")
    try:
        done = contexts("submit", "-", "--id", "faraway1", *second, stdin=script)
        assert done.returncode == 4, done.stderr
        rows = contexts.json("list", "--all-contexts")["tasks"]
        assert [(row["task_id"], row["context"]) for row in rows] == [("faraway1", "second")]
        assert contexts("list", "--all-contexts").stdout.startswith("second:\n")
        for command in ("status", "doctor", "logs", "wait"):
            here = contexts(command, "faraway1")
            assert here.returncode == 2, here.stderr
            assert 'error: task "faraway1" not found in namespace' in here.stderr
            assert contexts(command, "faraway1", *second).returncode in (0, 4)
    finally:
        stopped = contexts("stop", "faraway1", *second)
    assert stopped.returncode == 0, stopped.stderr


class StallingProxy(FrontProxy):
    """Forwards to the API server until the n-th write that matches; that one never returns.

    All later writes wait as well.
    """

    def __init__(self, direct: Session, method: str, word: str, number: int) -> None:
        self._match = method, word
        self._left = number
        self._lock = Lock()
        self._closed = Event()
        self.stalled = Event()
        super().__init__(direct, [])

    def forward(
        self, direct: Session, request: BaseHTTPRequestHandler, body: bytes
    ) -> tuple[int, dict[str, str], bytes]:
        parts = urlsplit(request.path)
        writes = request.command in ("POST", "PATCH") and "dryRun" not in parts.query
        with self._lock:
            method, word = self._match
            if writes and request.command == method and parts.path.rpartition("/")[2] == word:
                self._left -= 1
                if self._left < 0:
                    self.stalled.set()
        if writes and "/namespaces/" in parts.path and self.stalled.is_set():
            self._closed.wait(60)
            return 500, {}, b"{}"
        return super().forward(direct, request, body)

    def close(self) -> None:
        self._closed.set()
        super().close()


@pytest.fixture
def direct(cluster: Cluster) -> Iterator[Session]:
    session = Session.connect(Connection(kubeconfig=str(cluster.kubeconfig), context=ADMIN))
    yield session
    session.close()


def kill_submit(
    sky: Command, direct: Session, stall: tuple[str, str, int], *flags: str, text: str = PAIR
) -> None:
    """Kill a submit that writes up to a point; the kubeconfig has a context `proxy` afterwards."""
    proxy = StallingProxy(direct, *stall)
    try:
        path = Path(sky.environment["KUBECONFIG"])
        config = json.loads(path.read_text())
        current = next(
            item for item in config["contexts"] if item["name"] == config["current-context"]
        )
        proxied = {**current["context"], "cluster": "proxy"}
        config["clusters"].append({"name": "proxy", "cluster": {"server": proxy.url}})
        config["contexts"].append({"name": "proxy", "context": proxied})
        other = path.with_name("proxied")
        other.write_text(json.dumps(config))
        process = sky.start(
            *("submit", sky.write("task.yaml", text), "--detach", "--kubeconfig", str(other)),
            *("--context", "proxy", *flags),
        )
        if not proxy.stalled.wait(60):
            process.kill()
            pytest.fail(f"no such write: {process.communicate()}")
        process.send_signal(signal.SIGKILL)
        process.wait()
    finally:
        proxy.close()


@pytest.mark.practice_only
@pytest.mark.parametrize(
    ("backend", "stall", "nodes"),
    [
        ("jobs", ("POST", "jobs", 0), 0),
        ("jobs", ("POST", "jobs", 1), 1),
        ("jobs", ("PATCH", "pair-killed01", 0), 2),
        ("indexed", ("POST", "jobs", 0), 0),
        ("indexed", ("PATCH", "pair-killed01", 0), 2),
    ],
)
def test_submit_killed_is_shown_completed_stopped_and_cleaned(
    sky: Command, kubectl: Command, direct: Session, backend: str, stall: tuple[str, str, int],
    nodes: int,
) -> None:  # fmt: skip
    check_killed(sky, kubectl, direct, backend, stall, nodes)


def check_killed(
    sky: Command,
    kubectl: Command,
    direct: Session,
    backend: str,
    stall: tuple[str, str, int],
    nodes: int,
) -> None:
    """Kill a submit; `nodes` nodes exist then. Go on with --id, kill again, stop or clean."""
    flags = ("--backend", backend, "--id", "killed01")
    kill_submit(sky, direct, stall, *flags)
    listed = sky("list")
    assert listed.returncode == 0
    if nodes == 0:
        assert listed.stderr.startswith("No tasks found")
        assert 'task "killed01" not found' in sky("status", "killed01").stderr
        cleaned = sky("clean", "--orphans", "--older-than", "0s", "--dry-run=client")
        assert "killed01" in cleaned.stdout
    elif nodes == 1:
        note = "incomplete: 1 of 2 nodes submitted"
        assert note in listed.stderr and "--id killed01" in listed.stderr
        for command in ("status", "doctor"):
            assert note in sky(command, "killed01").stdout
    else:
        eventually(lambda: "2/2" in sky("list").stdout, 60)
        assert sky("list").stderr == ""
    done = sky("submit", "-", "--detach", *flags, stdin=PAIR)
    assert done.returncode == 0, done.stderr
    eventually(lambda: sky.json("status", "killed01")["metadata"]["running_nodes"] == 2, 60)
    assert sky("stop", "killed01").returncode == 0
    gone(kubectl, "killed01")

    kill_submit(sky, direct, stall, *flags)
    if nodes == 0:
        done = sky("clean", "--orphans", "--older-than", "0s", "--yes")
    else:
        done = sky("stop", "killed01")
    assert done.returncode == 0, done.stderr
    eventually(lambda: objects(kubectl, "killed01") == [], 60)
