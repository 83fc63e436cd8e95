"""Strangers at the start barrier: barrier.py as nodes run it, on loopback addresses."""

import hashlib
import hmac
import os
import resource
import select
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import pytest

from kubectl_sky.words import assets

PORT = 61137
TOKEN = "the token of the task"
MEMORY = 300 << 20  # bytes; Python and its libraries need a tenth of it
NETWORK = f"127.{os.getpid() % 200 + 20}"  # tests of several processes run at the same time
_numbers = count(1)


@dataclass
class Task:
    """A task whose node of rank R has the address NETWORK.R.N, also in DNS."""

    folder: Path
    nodes: int = 3
    token: str = TOKEN
    number: int = field(default_factory=lambda: next(_numbers) % 250 + 1)
    started: list[subprocess.Popen[str]] = field(default_factory=list)
    connections: list[socket.socket] = field(default_factory=list)

    def address(self, rank: int) -> str:
        return f"{NETWORK}.{rank}.{self.number}"

    def start(self, rank: int, address: str = "") -> subprocess.Popen[str]:
        environment = {
            "PATH": os.environ["PATH"],
            "MALLOC_ARENA_MAX": "1",  # else each thread may reserve 64 MiB of addresses
            "NODE_RANK": str(rank),
            "NUM_NODES": str(self.nodes),
            "POD_IP": address or self.address(rank),
            "KUBECTL_SKY_HOSTS": f"{NETWORK}.",
            "KUBECTL_SKY_TOKEN": self.token,
            "KUBECTL_SKY_BARRIER_TIMEOUT": "60",
        }
        process = subprocess.Popen(
            [sys.executable, "-I", str(self.folder / "barrier.py"), str(self.number)],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY)),
        )
        self.started.append(process)
        return process

    def limit_greetings(self, seconds: float) -> None:
        """Let rank 0 wait that long for a greeting."""
        script = self.folder / "barrier.py"
        text = script.read_text()
        assert "GREETING = 5.0" in text
        script.write_text(text.replace("GREETING = 5.0", f"GREETING = {seconds}"))

    def call(self, source: str, rank: int = 0) -> socket.socket:
        """Connect to a rank as soon as it listens."""
        deadline = time.monotonic() + 60
        while True:
            try:
                connection = socket.create_connection((self.address(rank), PORT), 60, (source, 0))
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

    def sign(self, *words: str, token: str | None = None) -> str:
        text = " ".join((self.address(0), *words))
        key = self.token if token is None else token
        return hmac.new(key.encode(), text.encode(), hashlib.sha256).hexdigest()

    def greeting(self, nonce: str, rank: int, address: str, token: str | None = None) -> bytes:
        signature = self.sign("join", nonce, "mine", str(rank), address, token=token)
        return f"{rank} mine {signature}\n".encode()

    def meet(self, *ranks: int) -> list[list[str]]:
        """Start the remaining nodes; return the addresses that each node prints."""
        for rank in ranks:
            self.start(rank)
        return [process.communicate(timeout=60)[0].split() for process in self.started]

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


def line(connection: socket.socket) -> str:
    """Read one line; empty when the other side closes the connection."""
    text = b""
    while not text.endswith(b"\n"):
        try:
            data = connection.recv(1)
        except ConnectionResetError:
            return ""
        if not data:
            return ""
        text += data
    return text.decode().strip()


def test_barrier_all_nodes_get_addresses_in_rank_order(task: Task) -> None:
    assert task.meet(2, 0, 1) == [task.right] * 3, "the token is not in the environment of the task"


def test_barrier_without_token_uses_dns_addresses(task: Task) -> None:
    task.token = "REDACTED"  # as `render` masks it
    task.start(0)
    assert task.meet(2, 1) == [task.right] * 3


Send = Callable[[Task, str], bytes]
STRANGER = "127.9.9.9"
GREETINGS: dict[str, Send] = {
    "old": lambda task, _: f"{task.number} 1 6.6.6.6;$(id)\n".encode(),
    "injection": lambda _, nonce: f"1 6.6.6.6;$(id) {nonce}\n".encode(),
    "no token": lambda task, nonce: task.greeting(nonce, 1, STRANGER, ""),
    "masked token": lambda task, nonce: task.greeting(nonce, 1, STRANGER, "REDACTED"),
    "another's address": lambda task, nonce: task.greeting(nonce, 1, task.address(1)),
    "rank 0": lambda task, nonce: task.greeting(nonce, 0, STRANGER),
    "rank -1": lambda task, nonce: task.greeting(nonce, -1, STRANGER),
    "rank 3": lambda task, nonce: task.greeting(nonce, 3, STRANGER),
    "bytes": lambda *_: b"\xff\xfe\x00 1 2\n",
    "long": lambda *_: b"1" * 300,
    "reflection": lambda task, nonce: f"1 mine {task.sign('welcome', nonce, 'mine')}\n".encode(),
}


@pytest.mark.parametrize("name", GREETINGS)
def test_barrier_greeting_of_stranger_is_refused(task: Task, name: str) -> None:
    """Greetings with the right token come from a wrong address or for an invalid rank."""
    task.start(0)
    with task.call(STRANGER) as stranger:
        nonce, address = line(stranger).split()
        assert address == STRANGER
        stranger.sendall(GREETINGS[name](task, nonce))
        assert line(stranger) == ""
    assert task.meet(1, 2) == [task.right] * 3


