#!/usr/bin/env python3
"""A `ray` for tests with flags of Ray; its cluster only counts its nodes."""

import argparse
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

HOME = Path.home()
IP = os.environ["POD_IP"]
PROCESSES = HOME / "processes"
SERVER = """
import socket, sys
server, count = socket.create_server((sys.argv[1], int(sys.argv[2]))), 1
while True:
    peer, _ = server.accept()
    with peer:
        count += peer.recv(9) == b"join"
        peer.sendall(str(count).encode())
"""


def ask(address: str, word: bytes) -> int:
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=60) as peer:
        peer.sendall(word)
        return int(peer.recv(9))


def start(*command: str) -> None:
    process = subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL)
    with PROCESSES.open("a") as file:
        file.write(f"{process.pid}\n")


def main() -> None:
    if sys.argv[1:] == ["--version"]:
        sys.stdout.write("ray, version 2.60.0\n")
        return

    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("command", choices=("start", "stop", "status", "health-check"))
    parser.add_argument("--address")
    for flag in ("--port", "--dashboard-port", "--dashboard-agent-listen-port", "--num-gpus"):
        parser.add_argument(flag, type=int)
    parser.add_argument("--dashboard-host")
    parser.add_argument("--node-ip-address")
    parser.add_argument("--head", action="store_true")
    parser.add_argument("--disable-usage-stats", action="store_true")
    flags = parser.parse_args()

    if flags.command == "start":
        if flags.head:
            start(sys.executable, "-c", SERVER, IP, str(flags.port))
        else:
            ask(flags.address, b"join")
        start(shutil.copy(shutil.which("sleep") or "", str(HOME / "raylet")), "1000")
    elif flags.command == "stop":
        for line in PROCESSES.read_text().splitlines():
            os.kill(int(line), signal.SIGKILL)
    elif flags.command == "status":
        count = ask(f"{IP}:{flags.address.rpartition(':')[2]}", b"status")
        nodes = "".join(f" 1 node_{node}\n" for node in range(count))
        sys.stdout.write(f"Node status\n-----\nActive:\n{nodes}Pending:\n (no pending nodes)\n")
    else:
        ask(flags.address, b"health")


main()
