"""Stands in for PyTorch: only `torch.distributed.launch`."""
