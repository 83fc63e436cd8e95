"""Train a small network on random data with Lightning, on all nodes and GPUs of the task."""

import os

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Model(lightning.LightningModule):
    """A classifier of two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 2))

    def training_step(self, batch: tuple[torch.Tensor, torch.Tensor], _: int) -> torch.Tensor:
        """Return the loss of a batch."""
        inputs, targets = batch
        loss = nn.functional.cross_entropy(self.layers(inputs), targets)
        self.log("loss", loss, prog_bar=True, sync_dist=True)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return the optimizer."""
        return torch.optim.Adam(self.parameters(), lr=1e-3)


data = TensorDataset(torch.randn(4096, 32), torch.randint(2, (4096,)))
trainer = lightning.Trainer(
    num_nodes=int(os.environ["SKYPILOT_NUM_NODES"]),
    devices=int(os.environ["SKYPILOT_NUM_GPUS_PER_NODE"]) or 1,
    max_epochs=3,
    default_root_dir=os.environ["OUTPUT"],
)
trainer.fit(Model(), DataLoader(data, batch_size=64))
