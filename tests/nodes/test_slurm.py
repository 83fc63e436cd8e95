"""A batch script of Slurm on three cluster nodes: steps on all of them, and on a named one."""

from tests.e2e.command import Command, submitted
from tests.nodes.support import NODES, hosts

SCRIPT = """#!/bin/bash
#SBATCH --nodes=3
#SBATCH --time=5
nodes=( $(scontrol show hostnames "$SLURM_JOB_NODELIST") )
srun -l bash -c 'echo "$SLURM_PROCID of $SLURM_NTASKS on node $NODE_RANK"'
srun -N1 -n1 -w "${nodes[2]}" bash -c 'sleep 1; echo "background on node $NODE_RANK"' &
echo "named $(srun -N1 -n1 -w "${nodes[1]}" bash -c 'echo "node $NODE_RANK"')"
wait
srun bash -c 'exit $((SLURM_PROCID * 3))'
"""
FLAGS = ("--image-id", "python:3.13-slim", "--cpus", "0.05", "--memory", "64Mi")


def test_batch_script_runs_its_steps_on_three_cluster_nodes(sky: Command) -> None:
    sky.write("steps.sbatch", SCRIPT)
    done = sky("submit", *FLAGS, "steps.sbatch")
    assert done.returncode == 4
    assert "exit code 6" in done.stderr

    task_id = submitted(done)
    prefix = "node-0 | "
    output = [line for line in done.stdout.splitlines() if line.startswith(prefix)]
    lines = [line.removeprefix(prefix) for line in output]
    assert sorted(lines[:3]) == [f"{rank}: {rank} of 3 on node {rank}" for rank in range(3)]
    assert lines[3:5] == ["named node 1", "background on node 2"]
    assert sorted(lines[5:]) == [
        f"srun: error: node-{rank}.steps-{task_id}: task {rank}: exit code {3 * rank}"
        for rank in (1, 2)
    ]
    assert set(hosts(sky, task_id)) == NODES
