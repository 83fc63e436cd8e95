"""Proxies of connections: SOCKS and HTTP, where they come from, and what is said when they fail."""

import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml

from kubectl_sky.cluster import kubeconfig, objects
from kubectl_sky.cluster.session import Connection, Session
from kubectl_sky.cluster.websocket import connect
from kubectl_sky.errors import Unreachable
from kubectl_sky.words import kinds
from tests.cluster.target import Cluster, selected
from tests.contract.configs import make_config
from tests.contract.makers import make_pod
from tests.contract.socks import SocksProxy
from tests.contract.test_exec import run, until

VARIABLES = ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy", "NO_PROXY", "no_proxy")


@pytest.fixture(autouse=True)
def _no_proxy_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def socks(cluster: Cluster) -> Iterator[SocksProxy]:
    """A SOCKS proxy to the API server."""
    server = Session.connect(Connection(kubeconfig=str(cluster.kubeconfig))).server
    with closing(SocksProxy(server)) as proxy:
        yield proxy


@pytest.fixture(params=["proxy-url socks5", "proxy-url socks5h", "HTTPS_PROXY socks5"])
def through_socks(
    cluster: Cluster,
    socks: SocksProxy,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> Iterator[Session]:
    """A session with a server whose name only the proxy knows."""
    source, scheme = request.param.split()
    url = f"{scheme}://{socks.address}"
    entry, user = selected(yaml.safe_load(cluster.kubeconfig.read_text()))
    entry |= {"server": "https://only-the-proxy-knows.invalid", "tls-server-name": "localhost"}
    if source == "proxy-url":
        entry["proxy-url"] = url
    else:
        monkeypatch.setenv(source, url)
    path = make_config(tmp_path / "config", user=user, cluster=entry)
    with closing(Session.connect(Connection(kubeconfig=str(path)))) as session:
        yield session


@pytest.mark.practice_only
def test_socks_proxy_resolves_server_and_carries_requests_and_websockets(
    through_socks: Session, socks: SocksProxy, namespace: str
) -> None:
    """As in kubectl, where both schemes leave the server's name to the proxy."""
    session = through_socks.in_namespace(namespace)
    objects.create(session, make_pod("a", namespace, "sleep 600"))
    until(session, namespace, "a", "Running")
    assert run(session, "a", "echo", "hi") == (0, b"hi\n", b"")
    forwarded = objects.path(kinds.POD, namespace, "a", "portforward")
    connect(session, forwarded, {"ports": "1"}, ("v4.channel.k8s.io",)).close()
    assert set(socks.names) == {"only-the-proxy-knows.invalid"}


def resolve(path: Path, **cluster: str) -> str:
    """Return the proxy of a connection, as messages name it."""
    config = make_config(path / "config", cluster=dict(cluster))
    return kubeconfig.resolve(Connection(kubeconfig=str(config))).proxy


def test_proxy_of_environment_is_not_used_for_no_proxy_and_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://here:1")
    assert resolve(tmp_path) == "http://here:1 of HTTPS_PROXY"
    for server in ("https://127.0.0.1:6443", "https://localhost:6443", "https://[::1]:6443"):
        assert resolve(tmp_path, server=server) == ""
    monkeypatch.setenv("NO_PROXY", "here.invalid")
    assert resolve(tmp_path) == ""


def test_proxy_url_of_kubeconfig_is_used_for_all_servers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://other:1")
    monkeypatch.setenv("NO_PROXY", "*")
    url = {"proxy-url": "http://me:s3cret@here:1"}
    expected = "http://here:1 of proxy-url in the kubeconfig"
    assert resolve(tmp_path, **url) == expected
    assert resolve(tmp_path, server="https://127.0.0.1:1", **url) == expected


@pytest.fixture
def mute() -> Iterator[str]:
    """The address of a server that accepts connections and is silent."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


class RefusingProxy:
    """An HTTP proxy that wants a login."""

    def __init__(self) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_CONNECT(self) -> None:
                self.send_error(407)

            def log_message(self, *args: object) -> None:
                """Nothing on stderr."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def refuse(path: Path, url: str, seconds: float = 60) -> list[str]:
    """Return what is said when a request, and a WebSocket, go through a proxy."""
    config = make_config(path / "config", cluster={"proxy-url": url})
    session = Session.connect(Connection(kubeconfig=str(config), request_timeout=seconds))
    messages = []
    websocket = partial(connect, session, "/api/v1/namespaces/x/pods/a/exec", {}, ("v5",))
    for attempt in (partial(session.send, "GET", "/version"), websocket):
        with pytest.raises(Unreachable) as error:
            attempt()
        messages.append(str(error.value))
    session.close()
    return messages


@pytest.mark.parametrize("scheme", ["http", "socks5"])
@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("me:s3cret@127.0.0.1:1", "connection refused"),
        ("no-such-proxy.invalid:1", "its host name is not known"),
    ],
)
def test_dead_proxy_is_named_with_its_source(
    tmp_path: Path, scheme: str, address: str, why: str
) -> None:
    url = f"{scheme}://{address}"
    shown = url.replace("me:s3cret@", "")
    for message in refuse(tmp_path, url):
        assert message == (
            f"cannot reach here.invalid:6443: the proxy does not answer: {why};"
            f" check the proxy {shown} of proxy-url in the kubeconfig"
        )


@pytest.mark.parametrize("scheme", ["http", "socks5"])
def test_silent_proxy_is_named_with_its_source(tmp_path: Path, mute: str, scheme: str) -> None:
    for message in refuse(tmp_path, f"{scheme}://{mute}", seconds=0.5):
        assert message == (
            "cannot reach here.invalid:6443: the proxy does not answer: timed out;"
            f" check the proxy {scheme}://{mute} of proxy-url in the kubeconfig"
        )


def test_refusal_of_socks_proxy_is_shown(tmp_path: Path) -> None:
    with closing(SocksProxy("https://127.0.0.1:1", refusal=5)) as proxy:
        for message in refuse(tmp_path, f"socks5://{proxy.address}"):
            assert message == (
                "cannot reach here.invalid:6443: the proxy answers: Connection refused;"
                f" check the proxy socks5://{proxy.address} of proxy-url in the kubeconfig,"
                " and that it may connect to here.invalid:6443"
            )


def test_refusal_of_http_proxy_is_shown(tmp_path: Path) -> None:
    with closing(RefusingProxy()) as proxy:
        for message in refuse(tmp_path, f"http://{proxy.address}"):
            assert "the proxy answers: 407 Proxy Authentication Required; " in message
            assert f"check the proxy http://{proxy.address} of proxy-url in the" in message