def test_barrier_greeting_without_token_from_other_address_is_refused(task: Task) -> None:
    task.token = ""
    task.start(0)
    with task.call(STRANGER) as stranger:
        nonce, _ = line(stranger).split()
        stranger.sendall(task.greeting(nonce, 1, STRANGER))
        assert line(stranger), "rank 0 has not asked DNS yet"
        assert line(stranger) == ""
    assert task.meet(1, 2) == [task.right] * 3


def test_barrier_replayed_greeting_is_refused(task: Task) -> None:
    """A signature is valid for a single connection."""
    task.start(0)
    source = task.address(1)
    with task.call(source) as first, task.call(source) as second:
        nonce, _ = line(second).split()
        assert line(first), "rank 0 closed the first connection"
        heard = task.greeting(nonce, 1, source)
        second.sendall(heard)
        assert line(second) == task.sign("welcome", nonce, "mine")
    with task.call(source) as replayed:
        line(replayed)
        replayed.sendall(heard)
        assert line(replayed) == ""
    assert task.meet(1, 2) == [task.right] * 3


def test_barrier_endless_line_uses_bounded_memory(task: Task) -> None:
    host = task.start(0)
    with task.call(STRANGER) as stranger, pytest.raises(OSError):
        for _ in range(1000):
            stranger.sendall(b"x" * 1_000_000)
    assert host.poll() is None
    assert task.meet(1, 2) == [task.right] * 3


@pytest.mark.parametrize("addresses", [1, 300])
def test_barrier_silent_strangers_cause_no_delay(task: Task, addresses: int) -> None:
    task.limit_greetings(100.0)
    task.start(0)
    task.call(STRANGER).close()
    silent = [
        task.call(f"127.9.{n % addresses // 250}.{n % addresses % 250 + 1}") for n in range(300)
    ]
    begun = time.monotonic()
    assert task.meet(1, 2) == [task.right] * 3
    assert time.monotonic() - begun < 90, "a greeting has 100 seconds here"
    for connection in silent:
        connection.close()


def test_barrier_silent_stranger_is_disconnected(task: Task) -> None:
    task.limit_greetings(0.5)
    task.start(0)
    begun = time.monotonic()
    with task.call(STRANGER) as stranger:
        assert line(stranger)
        assert line(stranger) == ""
    assert 0.3 < time.monotonic() - begun < 30
    assert task.meet(1, 2) == [task.right] * 3


def test_barrier_connected_rank_is_kept_and_lost_rank_is_replaced(task: Task) -> None:
    task.start(0)
    elsewhere = f"{NETWORK}.1.251"
    rivals = []
    for address in (task.address(1), elsewhere):
        connection = task.call(address)
        nonce, _ = line(connection).split()
        connection.sendall(task.greeting(nonce, 1, address))
        assert line(connection), "the token is right"
        rivals.append(connection)
    (refused,), _, _ = select.select(rivals, [], [], 60)
    assert line(refused) == "", "rank 1 is connected"
    (kept,) = (connection for connection in rivals if connection is not refused)
    kept.close()
    task.start(1, elsewhere)
    addresses = [task.address(0), elsewhere, task.address(2)]
    assert task.meet(2) == [addresses] * 3


Answer = Callable[[Task, str], bytes]
ZEROS = b"0" * 64
ANSWERS: dict[str, tuple[str, Answer]] = {
    "address behind NAT": ("6.6.6.6", lambda *_: b""),
    "signature": (
        "",
        lambda *_: ZEROS + b"\n" + ZEROS + b" addresses 6.6.6.6;$(id) 127.0.0.1 127.0.0.2\n",
    ),
    "missing": ("", lambda *_: b"missing no sign of rank 2\n\n"),
    "long": ("", lambda *_: b"x" * 1000),
    "bytes": ("", lambda *_: b"\xff\n"),
    "nothing": ("", lambda *_: b""),
    "signature after the welcome": (
        "",
        lambda task, nonce: (
            task.sign("welcome", "theirs", nonce).encode()
            + b"\n"
            + ZEROS
            + b" addresses 6.6.6.6 6.6.6.7 6.6.6.8\n"
        ),
    ),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_barrier_answer_of_false_rank_0_is_refused(task: Task, name: str) -> None:
    """A stranger that listens on the address of rank 0."""
    seen_from, answer = ANSWERS[name]
    with socket.create_server((task.address(0), PORT)) as false:
        task.start(1)
        connection, (address, _) = false.accept()
        with connection:
            connection.settimeout(60)
            connection.sendall(f"theirs {seen_from or address}\n".encode())
            if greeting := line(connection):
                rank, nonce, signature = greeting.split()
                assert signature == task.sign("join", "theirs", nonce, rank, task.address(1))
                assert TOKEN not in greeting
                connection.sendall(answer(task, nonce))
            assert bool(greeting) is not bool(seen_from), "behind NAT it does not greet"
    assert task.meet(0, 2) == [task.right] * 3


def test_barrier_token_of_other_task_is_refused(task: Task) -> None:
    task.start(0)
    task.token = "another task's"
    other = task.start(1)
    time.sleep(1)
    assert other.poll() is None
    other.kill()
    other.communicate()
    task.started.remove(other)
    task.token = TOKEN
    assert task.meet(1, 2) == [task.right] * 3


def test_barrier_port_in_use_is_waited_for(task: Task) -> None:
    """With hostNetwork, another task may start on the same cluster node."""
    with socket.create_server((task.address(0), PORT)):
        first = task.start(0)
        time.sleep(0.5)
        assert first.poll() is None
    assert task.meet(1, 2) == [task.right] * 3
