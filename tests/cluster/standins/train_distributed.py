"""Stands in for a distributed training script: all processes meet at the master over TCP."""

import os
import socket
import sys
import time

rank = int(os.environ["RANK"])
world = int(os.environ["WORLD_SIZE"])
address = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
if rank == 0:
    server = socket.create_server(("", address[1]), backlog=world)
    guests = [server.accept()[0] for _ in range(world - 1)]
    ranks = {0, *(int(guest.recv(16)) for guest in guests)}
    for guest in guests:
        guest.sendall(str(len(ranks)).encode())
    seen = len(ranks)
else:
    deadline = time.monotonic() + 60
    while True:
        try:
            host = socket.create_connection(address, timeout=60)
            break
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)
    host.sendall(str(rank).encode())
    seen = int(host.recv(16))
sys.stdout.write(f"process {rank} of {world} met {seen}\n")  # one write, not torn by the others
