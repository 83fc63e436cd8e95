"""The start barrier of a task: all nodes connect to rank 0, which sends them all addresses.

Usage: barrier.py SERVICE, with NODE_RANK, NUM_NODES, POD_IP, KUBECTL_SKY_HOSTS and the task's
secret, KUBECTL_SKY_TOKEN, in the environment. Then it runs entry.sh again, with all addresses in
rank order in SKYPILOT_NODE_IPS. Requires Python 3.6 with the modules of Debian's python3-minimal.

Pods of other namespaces can connect to rank 0, too. So a node sends its rank and the token first,
in one line, and rank 0 takes the source address of its connection. If the token is masked (by
`kubectl sky render`), that must be an address of the rank's name in the task's headless Service.
"""

import os
import selectors
import signal
import socket
import sys
import time

PORT = 61137  # above the ephemeral ports; closed before the user's program starts
LINE = 256  # maximum bytes of a node's line
GREETING = 5.0  # maximum seconds until it has come
TICK = 0.2  # seconds between attempts
LOOK = 5.0  # seconds between looks at what is missing
QUIET = 30.0  # seconds between lines in the log
LISTED = 4  # missing ranks that are named
SERVICE = sys.argv[1]
ADDRESS = os.environ["POD_IP"]
RANK = int(os.environ["NODE_RANK"])
NODES = int(os.environ["NUM_NODES"])
TIMEOUT = int(os.environ.get("KUBECTL_SKY_BARRIER_TIMEOUT") or "1800")
DEADLINE = time.monotonic() + TIMEOUT
MASKED = "REDACTED"
MISSING = "no connection from rank "
AWAITED = os.path.join(os.environ.get("KUBECTL_SKY_FILES", "/kubectl-sky"), "awaited")
TOKEN = os.environ.pop("KUBECTL_SKY_TOKEN", "") or MASKED
KEEPS = os.environ.get("KUBECTL_SKY_SLURM") == "batch"  # srun.py uses the connections
kept = []  # connections: on rank 0 to each other rank, and there to rank 0


def host_name(rank):
    return "{}{}.{}".format(os.environ.get("KUBECTL_SKY_HOSTS", "node-"), rank, SERVICE)


def resolve(name):
    """Return all addresses of a name."""
    try:
        return {entry[4][0] for entry in socket.getaddrinfo(name, PORT, 0, socket.SOCK_STREAM)}
    except OSError:
        return set()


def keep_alive(connection):
    """Detect the loss of the other cluster node within about a minute."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 20), ("TCP_KEEPINTVL", 20), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, option):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


def give_up(problem):
    """Write the problem where Kubernetes shows it, and exit."""
    message = "gave up waiting for the other nodes after {} seconds: {}".format(TIMEOUT, problem)
    try:
        with open("/dev/termination-log", "w") as log:
            log.write(message[:4000])  # Kubernetes keeps 4096 bytes
    except OSError:
        pass
    sys.exit("kubectl-sky: " + message)


class Reporter:
    """Tells what this node waits for: the startup probe at once, the log after a while."""

    def __init__(self):
        self.told = ""
        self.logged = ""
        self.next_line = time.monotonic() + QUIET

    def tell(self, text):
        if text != self.told:
            self.told = text
            self.write(text)
        if text != self.logged and time.monotonic() >= self.next_line:
            self.say("waiting for " + text)
            self.logged = text
            self.next_line = time.monotonic() + QUIET

    def end(self):
        if self.logged:
            self.say("all nodes have met")

    def write(self, text):
        try:
            with open(AWAITED, "w") as file:
                file.write(text + "\n")
        except OSError:
            pass

    def say(self, text):
        print("kubectl-sky: " + text, flush=True)


class Host:
    """Rank 0: the connections that have sent nothing yet, and those of ranks."""

    def __init__(self, server, reporter):
        self.server = server
        self.reporter = reporter
        self.next_look = 0.0
        self.pending = {}
        self.joined = {}
        self.selector = selectors.DefaultSelector()
        self.selector.register(server, selectors.EVENT_READ)

    def collect(self):
        """Wait for all nodes; return their connections and addresses by rank."""
        while len(self.joined) < NODES - 1 and time.monotonic() < DEADLINE:
            for key, _ in self.selector.select(TICK):
                if key.fileobj is self.server:
                    self.accept()
                elif key.fileobj.fileno() >= 0:  # not closed by an earlier event
                    self.read(key.fileobj)
            now = time.monotonic()
            for connection in [late for late, (_, end) in self.pending.items() if now >= end]:
                self.close(connection)
            if now >= self.next_look:
                self.reporter.tell(self.describe_missing())
                self.next_look = time.monotonic() + LOOK
        return self.joined

    def describe_missing(self):
        """Return the ranks that have not connected, and whether they have an address."""
        missing = [rank for rank in range(1, NODES) if rank not in self.joined]
        parts = []
        for rank in missing[:LISTED]:
            problem = "no connection" if resolve(host_name(rank)) else "no address"
            parts.append("node-{} ({})".format(rank, problem))
        more = " and {} more".format(len(missing) - LISTED) if missing[LISTED:] else ""
        return ", ".join(parts) + more

    def accept(self):
        try:
            connection, peer = self.server.accept()
            connection.setblocking(False)
            keep_alive(connection)
        except OSError:  # it was closed meanwhile, or there is no descriptor
            return
        self.pending[connection] = (peer[0], time.monotonic() + GREETING)
        self.selector.register(connection, selectors.EVENT_READ)

    def read(self, connection):
        """Read a node's line, which comes at once; close a connection with any other data."""
        address, _ = self.pending.get(connection, ("", 0))
        try:
            rank = proven_rank(connection.recv(LINE), address) if address else 0
        except (OSError, ValueError):
            rank = 0
        if not rank:
            self.close(connection)
            return
        if rank in self.joined:  # it was restarted
            self.close(self.joined[rank][0])
        del self.pending[connection]
        self.joined[rank] = (connection, address)

    def close(self, connection):
        self.pending.pop(connection, None)
        self.joined = {rank: it for rank, it in self.joined.items() if it[0] is not connection}
        self.selector.unregister(connection)
        connection.close()


