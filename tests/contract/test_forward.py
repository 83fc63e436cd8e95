"""Forward ports of real pods: many connections, lost connections and replaced pods."""

import contextlib
import hashlib
import os
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import cast

import pytest

from kubectl_sky.cluster import objects
from kubectl_sky.cluster.forward import Forwarder, PodTarget, PortPair
from kubectl_sky.cluster.session import Session
from kubectl_sky.cluster.websocket import connect
from kubectl_sky.errors import ClusterError, NotFound, UserError
from kubectl_sky.words import kinds
from tests.contract.conftest import THROUGH_SERVER
from tests.contract.makers import make_pod
from tests.contract.proxies import CuttingProxy
from tests.polling import eventually

# Pods of the practice cluster share a network, also with those of other processes; nobody listens
# on the odd ports.
PORT = 20_000 + os.getpid() % 4_000 * 2
ECHO = """
import os, socketserver
class Echo(socketserver.BaseRequestHandler):
    def handle(self):
        while data := self.request.recv(65536):
            if data == b"who\\n":
                data = os.environ["WHO"].encode()
            self.request.sendall(data)
            if data.endswith(b"bye\\n"):
                return
class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 128
Server(("0.0.0.0", int(os.environ["PORT"])), Echo).serve_forever()
"""


def start(session: Session, namespace: str, name: str = "a") -> None:
    pod = make_pod(name, namespace, "")
    [container] = pod["spec"]["containers"]
    container |= {"image": "python:3.13-slim", "command": ["python3", "-c", ECHO]}
    container["env"] = [{"name": "PORT", "value": str(PORT)}, {"name": "WHO", "value": name}]
    objects.create(session, pod)
    eventually(
        lambda: (
            objects.get_manifest(session, kinds.POD, name, namespace)["status"]["phase"]
            == "Running"
        )
    )


@contextmanager
def forwarded(
    session: Session, pod: Callable[[], tuple[str, str] | None], remote: int = PORT
) -> Iterator[tuple[int, list[str]]]:
    notes: list[str] = []
    forwarder = Forwarder(session, PodTarget(pod, notes.append))
    [place] = forwarder.listen(["127.0.0.1"], PortPair(0, remote))
    serving = threading.Thread(target=forwarder.serve, daemon=True)
    serving.start()
    try:
        yield int(place.rpartition(":")[2]), notes
    finally:
        forwarder.close()
        serving.join(60)


def talk(port: int, data: bytes) -> bytes:
    """Send data; return what is echoed before the connection ends."""

    def send() -> None:
        with contextlib.suppress(OSError):  # closed port
            line.sendall(data)

    received = b""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as line:
        sender = threading.Thread(target=send, daemon=True)
        sender.start()
        with contextlib.suppress(ConnectionError):
            while len(received) < len(data) and (block := line.recv(65536)):
                received += block
        with contextlib.suppress(OSError):
            line.shutdown(socket.SHUT_RDWR)
        sender.join()
    return received


def until_echo(port: int) -> None:
    eventually(lambda: talk(port, b"x") == b"x")


@THROUGH_SERVER
def test_forward_many_connections_transfer_all_bytes(session: Session, namespace: str) -> None:
    start(session, namespace)
    with forwarded(session, lambda: (namespace, "a")) as (port, _):
        until_echo(port)
        large = bytes(range(256)) * 20_000
        assert hashlib.sha256(talk(port, large)).digest() == hashlib.sha256(large).digest()
        words = [b"word %d\n" % number for number in range(40)]
        with ThreadPoolExecutor(20) as pool:
            assert list(pool.map(lambda word: talk(port, word), words)) == words


def test_forward_remote_close_closes_local_connection(session: Session, namespace: str) -> None:
    start(session, namespace)
    with forwarded(session, lambda: (namespace, "a")) as (port, _):
        until_echo(port)
        with socket.create_connection(("127.0.0.1", port), timeout=60) as line:
            line.sendall(b"bye\n")
            assert line.makefile("rb").read() == b"bye\n"


def test_forward_closed_remote_port_is_noted(session: Session, namespace: str) -> None:
    start(session, namespace)
    with forwarded(session, lambda: (namespace, "a"), remote=PORT - 1) as (port, notes):
        assert talk(port, b"x") == b""
        eventually(
            lambda: any(str(PORT - 1) in note and "refused" in note for note in notes),
        )


