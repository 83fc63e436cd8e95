"""The GPUs of the cluster, of tasks, and their GPU-hours: `gpus`, `top`, `usage`."""
