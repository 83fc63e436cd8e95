"""Batch scripts of Slurm in pods: steps of srun, variables, arrays, exit codes."""

import re
from pathlib import Path

from tests.e2e.command import Command, Done, submitted
from tests.e2e.support import until_running
from tests.polling import eventually

HEAD = """#!/bin/bash
#SBATCH --nodes=2
#SBATCH --time=5
"""


def run(sky: Command, text: str, *words: str) -> Done:
    sky.write("job.sbatch", text)
    return sky("submit", "--cpus", "0.1", "job.sbatch", *words)


def lines_of(done: Done, rank: int = 0) -> list[str]:
    """Return what a node printed; the first line of stdout is the id."""
    prefix = f"node-{rank} | "
    return [
        line.removeprefix(prefix)
        for line in done.stdout.splitlines()[1:]
        if line.startswith(prefix) or " | " not in line
    ]


STEPS = r"""
#SBATCH --ntasks-per-node=2
export FROM_BATCH=yes
cat > task.sh << 'END'
echo $SLURM_PROCID.$SLURM_LOCALID.$SLURM_NODEID/$SLURM_NTASKS $FROM_BATCH $NODE_RANK "$1"
END
srun -l bash -c "$(cat task.sh)" bash "$1"
srun -n 2 --ntasks-per-node=1 echo "$2"
echo input | srun -n 1 cat
srun -n 1 bash << END
echo document
END
head -c 1000000 /dev/zero | srun -n 1 wc -c
srun -n 1 head -c 3000000 /dev/zero | wc -c
yes | srun -n 1 cat || echo too much
srun -n 2 -o out-%t.txt echo file
cat out-1.txt
"""
INPUT = (
    "input",
    "document",
    "1000000",
    "3000000",
    "srun: error: stdin has more than 1 MiB: let the command read a file",
    "too much",
)


def test_srun_starts_tasks_on_all_ranks_with_their_variables(sky: Command) -> None:
    done = run(sky, HEAD + STEPS.lstrip(), "a b", "--", "--lr=1")
    assert done.returncode == 0, done.stderr
    lines = lines_of(done)
    assert sorted(lines[:4]) == [f"{n}: {n}.{n % 2}.{n // 2}/4 yes {n // 2} a b" for n in range(4)]
    assert lines[4:] == ["--lr=1", "--lr=1", *INPUT, "file"]


BACKGROUND = r"""
nodes=( $(scontrol show hostnames "$SLURM_JOB_NODELIST") )
export FILE=/tmp/ready-$SLURM_JOB_ID
srun -N1 -n1 -w "${nodes[1]}" bash -c '
  until [ -e $FILE ]; do sleep 0.2; done
  echo server on $SLURM_NODEID $NODE_RANK' &
srun --overlap -N1 -n1 --nodelist="${nodes[1]}" bash -c 'touch $FILE; echo client on $NODE_RANK'
srun -N1 -n1 -w "${nodes[0]}" bash -c 'echo other on $NODE_RANK' &
wait
"""


def test_srun_in_the_background_runs_beside_others_on_the_named_node(sky: Command) -> None:
    done = run(sky, HEAD + BACKGROUND)
    assert done.returncode == 0, done.stderr
    assert sorted(lines_of(done)) == ["client on 1", "other on 0", "server on 0 1"]


LAUNCHER = r"""
nodes=( $(scontrol show hostnames "$SLURM_JOB_NODELIST") )
head_node=${nodes[0]}
head_node_ip=$(srun --nodes=1 --ntasks=1 -w "$head_node" hostname --ip-address)
echo "${#nodes[@]} nodes, id $SLURM_JOB_ID"
export RESOLVE='import socket, sys; socket.gethostbyname(sys.argv[1])'
srun bash -c 'python3 -c "$RESOLVE" "$1" && echo "rank $SLURM_NODEID to $0"' \
  "$head_node_ip" "$head_node"
"""


def test_launcher_finds_the_first_node_by_scontrol_and_srun(sky: Command) -> None:
    done = run(sky, HEAD + LAUNCHER)
    assert done.returncode == 0, done.stderr
    first, *ranks = lines_of(done)
    assert re.fullmatch("2 nodes, id [1-9][0-9]{7}", first)
    addresses = {line.split(" to ")[1] for line in ranks}
    assert len(ranks) == 2
    assert len(addresses) == 1
    assert re.fullmatch(r"[0-9.]+|[0-9a-f:]+", addresses.pop())


