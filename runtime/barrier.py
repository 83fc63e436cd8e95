"""The start barrier of a task: all nodes connect to rank 0, which sends them all addresses.

Usage: barrier.py SERVICE; NODE_RANK, NUM_NODES, POD_IP are in the environment,
KUBECTL_SKY_HOSTS where the host names do not begin with `node-`, and KUBECTL_SKY_TOKEN, the
task's secret. Then runs entry.sh again, with all addresses in rank order in SKYPILOT_NODE_IPS.
Runs on Python 3.6 and later.

Anyone in the cluster may connect to rank 0. A node proves that it has the token, without sending
it: both sides choose a nonce, and sign (HMAC-SHA256) what they say with both nonces and the name of
rank 0. An address is never taken from a message: a node's address is where its connection comes
from, and the node signs that too. So a stranger can neither join, nor pose as rank 0, nor relay or
replay a greeting, nor change the answer. A stranger who sends nothing or too much holds one of 256
places for 5 seconds, at most one place per address, and delays nobody.

Without a token (the Secret is absent, or `kubectl sky render` masked it) DNS decides: a node's name
in the task's headless Service must resolve to exactly its address. This keeps out everyone except
those who may create pods with the task's labels, or change its Service, in its namespace.

Not protected: whoever may read the task's Secret or create pods in its namespace, as such a pod can
mount the Secret; what the user's own programs send to each other later; a flood of packets.
"""

import errno
import hashlib
import ipaddress
import os
import selectors
import signal
import socket
import sys
import threading
import time

PORT = 61137  # above the ephemeral ports, and closed again before the user's program starts
LINE = 256  # bytes of one line of a greeting
GREETING = 5.0  # seconds for a greeting
PENDING = 256  # connections whose greeting is not complete
TICK = 0.2  # seconds between attempts
SERVICE = sys.argv[1]
RANK = int(os.environ["NODE_RANK"])
NODES = int(os.environ["NUM_NODES"])
PATIENCE = int(os.environ.get("KUBECTL_SKY_BARRIER_TIMEOUT") or "1800")
DEADLINE = time.monotonic() + PATIENCE
TOKEN = os.environ.pop("KUBECTL_SKY_TOKEN", "").replace("REDACTED", "")  # public once masked


def canonical(address):
    """Return an IP address as everybody writes it. Raises ValueError."""
    return str(ipaddress.ip_address(address))


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
    """Return the HMAC-SHA256 of words without spaces; the first says what they are for."""
    # Debian's python3-minimal has no module hmac
    key = TOKEN.encode().ljust(64, b"\0")
    text = " ".join((host_name(0), *words)).encode()
    inner = hashlib.sha256(bytes(byte ^ 0x36 for byte in key) + text).digest()
    return hashlib.sha256(bytes(byte ^ 0x5C for byte in key) + inner).hexdigest()


def verify(signature, *words):
    """Raise ValueError unless the signature is that of the words, which are signed once only."""
    if signature != sign(*words):
        raise ValueError("wrong signature")


def give_up(reason):
    """Leave the reason where Kubernetes shows it, and exit."""
    message = "gave up waiting for the other nodes after {} seconds: {}".format(PATIENCE, reason)
    try:
        with open("/dev/termination-log", "w") as log:
            log.write(message[:4000])  # Kubernetes keeps so much
    except OSError:
        pass
    sys.exit("kubectl-sky: " + message)


def ranges(ranks):
    """Write numbers in order as people do: 1, 3-5, 9."""
    spans = []
    for rank in ranks:
        if spans and spans[-1][1] == rank - 1:
            spans[-1][1] = rank
        else:
            spans.append([rank, rank])
    return ", ".join(str(a) if a == b else "{}-{}".format(a, b) for a, b in spans)


