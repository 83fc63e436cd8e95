"""Write a falling loss for TensorBoard, and with WANDB_API_KEY to Weights & Biases too."""

import math
import os

from torch.utils.tensorboard import SummaryWriter

folder = f"/logs/{os.environ['SKYPILOT_TASK_ID']}"
if os.environ.get("WANDB_API_KEY"):
    import wandb

    wandb.init(project="kubectl-sky", name=os.environ["SKYPILOT_TASK_ID"], sync_tensorboard=True)
with SummaryWriter(folder) as writer:
    for step in range(100):
        writer.add_scalar("loss", math.exp(-step / 30), step)
print(f"wrote 100 steps to {folder}")
