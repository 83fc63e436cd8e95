"""Measure the bandwidth of all-reduce over the GPUs of all nodes; torchrun starts it on each."""

import os
import time

import torch
from torch import distributed

ROUNDS = 20

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
distributed.init_process_group("nccl")
ranks = distributed.get_world_size()
if ranks == 1:
    raise SystemExit("one GPU alone sends nothing: use several GPUs or nodes")
for size in (8, 32, 128, 512, 2048):
    data = torch.zeros(size * 2**20, dtype=torch.uint8, device="cuda")
    for _ in range(5):  # the first ones open connections
        distributed.all_reduce(data)
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(ROUNDS):
        distributed.all_reduce(data)
    torch.cuda.synchronize()
    rate = size * 2**20 * ROUNDS / (time.perf_counter() - start) / 1e9
    bus = rate * 2 * (ranks - 1) / ranks  # nccl-tests calls it busbw: it does not depend on ranks
    if distributed.get_rank() == 0:
        print(f"{size:5} MiB: {rate:6.1f} GB/s, on the bus {bus:6.1f} GB/s", flush=True)
distributed.destroy_process_group()
