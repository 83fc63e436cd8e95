"""Fit a line with DistributedDataParallel: each process has its own data, all share the model."""

import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

with_gpus = torch.cuda.is_available()
dist.init_process_group("nccl" if with_gpus else "gloo")  # rank and addresses are from torchrun
device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if with_gpus else torch.device("cpu")
model = DistributedDataParallel(torch.nn.Linear(1, 1).to(device))
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
torch.manual_seed(dist.get_rank())
for _ in range(500):
    x = torch.rand(64, 1, device=device)
    loss = ((model(x) - (2 * x + 1)) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()  # averages the gradients of all processes
    optimizer.step()
if dist.get_rank() == 0:
    slope, start = (parameter.item() for parameter in model.parameters())
    print(f"{dist.get_world_size()} processes: y = {slope:.1f} x + {start:.1f}", flush=True)
dist.destroy_process_group()
