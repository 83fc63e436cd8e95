"""Batch scripts of Slurm on three cluster nodes: those of tests/e2e, and steps on named nodes."""

from tests.e2e.command import Command, submitted
from tests.e2e.test_slurm import (  # noqa: F401 -- run here, too
    test_array_has_the_number_of_each_task,
    test_exit_code_of_a_failed_step_is_that_of_the_task,
    test_failed_task_ends_its_step_with_kill_on_bad_exit,
    test_files_of_the_submit_folder_are_there,
    test_launcher_finds_the_first_node_by_scontrol_and_srun,
    test_signal_comes_before_the_end,
    test_single_srun_runs_on_each_node_without_rank_0,
    test_srun_in_the_background_runs_beside_others_on_the_named_node,
    test_srun_starts_tasks_on_all_ranks_with_their_variables,
    test_stop_reaches_the_steps_of_all_ranks,
)
from tests.nodes.support import NODES, hosts
from tests.polling import eventually

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


def test_exclusive_script_keeps_other_tasks_away(sky: Command) -> None:
    sky.write("alone.sbatch", "#!/bin/bash\n#SBATCH --nodes=3 --exclusive\nsrun sleep 300\n")
    flags = (*FLAGS, "--detach", "--id")
    assert sky("submit", *flags, "alone001", "alone.sbatch").returncode == 0
    eventually(lambda: set(hosts(sky, "alone001")) == NODES)

    assert sky("submit", *flags, "other001", "-", stdin="run: 'true'\n").returncode == 0
    reason = "3/3 cluster nodes run pods that allow no others there"
    eventually(lambda: reason in sky("list").stdout)
    assert sky("stop", "alone001").returncode == 0
    assert sky("wait", "other001").returncode == 0
