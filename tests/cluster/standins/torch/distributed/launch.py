"""Stands in for PyTorch's launcher: starts the processes of a node with the same variables."""

import argparse
import os
import subprocess
import sys

parser = argparse.ArgumentParser()
for name in ("nproc_per_node", "nnodes", "node_rank", "master_port"):
    parser.add_argument(f"--{name}", type=int, required=True)
parser.add_argument("--master_addr", required=True)
parser.add_argument("script")
given = parser.parse_args()
processes = [
    subprocess.Popen(
        [sys.executable, given.script],
        env=os.environ
        | {
            "RANK": str(given.node_rank * given.nproc_per_node + local),
            "LOCAL_RANK": str(local),
            "WORLD_SIZE": str(given.nnodes * given.nproc_per_node),
            "MASTER_ADDR": given.master_addr,
            "MASTER_PORT": str(given.master_port),
        },
    )
    for local in range(given.nproc_per_node)
]
sys.exit(max(process.wait() for process in processes))
