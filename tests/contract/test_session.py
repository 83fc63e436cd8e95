"""Retried requests, and sessions shared by many threads."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from kubectl_sky import __version__
from kubectl_sky.cluster import objects
from kubectl_sky.cluster.session import Connection, Session
from kubectl_sky.cluster.streams import LogOptions, LogSource
from kubectl_sky.errors import ClusterError, Forbidden, NotFound, Unreachable
from kubectl_sky.words import kinds
from tests.cluster.target import Cluster
from tests.contract.lines import lines, run_pod, until_finished
from tests.contract.makers import make_config_map, make_pod
from tests.contract.proxies import CuttingProxy, FrontProxy

Front = Callable[..., tuple[FrontProxy, Session]]


@pytest.fixture
def front(cluster: Any, session: Session, namespace: str) -> Iterator[Front]:
    """Create a proxy that returns these errors first, and a session through it."""
    made: list[tuple[FrontProxy, Session]] = []

    def make(*refusals: tuple[int, dict[str, str]]) -> tuple[FrontProxy, Session]:
        proxy = FrontProxy(session, refusals)
        through = Session.connect(
            Connection(kubeconfig=str(cluster.kubeconfig), namespace=namespace, server=proxy.url)
        )
        made.append((proxy, through))
        return made[-1]

    yield make
    for proxy, through in made:
        through.close()
        proxy.close()


@pytest.mark.practice_only
def test_request_busy_server_is_retried_after_delay(front: Front, namespace: str) -> None:
    wait = (429, {"Retry-After": "1"})
    proxy, session = front(wait, wait)
    begun = time.monotonic()
    objects.list_all(session, kinds.CONFIG_MAP, namespace)
    assert time.monotonic() - begun > 1.9
    assert len(proxy.seen) == 3


@pytest.mark.practice_only
def test_logs_follow_busy_server_is_retried(front: Front, session: Session, namespace: str) -> None:
    objects.create(session, make_pod("a", namespace, "echo one; sleep 1; echo two"))
    proxy, through = front(*[(429, {})] * 7, (503, {}))  # more errors than a single request retries
    source = LogSource(namespace, "a", "main")
    printed = list(lines(through, source, LogOptions(follow=True)))
    assert [line.text for line in printed] == [b"one", b"two"]
    assert proxy.refusals == []


def test_logs_follow_lines_written_after_exit_are_read(
    front: Front, session: Session, namespace: str
) -> None:
    source = run_pod(session, namespace, "for i in $(seq 8); do echo $i; done")
    until_finished(session, source)
    proxy, through = front()
    proxy.written = time.monotonic() + 0.3
    printed = list(lines(through, source, LogOptions(follow=True)))
    assert [line.text for line in printed] == [b"%d" % number for number in range(1, 9)]


@pytest.mark.practice_only
def test_request_sets_user_agent_and_gzip_headers(front: Front, namespace: str) -> None:
    proxy, session = front()
    objects.list_all(session, kinds.CONFIG_MAP, namespace)
    assert proxy.headers[0]["User-Agent"] == f"kubectl-sky/{__version__}"
    assert proxy.headers[0]["Accept-Encoding"] == "gzip"


@pytest.mark.practice_only
def test_request_lost_connection_reconnects(
    cut_session: Session, proxy: CuttingProxy, namespace: str
) -> None:
    objects.list_all(cut_session, kinds.CONFIG_MAP, namespace)
    proxy.cut()
    objects.list_all(cut_session, kinds.CONFIG_MAP, namespace)
    proxy.refusing = True
    proxy.cut()
    with pytest.raises(Unreachable) as error:
        objects.list_all(cut_session.impatient(), kinds.CONFIG_MAP, namespace)
    assert "127.0.0.1" in str(error.value)
    proxy.refusing = False
    objects.list_all(cut_session, kinds.CONFIG_MAP, namespace)


@pytest.mark.practice_only
def test_request_forbidden_after_restart_is_unreachable(
    cluster: Cluster, proxy: CuttingProxy, namespace: str
) -> None:
    """A restarted API server does not know all RBAC rights at once."""
    connection = Connection(
        kubeconfig=str(cluster.kubeconfig), context="alice", server=proxy.url, insecure=True
    )
    alice = Session.connect(connection).impatient()
    with pytest.raises(Forbidden):
        objects.list_all(alice, kinds.CONFIG_MAP, namespace)

    proxy.refusing = True
    proxy.cut()
    with pytest.raises(Unreachable):
        objects.list_all(alice, kinds.CONFIG_MAP, namespace)

    proxy.refusing = False
    with pytest.raises(Unreachable, match=r"user alice.*; .* may not know your rights yet"):
        objects.list_all(alice, kinds.CONFIG_MAP, namespace)

    with pytest.raises(Forbidden):  # the server was ready when it was sent
        objects.list_all(alice, kinds.CONFIG_MAP, namespace)

    alice.close()


def test_session_many_threads_share_connection_pool(session: Session, namespace: str) -> None:
    def work(index: int) -> int:
        name = f"a{index}"
        objects.apply(session, make_config_map(name, namespace))
        objects.get(session, kinds.CONFIG_MAP, name, namespace)
        assert objects.delete(session, kinds.CONFIG_MAP, name, namespace)
        with pytest.raises(NotFound):
            objects.get(session, kinds.CONFIG_MAP, name, namespace)
        return index

    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(work, range(64))) == list(range(64))


def test_request_non_kubernetes_server_is_cluster_error(session: Session) -> None:
    with pytest.raises(ClusterError, match="does not answer like a Kubernetes API server"):
        session.send("GET", "/healthz")  # answers `ok`


@pytest.mark.practice_only
def test_stream_close_ends_reading(session: Session, namespace: str) -> None:
    query = {"watch": "1", "timeoutSeconds": "60"}
    stream = session.stream(objects.path(kinds.CONFIG_MAP, namespace), query)
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(lambda: sum(len(chunk) for chunk in stream))
        time.sleep(0.3)
        stream.close()
        stream.close()
        assert reading.result(timeout=60) >= 0
    stream.__exit__()


def test_import_does_not_load_typed_models() -> None:
    code = (
        "import sys, kubectl_sky.cluster.session\n"
        "print([name for name in sys.modules if name.startswith(('kubernetes.client.models.',"
        " 'kubernetes.client.api.', 'jinja2', 'click'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout.strip() == "[]"


def test_version_with_slash_at_its_end_is_served(session: Session) -> None:
    """As some clients ask for it."""
    assert session.send("GET", "/version/").body == session.send("GET", "/version").body


def test_request_with_a_file_name_that_is_not_utf8_is_sent(session: Session) -> None:
    query = {"command": os.fsdecode(b"\xff")}
    assert session.send("GET", "/version", query=query).body["major"]
