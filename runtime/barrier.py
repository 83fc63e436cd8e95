"""The start barrier of a task: all nodes connect to rank 0, which sends them all addresses.

Usage: barrier.py SERVICE, with NODE_RANK, NUM_NODES, POD_IP, KUBECTL_SKY_HOSTS and the task's
secret, KUBECTL_SKY_TOKEN, in the environment. Then it runs entry.sh again, with all addresses in
rank order in SKYPILOT_NODE_IPS. Requires Python 3.6.

Every pod in the cluster can connect to rank 0. A node proves that it has the token without sending
it: both sides choose a nonce, and sign (HMAC-SHA256) their lines with both nonces and the name of
rank 0. A node's address is the source address of its connection, and the node signs it too. So a
client without the token can neither join, nor pose as rank 0, nor relay or replay a line, nor
change one. It holds one of 256 pending connections, at most one per address, for 5 seconds.

Without a token (`kubectl sky render` masks it), the node's name in the task's headless Service must
resolve to exactly its address. This excludes everyone except users who can create pods with the
task's labels, or change its Service, in its namespace.

Not protected: users who can read the task's Secret or create pods in its namespace, which can mount
the Secret; traffic between the user's own programs; a flood of packets.
"""

import errno
import ipaddress
import os
import signal
import socket
import sys
import threading
import time
from hashlib import sha256

PORT = 61137  # above the ephemeral ports; closed before the user's program starts
LINE = 256  # maximum bytes of a line, except of the last one
GREETING = 5.0  # seconds to join
PENDING = 256  # maximum connections that have not joined
TICK = 0.2  # seconds between attempts
SERVICE = sys.argv[1]
RANK, NODES = int(os.environ["NODE_RANK"]), int(os.environ["NUM_NODES"])
TIMEOUT = int(os.environ.get("KUBECTL_SKY_BARRIER_TIMEOUT") or "1800")
DEADLINE = time.monotonic() + TIMEOUT
TOKEN = os.environ.pop("KUBECTL_SKY_TOKEN", "").replace("REDACTED", "")  # public if masked


def canonical(address):
    """Return the standard form of an IP address. Raises ValueError."""
    return str(ipaddress.ip_address(address))


ADDRESS = canonical(os.environ["POD_IP"])


def host_name(rank):
    return "{}{}.{}".format(os.environ.get("KUBECTL_SKY_HOSTS", "node-"), rank, SERVICE)


def resolve(name):
    """Return all addresses of a name."""
    try:
        entries = socket.getaddrinfo(name, PORT, 0, socket.SOCK_STREAM)
        return {canonical(address[0]) for *_, address in entries}
    except (OSError, ValueError):
        return set()


def sign(*words):
    """Return the HMAC-SHA256 of words without spaces; the first is the purpose."""
    key = TOKEN.encode().ljust(64, b"\0")  # Debian's python3-minimal has no module hmac
    text = " ".join((host_name(0), *words)).encode()
    inner = sha256(bytes(byte ^ 0x36 for byte in key) + text).digest()
    return sha256(bytes(byte ^ 0x5C for byte in key) + inner).hexdigest()


def verify(signature, *words):
    """Raise ValueError for a wrong signature; nonces make each signature valid only once."""
    if signature != sign(*words):
        raise ValueError("wrong signature")


def send(connection, *words):
    connection.sendall((" ".join(words) + "\n").encode())


def receive(connection, deadline, limit=LINE):
    """Return the words of a line. Raises ValueError or OSError if it is too long or too late."""
    line = b""
    while not line.endswith(b"\n"):
        connection.settimeout(max(deadline - time.monotonic(), 0.001))
        data = connection.recv(1)
        line += data
        if not data or len(line) > limit:
            raise ValueError("closed, or too long")
    return line.decode("ascii").split()


