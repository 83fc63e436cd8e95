"""Ports of this machine for a test."""

import random
import socket
from contextlib import suppress


def free_port() -> int:
    """Return a port that is free, and that the kernel gives to no connection meanwhile."""
    for port in random.SystemRandom().sample(range(10_000, 20_000), 1000):
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise AssertionError("all ports are in use")
