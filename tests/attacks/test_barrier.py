"""Strangers at the start barrier: barrier.py as nodes run it, on loopback addresses."""

import os
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from signal import SIGPIPE, SIGXFSZ

import pytest

from kubectl_sky.words import assets
from tests.polling import eventually

PORT = 61137
TOKEN = "the-token-of-the-task"
MEMORY = 300 << 20  # bytes; Python and its libraries need a tenth of it
NETWORK = f"127.{os.getpid() % 200 + 20}"  # tests of several processes run at the same time
_numbers = count(1)


@dataclass
class Task:
    """A task whose node of rank R has the address NETWORK.R.N, also in DNS."""

    folder: Path
    nodes: int = 3
    token: str = TOKEN
    timeout: int = 60
    number: int = field(default_factory=lambda: next(_numbers) % 250 + 1)
    started: list[subprocess.Popen[str]] = field(default_factory=list)
    connections: list[socket.socket] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def address(self, rank: int) -> str:
        return f"{NETWORK}.{rank}.{self.number}"

    def files(self, rank: int) -> Path:
        return self.folder / f"files-{rank}"

    def awaited(self, rank: int) -> str:
        """Return what the startup probe of a node would say."""
        with suppress(FileNotFoundError):
            return (self.files(rank) / "awaited").read_text().strip()
        return ""

    def start(self, rank: int, address: str = "") -> subprocess.Popen[str]:
        self.files(rank).mkdir(exist_ok=True)
        environment = {
            "PATH": os.environ["PATH"],
            "NODE_RANK": str(rank),
            "NUM_NODES": str(self.nodes),
            "POD_IP": address or self.address(rank),
            "KUBECTL_SKY_HOSTS": f"{NETWORK}.",
            "KUBECTL_SKY_TOKEN": self.token,
            "KUBECTL_SKY_FILES": str(self.files(rank)),
            "KUBECTL_SKY_BARRIER_TIMEOUT": str(self.timeout),
        }

        process = subprocess.Popen(
            [sys.executable, "-I", str(self.folder / "barrier.py"), str(self.number)],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY)),
        )
        self.started.append(process)
        return process

    def call(self, source: str) -> socket.socket:
        """Connect to rank 0 as soon as it listens."""
        deadline = time.monotonic() + 60
        while True:
            try:
                connection = socket.create_connection((self.address(0), PORT), 60, (source, 0))
                self.connections.append(connection)
                return connection
            except ConnectionRefusedError:
                assert time.monotonic() < deadline
                time.sleep(0.02)

    def end(self) -> None:
        """Close what a failed test leaves, which would fail another test."""
        for connection in self.connections:
            connection.close()
        for process in self.started:
            process.kill()
            process.communicate()

    def meet(self, *ranks: int) -> list[list[str]]:
        """Start the remaining nodes; return the addresses that each node prints."""
        for rank in ranks:
            self.start(rank)
        outputs = [process.communicate(timeout=60) for process in self.started]
        self.errors = [errors for _, errors in outputs]
        return [output.split() for output, _ in outputs]

    @property
    def right(self) -> list[str]:
        return [self.address(rank) for rank in range(self.nodes)]


@pytest.fixture
def task(tmp_path: Path) -> Iterator[Task]:
    (tmp_path / "barrier.py").write_text(assets.read("runtime", "barrier.py"))
    (tmp_path / "entry.sh").write_text('echo "$SKYPILOT_NODE_IPS"; echo "${KUBECTL_SKY_TOKEN-}"\n')
    made = Task(tmp_path)
    yield made
    made.end()


