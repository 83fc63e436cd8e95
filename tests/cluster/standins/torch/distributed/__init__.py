"""Stands in for `torch.distributed`."""
