"""Ports of this machine for a test."""

import random
import socket
from contextlib import suppress


def free_port(host: str = "127.0.0.1") -> int:
    """Return a port that is free, and that the kernel gives to no connection meanwhile.

    Raises OSError if the machine does not have the address.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    socket.create_server((host, 0), family=family).close()
    for port in random.SystemRandom().sample(range(10_000, 20_000), 1000):
        with suppress(OSError), socket.create_server((host, port), family=family):
            return port
    raise AssertionError("all ports are in use")