def proven_rank(line, address):
    """Return the rank of a node; 0 for a wrong token or address. Raises ValueError."""
    rank, token = line.decode("ascii").split()
    if token != TOKEN or not 0 < int(rank) < NODES:
        return 0
    return int(rank) if TOKEN != MASKED or address in resolve(host_name(rank)) else 0


def listen():
    """Listen on the port; with hostNetwork, wait until the barrier of another task closes it."""
    server = socket.socket(socket.AF_INET6 if ":" in ADDRESS else socket.AF_INET)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.setblocking(False)
    while True:
        try:
            server.bind((ADDRESS, PORT))
            server.listen(1024)
            return server
        except OSError as error:
            if time.monotonic() >= DEADLINE:
                give_up("cannot listen on port {}: {}".format(PORT, error.strerror))
            time.sleep(TICK)


def host(reporter):
    """Rank 0: wait for all nodes, then send all addresses, or the missing ranks, to each."""
    with listen() as server:
        joined = Host(server, reporter).collect()
    missing = [str(rank) for rank in range(1, NODES) if rank not in joined]
    addresses = [ADDRESS, *(joined[rank][1] for rank in sorted(joined))]
    answer = " ".join(["missing", *missing] if missing else ["addresses", *addresses])
    for _, (connection, _) in sorted(joined.items()):
        try:
            connection.settimeout(GREETING)
            connection.sendall(answer.encode() + b"\n")
        except OSError:
            pass  # that node reports it
        if KEEPS:
            kept.append(connection.dup())
        connection.close()
    if missing:
        give_up(MISSING + ", ".join(missing))
    return addresses


def ask(address, reporter):
    """Return the words of rank 0 at an address. Raises OSError or ValueError."""
    with socket.create_connection((address, PORT), GREETING, (ADDRESS, 0)) as connection:
        keep_alive(connection)
        connection.sendall("{} {}\n".format(RANK, TOKEN).encode())
        reporter.tell("node-0, which waits for other nodes")
        connection.settimeout(TIMEOUT + 60)  # rank 0 has started before and times out first
        with connection.makefile("rb") as file:
            line = file.readline(LINE + 64 * NODES).decode("ascii")
        if KEEPS:
            kept[:] = [connection.dup()]
        return line.split() if line.endswith("\n") else [""]


def join(reporter):
    """All other ranks: connect to rank 0 until it answers with all addresses."""
    while time.monotonic() < DEADLINE:
        problem = "no address"
        for address in resolve(host_name(0)):
            try:
                kind, *words = ask(address, reporter)
            except ConnectionRefusedError:
                problem = "connection refused"
                continue  # not started yet, or its program runs
            except (OSError, ValueError):
                problem = "no connection"
                continue  # restarted, or the network does not let it through
            if kind == "missing":
                give_up(MISSING + ", ".join(words))
            if kind == "addresses" and len(words) == NODES:
                if words[RANK] != ADDRESS:
                    give_up("the network translates {} to {}".format(ADDRESS, words[RANK]))
                return words
        reporter.tell("node-0 ({})".format(problem))
        time.sleep(TICK)
    give_up("rank 0 is not reachable at " + host_name(0))


signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # setup and run have not begun
told = Reporter()
node_ips = host(told) if RANK == 0 else join(told)
told.end()
for number in signal.SIGTERM, signal.SIGPIPE, signal.SIGXFSZ:  # Python ignores the last two
    signal.signal(number, signal.SIG_DFL)
if kept:
    for connection in kept:
        connection.setblocking(True)
        connection.set_inheritable(True)
    os.environ["KUBECTL_SKY_CHANNEL"] = " ".join(str(connection.detach()) for connection in kept)
os.environ.update(SKYPILOT_NODE_IPS="\n".join(node_ips), KUBECTL_SKY_MET="1")
os.execv("/bin/sh", ["/bin/sh", os.path.join(os.path.dirname(__file__), "entry.sh")])
