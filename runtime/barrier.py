"""The start barrier of a task: all nodes meet at rank 0, which tells each of them all addresses.

Usage: barrier.py SERVICE; NODE_RANK, NUM_NODES, POD_IP are in the environment,
and KUBECTL_SKY_HOSTS where the host names do not begin with `node-`.
Then goes on with entry.sh, which finds the nodes' addresses in rank order in SKYPILOT_NODE_IPS.
Runs on whatever Python 3 the image has.
"""

import os
import signal
import socket
import sys
import time

PORT = 61137  # above the ephemeral ports, and closed again before the user's program starts
MISSING = "missing "  # what rank 0 tells the others when it gives up
HELLO = sys.argv[1]  # no other task has this name
RANK = int(os.environ["NODE_RANK"])
NODES = int(os.environ["NUM_NODES"])
ADDRESS = os.environ["POD_IP"]
PATIENCE = int(os.environ.get("KUBECTL_SKY_BARRIER_TIMEOUT", "1800"))
DEADLINE = time.monotonic() + PATIENCE


def give_up(reason):
    """Leave the reason where Kubernetes shows it, and end."""
    message = "gave up waiting for the other nodes after {} seconds: {}".format(PATIENCE, reason)
    try:
        with open("/dev/termination-log", "w") as log:
            log.write(message[:4000])  # Kubernetes keeps so much
    except OSError:
        pass
    sys.exit("kubectl-sky: " + message)


def ranges(ranks):
    """Write numbers in order as people do: 1, 3-5, 9."""
    found = []
    for rank in ranks:
        if found and found[-1][1] == rank - 1:
            found[-1][1] = rank
        else:
            found.append([rank, rank])
    return ", ".join(str(a) if a == b else "{}-{}".format(a, b) for a, b in found)


def greet(connection):
    """Return the rank and address that a node says it has, or None for a stranger."""
    connection.settimeout(5)
    try:
        words = connection.makefile().readline().split()
        hello, rank, address = words
        return (int(rank), address) if hello == HELLO and 0 < int(rank) < NODES else None
    except (OSError, ValueError):
        return None


def host():
    """Rank 0: collect every node, then tell all of them."""
    family = socket.AF_INET6 if ":" in ADDRESS else socket.AF_INET
    server = socket.socket(family, socket.SOCK_STREAM)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind((ADDRESS, PORT))
    server.listen(1024)
    met = {0: (ADDRESS, None)}
    while len(met) < NODES:
        server.settimeout(max(DEADLINE - time.monotonic(), 0.01))
        try:
            connection = server.accept()[0]
        except socket.timeout:
            missing = [rank for rank in range(NODES) if rank not in met]
            reason = "no sign of rank" + "s" * (len(missing) > 1) + " " + ranges(missing)
            tell(met, MISSING + reason)
            give_up(reason)
        guest = greet(connection)
        if guest:
            met[guest[0]] = (guest[1], connection)
        else:
            connection.close()
    addresses = "".join(met[rank][0] + "\n" for rank in range(NODES))
    tell(met, addresses)
    return addresses


def tell(met, text):
    """Send the same to all who wait for an answer; an empty line ends it."""
    for _, connection in met.values():
        if connection:
            try:
                connection.sendall(text.encode() + b"\n\n")
            except OSError:
                pass  # that node will say so itself
            connection.close()


def join(service):
    """Any other rank: keep calling rank 0 until it answers with all addresses."""
    name = os.environ.get("KUBECTL_SKY_HOSTS", "node-") + "0." + service
    while time.monotonic() < DEADLINE:
        try:
            with socket.create_connection((name, PORT), timeout=5) as connection:
                connection.sendall("{} {} {}\n".format(HELLO, RANK, ADDRESS).encode())
                connection.settimeout(None)  # rank 0 gives up by itself
                keep_alive(connection)
                answer = connection.makefile().read()
            if answer.startswith(MISSING):
                give_up(answer[len(MISSING) :].strip())
            if answer.endswith("\n\n"):
                return answer
        except OSError:
            pass  # not there yet: no address, no listener, or it went away
        time.sleep(0.2)
    give_up("no sign of rank 0 at " + name)


def keep_alive(connection):
    """Find out when the other machine is lost while nothing is said."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option in ("TCP_KEEPIDLE", "TCP_KEEPINTVL"):
        if hasattr(socket, option):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), 20)


def end(*_):
    """Asked to end while waiting: nothing has begun yet."""
    sys.exit(143)


signal.signal(signal.SIGTERM, end)
found = host() if RANK == 0 else join(sys.argv[1])
signal.signal(signal.SIGTERM, signal.SIG_DFL)
os.environ.update(SKYPILOT_NODE_IPS=found.strip(), KUBECTL_SKY_MET="1")
os.execv("/bin/sh", ["/bin/sh", os.path.join(os.path.dirname(__file__), "entry.sh")])