def keep_alive(connection):
    """Notice within about a minute when the other cluster node is lost."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 20), ("TCP_KEEPINTVL", 20), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, option):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


class Guest:
    """A connection to rank 0; `rank` is set once its greeting is complete and signed."""

    def __init__(self, connection, address):
        self.connection, self.address = connection, address
        self.deadline = time.monotonic() + GREETING
        self.nonce, self.their_nonce = os.urandom(16).hex(), ""
        self.received = b""
        self.rank = None
        connection.setblocking(False)
        keep_alive(connection)
        connection.sendall("{} {}\n".format(self.nonce, address).encode())

    def read(self):
        """Read what has arrived. Raises ValueError or OSError for strangers and after a close."""
        data = self.connection.recv(LINE)
        self.received += data
        if not data or self.rank is not None or len(self.received) > LINE:
            raise ValueError("closed, or too much")
        if not self.received.endswith(b"\n"):
            return
        rank, nonce, signature = self.received.decode("ascii").split()
        verify(signature, "join", self.nonce, nonce, rank, self.address)
        if not 0 < int(rank) < NODES:
            raise ValueError("no such rank")
        self.connection.sendall((sign("welcome", self.nonce, nonce) + "\n").encode())
        self.rank, self.their_nonce = int(rank), nonce

    def answer(self, text):
        """Send the last line."""
        signature = sign("answer", self.nonce, self.their_nonce, *text.split())
        try:
            self.connection.settimeout(GREETING)
            self.connection.sendall("{} {}\n".format(signature, text).encode())
        except OSError:
            pass  # that node will say so itself
        self.connection.close()


class Host:
    """Rank 0: collects all nodes."""

    def __init__(self):
        family = socket.AF_INET6 if ":" in ADDRESS else socket.AF_INET
        self.server = socket.socket(family, socket.SOCK_STREAM)
        self.server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.listen()
        self.server.setblocking(False)
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.server, selectors.EVENT_READ)
        self.pending = {}  # by address, the oldest first
        self.met = {}  # by rank
        self.names = {}  # addresses by rank, as DNS has them
        if not TOKEN:
            threading.Thread(target=self.look_up, daemon=True).start()

    def listen(self):
        """Listen, with hostNetwork as soon as the barrier of another task does no longer."""
        while True:
            try:
                self.server.bind((ADDRESS, PORT))
                self.server.listen(1024)
                return
            except OSError as error:
                problem = "cannot listen on port {}: {}".format(PORT, error.strerror)
                if error.errno != errno.EADDRINUSE:
                    sys.exit("kubectl-sky: " + problem)
                if time.monotonic() >= DEADLINE:
                    give_up(problem)
                time.sleep(TICK)

    def collect(self):
        """Wait for all nodes; return whether they came."""
        while len(self.met) < NODES - 1:
            if time.monotonic() >= DEADLINE:
                return False
            for key, _ in self.selector.select(TICK):
                if key.data is None:
                    self.accept()
                else:
                    self.read(key.data)
            for guest in list(self.pending.values()):
                if guest.rank is not None and self.known(guest):
                    self.admit(guest)
                elif time.monotonic() >= guest.deadline:
                    self.drop(guest)
        return True

    def accept(self):
        try:
            connection, peer = self.server.accept()
        except OSError:  # it has gone, or no file descriptor is left
            time.sleep(0.01)
            return
        try:
            guest = Guest(connection, canonical(peer[0].partition("%")[0]))
        except (OSError, ValueError):
            connection.close()
            return
        if guest.address in self.pending:
            self.drop(self.pending[guest.address])
        if len(self.pending) >= PENDING:
            self.drop(next(iter(self.pending.values())))
        self.pending[guest.address] = guest
        self.selector.register(connection, selectors.EVENT_READ, guest)

    def read(self, guest):
        if guest.connection.fileno() < 0:
            return  # dropped since
        try:
            guest.read()
        except BlockingIOError:
            pass
        except (OSError, ValueError):
            self.drop(guest)

    def known(self, guest):
        """Say whether a guest with the right signature is the node that it says it is."""
        return bool(TOKEN) or self.names.get(guest.rank) == {guest.address}

    def admit(self, guest):
        """Take a node in; a rank that is connected from elsewhere stays."""
        former = self.met.get(guest.rank)
        if former and former.address != guest.address:
            self.drop(guest)
            return
        if former:
            self.drop(former)
        del self.pending[guest.address]
        self.met[guest.rank] = guest

    def drop(self, guest):
        self.selector.unregister(guest.connection)
        guest.connection.close()
        for guests, key in ((self.pending, guest.address), (self.met, guest.rank)):
            if guests.get(key) is guest:
                del guests[key]

    def look_up(self):
        """Keep asking DNS for the nodes that wait."""
        while True:
            for guest in list(self.pending.values()):
                if guest.rank is not None:
                    self.names[guest.rank] = resolve(host_name(guest.rank))
            time.sleep(TICK)


def host():
    """Rank 0: wait for every node, then send all addresses to each of them."""
    barrier = Host()
    complete = barrier.collect()
    if complete:
        text = " ".join([ADDRESS] + [barrier.met[rank].address for rank in range(1, NODES)])
    else:
        missing = [rank for rank in range(1, NODES) if rank not in barrier.met]
        text = "no sign of rank{} {}".format("s" * (len(missing) > 1), ranges(missing))
    for guest in barrier.met.values():
        guest.answer(("addresses " if complete else "missing ") + text)
    barrier.server.close()
    if not complete:
        give_up(text)
    return text.split()


def read_line(connection, limit, seconds):
    """Read one line of at most so many bytes. Raises ValueError or OSError."""
    line, deadline = bytearray(), time.monotonic() + seconds
    while not line.endswith(b"\n"):
        connection.settimeout(max(deadline - time.monotonic(), 0.001))
        data = connection.recv(1)
        line += data
        if not data or len(line) > limit:
            raise ValueError("closed, or too much")
    return line.decode("ascii")


def ask(address):
    """Greet what listens at an address; return its answer. Raises ValueError or OSError."""
    with socket.create_connection((address, PORT), GREETING, (ADDRESS, 0)) as connection:
        keep_alive(connection)
        nonce, visible = read_line(connection, LINE, GREETING).split()
        if canonical(visible) != ADDRESS:
            raise Translated(canonical(visible))
        mine = os.urandom(16).hex()
        signature = sign("join", nonce, mine, str(RANK), ADDRESS)
        connection.sendall("{} {} {}\n".format(RANK, mine, signature).encode())
        verify(read_line(connection, LINE, GREETING).strip(), "welcome", nonce, mine)
        # rank 0 started before, and gives up by itself
        signature, *words = read_line(connection, LINE + 64 * NODES, PATIENCE + 60).split()
        verify(signature, "answer", nonce, mine, *words)
        return words


class Translated(ValueError):
    """The network changes the address of this node."""


def join():
    """Any other rank: keep calling rank 0 until it answers with all addresses."""
    name = host_name(0)
    problem = "no sign of rank 0 at " + name
    while time.monotonic() < DEADLINE:
        addresses = resolve(name)
        for address in addresses if TOKEN or len(addresses) == 1 else ():
            try:
                kind, *words = ask(address)
            except Translated as error:
                problem = "rank 0 gets connections of {} from {}".format(ADDRESS, error)
                continue
            except (OSError, ValueError):
                continue  # not there yet, restarted, or a stranger
            if kind == "missing":
                give_up(" ".join(words))
            words = [canonical(word) for word in words]
            if len(words) == NODES and words[RANK] == ADDRESS:
                return words
        time.sleep(TICK)
    give_up(problem)


def end(*_):
    """Asked to end while waiting: nothing has begun yet."""
    sys.exit(143)


ADDRESS = canonical(os.environ["POD_IP"])
signal.signal(signal.SIGTERM, end)
node_ips = host() if RANK == 0 else join()
signal.signal(signal.SIGTERM, signal.SIG_DFL)
os.environ.update(SKYPILOT_NODE_IPS="\n".join(node_ips), KUBECTL_SKY_MET="1")
os.execv("/bin/sh", ["/bin/sh", os.path.join(os.path.dirname(__file__), "entry.sh")])