def is_closed(connection: socket.socket) -> bool:
    """Wait until the other side closes a connection, on which it sends nothing."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def test_barrier_all_nodes_get_addresses_in_rank_order(task: Task) -> None:
    assert task.meet(2, 0, 1) == [task.right] * 3, "the token is not in the environment of the task"


def test_barrier_tells_which_nodes_are_missing(task: Task) -> None:
    script = task.folder / "barrier.py"
    script.write_text(script.read_text().replace("QUIET = 30.0", "QUIET = 0.0"))
    task.start(2)
    eventually(lambda: task.awaited(2) == "node-0 (connection refused)")
    task.start(0)
    eventually(lambda: task.awaited(0) == "node-1 (no connection)")
    eventually(lambda: task.awaited(2) == "node-0, which waits for other nodes")

    task.start(1)
    output, _ = task.started[1].communicate(timeout=60)
    lines = [line for line in output.splitlines() if line.startswith("kubectl-sky: ")]
    assert lines[-2:] == [
        "kubectl-sky: waiting for node-1 (no connection)",
        "kubectl-sky: all nodes have met",
    ]


def test_barrier_leaves_the_program_the_signals_that_python_ignores(task: Task) -> None:
    """With SIGPIPE ignored, `echo "$SKYPILOT_NODE_IPS" | head -n1` prints an error now and then."""
    (task.folder / "entry.sh").write_text("grep SigIgn /proc/self/status\n")
    ignored = [int(mask, 16) for _, mask in task.meet(2, 0, 1)]
    assert not any(mask >> number - 1 & 1 for mask in ignored for number in (SIGPIPE, SIGXFSZ))


def test_barrier_without_token_uses_dns_addresses(task: Task) -> None:
    task.token = "REDACTED"  # as `render` masks it
    task.start(0)
    with task.call(STRANGER) as stranger:
        stranger.sendall(b"1 REDACTED\n")
        assert is_closed(stranger), "DNS has another address"
    assert task.meet(2, 1) == [task.right] * 3


STRANGER = "127.9.9.9"
GREETINGS = {
    "no token": b"1\n",
    "masked token": b"1 REDACTED\n",
    "another token": b"1 another-token\n",
    "rank 0": b"0 %s\n",
    "rank -1": b"-1 %s\n",
    "rank 3": b"3 %s\n",
    "no rank": b"$(id) %s\n",
    "bytes": b"\xff\xfe\x00 1 2\n",
    "endless": b"1" * 10_000_000,
}


@pytest.mark.parametrize("name", GREETINGS)
def test_barrier_line_of_stranger_is_refused(task: Task, name: str) -> None:
    task.start(0)
    with task.call(STRANGER) as stranger:
        with suppress(OSError):  # closed before all is sent
            stranger.sendall(GREETINGS[name].replace(b"%s", TOKEN.encode()))
        assert is_closed(stranger)
    assert task.meet(1, 2) == [task.right] * 3


def test_barrier_silent_stranger_is_disconnected(task: Task) -> None:
    task.start(0)
    assert is_closed(task.call(STRANGER))
    assert task.meet(1, 2) == [task.right] * 3


def test_barrier_many_silent_strangers_cause_no_delay(task: Task) -> None:
    task.start(0)
    for _ in range(300):
        task.call(STRANGER)
    assert task.meet(1, 2) == [task.right] * 3


def test_barrier_restarted_rank_replaces_former_connection(task: Task) -> None:
    task.start(0)
    former = task.call(STRANGER)
    former.sendall(f"1 {TOKEN}\n".encode())
    elsewhere = f"{NETWORK}.1.251"
    task.start(1, elsewhere)
    assert is_closed(former)
    assert task.meet(2) == [[task.address(0), elsewhere, task.address(2)]] * 3


@pytest.mark.parametrize(
    "answer", [b"HTTP/1.1 400 Bad Request\n", b"\xff\n", b"addresses 6.6", b""]
)
def test_barrier_answer_of_other_program_is_not_used(task: Task, answer: bytes) -> None:
    """Another program may listen on the former address of rank 0."""
    with socket.create_server((task.address(0), PORT)) as other:
        task.start(1)
        connection, _ = other.accept()
        with connection:
            assert connection.recv(100) == f"1 {TOKEN}\n".encode()
            connection.sendall(answer)
    assert task.meet(0, 2) == [task.right] * 3


def test_barrier_timeout_names_missing_ranks_to_all(task: Task) -> None:
    task.timeout = 3
    task.start(2)
    assert task.meet(0) == [[], []]
    message = "gave up waiting for the other nodes after 3 seconds: no connection from rank 1\n"
    assert task.errors == [f"kubectl-sky: {message}"] * 2


def test_barrier_port_in_use_is_waited_for(task: Task) -> None:
    """With hostNetwork, another task may start on the same cluster node."""
    with socket.create_server((task.address(0), PORT)):
        first = task.start(0)
        time.sleep(0.5)
        assert first.poll() is None
    assert task.meet(1, 2) == [task.right] * 3