PLAIN = """
module load cuda
export MASTER_ADDR=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)
srun echo rank $SLURM_PROCID of $SLURM_NTASKS to $MASTER_ADDR
"""


def test_single_srun_runs_on_each_node_without_rank_0(sky: Command) -> None:
    done = run(sky, HEAD + PLAIN)
    assert done.returncode == 0, done.stderr
    lines = sorted(done.stdout.splitlines()[1:])
    name = f"node-0.job-{submitted(done)}"
    assert lines == [f"node-{rank} | rank {rank} of 2 to {name}" for rank in (0, 1)]


def test_exit_code_of_a_failed_step_is_that_of_the_task(sky: Command) -> None:
    done = run(sky, f"{HEAD}srun bash -c 'exit $((SLURM_PROCID * 7))' && echo no\n")
    assert done.returncode == 4
    assert "exit code 7" in done.stderr
    assert [line.split(": ", 1)[1] for line in lines_of(done)] == [
        f"error: node-1.job-{submitted(done)}: task 1: exit code 7"
    ]


def test_failed_task_ends_its_step_with_kill_on_bad_exit(sky: Command) -> None:
    body = "srun -K bash -c '[ $SLURM_PROCID = 0 ] && exit 3; exec sleep 300' || echo code $?\n"
    done = run(sky, HEAD + body)
    assert done.returncode == 0, done.stderr
    assert lines_of(done)[-1] == "code 143"


ARRAY = """#!/bin/bash
#SBATCH --array=1-5:2
echo $SLURM_ARRAY_TASK_ID of $SLURM_ARRAY_TASK_COUNT \\
  from $SLURM_ARRAY_TASK_MIN to $SLURM_ARRAY_TASK_MAX, $1
"""


def test_array_has_the_number_of_each_task(sky: Command) -> None:
    done = run(sky, ARRAY, "x")
    assert done.returncode == 0, done.stderr
    lines = sorted(line.split(" | ", 1)[-1] for line in done.stdout.splitlines()[1:])
    assert lines == [f"{number} of 3 from 1 to 5, x" for number in (1, 3, 5)]


def test_files_of_the_submit_folder_are_there(sky: Command, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import os; print('trains', os.environ['SLURM_JOB_NAME'])\n")
    script = "#!/bin/bash\n#SBATCH -J fit\ncd $SLURM_SUBMIT_DIR\nsrun python3 train.py\n"
    done = run(sky, script)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[1:] == ["trains fit"]


SIGNAL = """#!/bin/bash
#SBATCH --signal=B:USR1@20
trap 'echo saved; exit 5' USR1
echo started
sleep 300 &
wait
"""


def test_signal_comes_before_the_end(sky: Command) -> None:
    sky.write("job.sbatch", SIGNAL)
    process = sky.start("submit", "--cpus", "0.1", "job.sbatch", "--id", "signaled")
    eventually(lambda: "started" in sky("logs", "signaled").stdout)
    assert sky("stop", "signaled").returncode == 0
    stdout, _ = process.communicate(timeout=60)
    assert "saved" in stdout.splitlines()


STOPPED = """
srun bash -c '
  trap "echo stopped $SLURM_PROCID; exit 0" TERM
  echo started
  while :; do sleep 0.2; done'
"""


def test_stop_reaches_the_steps_of_all_ranks(sky: Command) -> None:
    sky.write("job.sbatch", HEAD + "export X=$(hostname)\n" + STOPPED.lstrip())
    process = sky.start("submit", "--cpus", "0.1", "job.sbatch", "--id", "stopping")
    until_running(sky, "stopping")
    eventually(lambda: sky("logs", "stopping").stdout.count("started") == 2)
    assert sky("stop", "stopping").returncode == 0
    stdout, _ = process.communicate(timeout=60)
    assert {f"stopped {rank}" for rank in (0, 1)} <= {
        line.split(" | ", 1)[-1] for line in stdout.splitlines()
    }
