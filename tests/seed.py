"""The two tasks of the document that the project began with, as written there."""

TASK = """\
name: training-job
num_nodes: 2
resources:
  cpus: "4"
  memory: "8Gi"
  accelerators: "1"
  image_id: "python:3.11"
volumes:
  /data: data-vol
envs:
  EPOCHS: "100"
setup: |
  pip install torch numpy
run: |
  python train.py --data /data --epochs $EPOCHS
"""

MULTI_NODE = """\
name: distributed-training
num_nodes: 4
resources:
  cpus: "8"
  memory: "16Gi"
  accelerators: "2"
  image_id: "nvcr.io/nvidia/pytorch:23.10-py3"
envs:
  MASTER_ADDR: "master-service"
  MASTER_PORT: "29500"
setup: |
  pip install transformers datasets
run: |
  python -m torch.distributed.launch \\
    --nproc_per_node=2 \\
    --nnodes=$NUM_NODES \\
    --node_rank=$NODE_RANK \\
    --master_addr=$MASTER_ADDR \\
    --master_port=$MASTER_PORT \\
    train_distributed.py
"""