def keep_alive(connection):
    """Detect the loss of the other cluster node within about a minute."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 20), ("TCP_KEEPINTVL", 20), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, option):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


def is_open(connection):
    """Return whether a connection on which no data is expected is still open."""
    try:
        connection.recv(1)
    except BlockingIOError:
        return True
    except OSError:
        pass
    return False


def give_up(problem):
    """Write the problem where Kubernetes shows it, and exit."""
    message = "gave up waiting for the other nodes after {} seconds: {}".format(TIMEOUT, problem)
    try:
        with open("/dev/termination-log", "w") as log:
            log.write(message[:4000])  # Kubernetes keeps 4096 bytes
    except OSError:
        pass
    sys.exit("kubectl-sky: " + message)


def describe(ranks):
    """Return text such as `ranks 1, 3-5 did not connect`."""
    spans = []
    for rank in ranks:
        if spans and spans[-1][1] == rank - 1:
            spans[-1][1] = rank
        else:
            spans.append([rank, rank])
    text = ", ".join(str(a) if a == b else "{}-{}".format(a, b) for a, b in spans)
    return "rank{} {} did not connect".format("s" * (len(ranks) > 1), text)


class Barrier:
    """The connections of rank 0. Each one has a thread until its node has joined."""

    def __init__(self):
        self.lock = threading.Lock()
        self.pending = {}  # connections by address, the oldest first
        self.joined = {}  # address, connection and nonces by rank

    def collect(self, server):
        """Let nodes join until all are connected; return the missing ranks."""
        server.settimeout(TICK)
        while time.monotonic() < DEADLINE:
            if len(self.joined) == NODES - 1 and not self.missing():
                break
            try:
                connection, peer = server.accept()
                self.start(connection, canonical(peer[0].partition("%")[0]))
            except (OSError, RuntimeError, MemoryError):  # timeout, or no descriptor or thread
                time.sleep(0.01)
        return self.missing()

    def missing(self):
        with self.lock:
            joined = {rank for rank, node in self.joined.items() if is_open(node[1])}
        return [rank for rank in range(1, NODES) if rank not in joined]

    def start(self, connection, address):
        """Start the thread of a connection, which replaces a pending one of its address."""
        if threading.active_count() > 2 * PENDING:  # replaced ones may still wait for DNS
            connection.close()
            return
        with self.lock:
            replaced = self.pending.pop(address, None)
            if len(self.pending) >= PENDING:
                replaced = self.pending.pop(next(iter(self.pending)))
            self.pending[address] = connection
        try:
            if replaced:
                replaced.shutdown(socket.SHUT_RDWR)  # its thread closes it
        except OSError:
            pass
        keep_alive(connection)
        nonce = os.urandom(16).hex()
        send(connection, nonce, address)
        threading.Thread(target=self.greet, args=(connection, address, nonce), daemon=True).start()

    def greet(self, connection, address, nonce):
        """Let a node join, or close its connection."""
        try:
            self.join(connection, address, nonce)
        except (OSError, ValueError):
            connection.close()
        with self.lock:
            if self.pending.get(address) is connection:
                del self.pending[address]

    def join(self, connection, address, nonce):
        """Add a node. Raises OSError or ValueError unless it proves its rank in time."""
        deadline = time.monotonic() + GREETING
        rank, peer_nonce, signature = receive(connection, deadline)
        verify(signature, "join", nonce, peer_nonce, rank, address)
        if not 0 < int(rank) < NODES:
            raise ValueError("invalid rank")
        send(connection, sign("welcome", nonce, peer_nonce))
        while not TOKEN and resolve(host_name(int(rank))) != {address}:
            if time.monotonic() >= deadline or self.pending.get(address) is not connection:
                raise ValueError("DNS has another address")
            time.sleep(TICK)
        connection.setblocking(False)
        with self.lock:
            former = self.joined.get(int(rank))
            if former and former[0] != address and is_open(former[1]):
                raise ValueError("the rank is connected from another address")
            self.joined[int(rank)] = (address, connection, nonce, peer_nonce)
        if former:
            former[1].close()


def listen():
    """Listen on the port; with hostNetwork, wait until the barrier of another task closes it."""
    server = socket.socket(socket.AF_INET6 if ":" in ADDRESS else socket.AF_INET)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    while True:
        try:
            server.bind((ADDRESS, PORT))
            server.listen(1024)
            return server
        except OSError as error:
            problem = "cannot listen on port {}: {}".format(PORT, error.strerror)
            if error.errno != errno.EADDRINUSE:
                sys.exit("kubectl-sky: " + problem)
            if time.monotonic() >= DEADLINE:
                give_up(problem)
            time.sleep(TICK)


def host():
    """Rank 0: wait for all nodes, then send all addresses, or the missing ranks, to each."""
    barrier = Barrier()
    with listen() as server:
        missing = barrier.collect(server)
        words = ["missing", *describe(missing).split()]
        if not missing:
            words = ["addresses", ADDRESS, *(barrier.joined[rank][0] for rank in range(1, NODES))]
        for _, connection, *nonces in barrier.joined.values():
            try:
                connection.settimeout(GREETING)
                send(connection, sign("answer", *nonces, *words), *words)
            except OSError:
                pass  # that node reports it
            connection.close()
    if missing:
        give_up(describe(missing))
    return words[1:]


class Translated(ValueError):
    """The network translates the address of this node."""


def ask(address):
    """Join the task of rank 0 at an address; return its answer. Raises ValueError or OSError."""
    with socket.create_connection((address, PORT), GREETING, (ADDRESS, 0)) as connection:
        keep_alive(connection)
        deadline, nonce = time.monotonic() + GREETING, os.urandom(16).hex()
        peer_nonce, visible = receive(connection, deadline)
        if canonical(visible) != ADDRESS:
            raise Translated(visible)
        send(connection, str(RANK), nonce, sign("join", peer_nonce, nonce, str(RANK), ADDRESS))
        verify(" ".join(receive(connection, deadline)), "welcome", peer_nonce, nonce)
        deadline = time.monotonic() + TIMEOUT + 60  # rank 0 has started before and times out first
        signature, *words = receive(connection, deadline, LINE + 64 * NODES)
        verify(signature, "answer", peer_nonce, nonce, *words)
        return words


def join():
    """All other ranks: connect to rank 0 until it answers with all addresses."""
    problem = "rank 0 is not reachable at " + host_name(0)
    while time.monotonic() < DEADLINE:
        addresses = resolve(host_name(0))
        for address in addresses if TOKEN or len(addresses) == 1 else ():
            try:
                kind, *words = ask(address)
            except Translated as error:
                problem = "the network translates {} to {}".format(ADDRESS, error)
                continue
            except (OSError, ValueError):
                continue  # not started yet, restarted, or not rank 0
            if kind == "missing":
                give_up(" ".join(words))
            words = [canonical(word) for word in words]
            if len(words) == NODES and words[RANK] == ADDRESS:
                return words
        time.sleep(TICK)
    give_up(problem)


threading.stack_size(256 << 10)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # setup and run have not begun
node_ips = host() if RANK == 0 else join()
signal.signal(signal.SIGTERM, signal.SIG_DFL)
os.environ.update(SKYPILOT_NODE_IPS="\n".join(node_ips), KUBECTL_SKY_MET="1")
os.execv("/bin/sh", ["/bin/sh", os.path.join(os.path.dirname(__file__), "entry.sh")])