def test_forward_lost_connection_and_replaced_pod_reconnect(
    session: Session, cut_session: Session, proxy: CuttingProxy, namespace: str
) -> None:
    start(session, namespace, "a")
    current: list[str | None] = ["a"]

    def pod() -> tuple[str, str] | None:
        return (namespace, current[0]) if current[0] else None

    with forwarded(cut_session, pod) as (port, _):
        until_echo(port)
        with socket.create_connection(("127.0.0.1", port), timeout=60) as line:
            line.sendall(b"one\n")
            assert line.recv(100) == b"one\n"
            proxy.cut()
            with contextlib.suppress(ConnectionResetError):
                assert line.recv(100) == b""
        assert talk(port, b"two\n") == b"two\n"
        objects.delete(session, kinds.POD, "a", namespace, grace=0)
        current[0] = None
        replacement = threading.Thread(target=start, args=(session, namespace, "b"))
        replacement.start()
        threading.Timer(1.5, lambda: current.__setitem__(0, "b")).start()
        replacement.join()
        until_echo(port)
        with socket.create_connection(("127.0.0.1", port), timeout=60) as line:
            line.sendall(b"who\n")
            assert line.recv(100) == b"b"


@pytest.mark.practice_only
def test_forward_finished_pod_raises_user_error(session: Session, namespace: str) -> None:
    notes: list[str] = []

    def gone() -> tuple[str, str] | None:
        raise UserError("node-0 has ended")

    forwarder = Forwarder(session, PodTarget(gone, notes.append))
    [place] = forwarder.listen(["127.0.0.1"], PortPair(0, PORT))

    def knock() -> None:
        with socket.create_connection(("127.0.0.1", int(place.rpartition(":")[2]))) as line:
            line.recv(1)

    threading.Timer(0.3, knock).start()
    with pytest.raises(UserError, match="node-0 has ended"):
        forwarder.serve()


def test_forwarder_that_exits_while_it_looks_for_the_pod_is_silent() -> None:
    notes: list[str] = []
    looking = threading.Event()

    def pod() -> None:
        looking.set()
        eventually(forwarder._stop.is_set)
        raise RuntimeError("cannot schedule new futures after interpreter shutdown")

    forwarder = Forwarder(cast(Session, None), PodTarget(pod, notes.append))
    [place] = forwarder.listen(["127.0.0.1"], PortPair(0, PORT))
    serving = threading.Thread(target=forwarder.serve)
    serving.start()
    with socket.create_connection(("127.0.0.1", int(place.rpartition(":")[2]))):
        assert looking.wait(60)
        forwarder.close()
        serving.join(60)
        threads = [thread for thread in threading.enumerate() if thread.name == "port-forward"]
        for thread in threads:
            thread.join(60)
    assert len(notes) == 1, "that the connection is handled"


@pytest.mark.practice_only
def test_forward_local_port_in_use_is_user_error(session: Session) -> None:
    notes: list[str] = []
    forwarder = Forwarder(session, PodTarget(lambda: None, notes.append))
    # it listens on the other addresses of "localhost" until it is closed
    with socket.create_server(("127.0.0.1", 0)) as other, contextlib.closing(forwarder):
        port = other.getsockname()[1]
        with pytest.raises(
            UserError, match=f"cannot listen on 127.0.0.1 port {port}: address already in use;"
        ):
            list(forwarder.listen(["localhost"], PortPair(port, 80)))
        with pytest.raises(UserError, match="not an address of this machine"):
            list(forwarder.listen(["no such name"], PortPair(port, 80)))


def test_connect_invalid_ports_is_cluster_error(session: Session, namespace: str) -> None:
    start(session, namespace)
    path = objects.path(kinds.POD, namespace, "a", "portforward")
    for ports in ("", "0", "x", "65536", "80,y"):
        query = {"ports": ports} if ports else {}
        with pytest.raises(ClusterError):
            connect(session, path, query, ["v4.channel.k8s.io"])


def test_connect_missing_pod_is_not_found(session: Session, namespace: str) -> None:
    path = objects.path(kinds.POD, namespace, "absent", "portforward")
    with pytest.raises(NotFound, match="pods absent not found"):
        connect(session, path, {"ports": "80"}, ["v4.channel.k8s.io"])
