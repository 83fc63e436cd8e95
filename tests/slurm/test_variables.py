"""runtime/slurm.sh: the variables and programs of a script, in a shell of the test."""

import shutil
import subprocess
from pathlib import Path

import pytest

from kubectl_sky.slurm.body import CONTAINER_VALUES
from kubectl_sky.words import assets

PROGRAMS = ("cat", "chmod", "cksum", "ln", "mkdir", "rm", "tr", "python3", "env")
START = """
set -u
fail() { echo "$2"; exit "$1"; }
host_of() { echo "node-$1.train-x"; }
dir=$DIR; . "$dir/slurm.sh"
"""


def run(folder: Path, script: str, without: str = "", **variables: str) -> str:
    """Source slurm.sh as entry.sh does, then run a script; return what it prints."""
    programs = folder / "bin"
    programs.mkdir()
    for name in PROGRAMS:
        if name != without:
            (programs / name).symlink_to(str(shutil.which(name)))
    environment = {
        "DIR": str(assets.folder("runtime")),
        "PATH": str(programs),
        "KUBECTL_SKY_FILES": str(folder),
        "KUBECTL_SKY_SLURM": "batch",
        "SKYPILOT_TASK_ID": "train-abcd1234",
        "SKYPILOT_USER": "me",
        "SKYPILOT_NUM_GPUS_PER_NODE": "2",
        "SKYPILOT_JOB_RANK": "0",
        "SKYPILOT_NUM_JOBS": "3",
        "POD_IP": "10.0.0.2",
        "MASTER_ADDR": "10.0.0.1",
        "NODE_RANK": "1",
        "NUM_NODES": "3",
        **variables,
    }
    done = subprocess.run(
        ["/bin/sh", "-c", START + script],
        env=environment,
        capture_output=True,
        text=True,
        cwd=folder,
    )
    assert not done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SLURM_JOB_NAME", "train"),
        ("SLURM_NNODES", "3"),
        ("SLURM_NODEID", "1"),
        ("SLURM_NTASKS", "6"),
        ("SLURM_TASKS_PER_NODE", "2(x3)"),
        ("SLURM_JOB_CPUS_PER_NODE", "8(x3)"),
        ("SLURM_GPUS_ON_NODE", "2"),
        ("SLURM_JOB_NODELIST", "node-0.train-x,node-1.train-x,node-2.train-x"),
        ("SLURM_SUBMIT_HOST", "node-0.train-x"),
        ("SLURMD_NODENAME", "node-1.train-x"),
    ],
)
def test_variable_describes_the_job(tmp_path: Path, name: str, value: str) -> None:
    sizes = {"SLURM_NTASKS_PER_NODE": "2", "SLURM_CPUS_PER_TASK": "4"}
    assert run(tmp_path, f'echo "${name}"', **sizes) == f"{value}\n"


def test_job_id_is_a_number_of_eight_digits_that_follows_the_task(tmp_path: Path) -> None:
    ids: list[str] = []
    for task in ("a-abcd1234", "a-abcd1234", "a-abcd1235"):
        folder = tmp_path / str(len(ids))
        folder.mkdir()
        ids.append(run(folder, "echo $SLURM_JOB_ID", SKYPILOT_TASK_ID=task).strip())
    assert ids[0] == ids[1] != ids[2]
    assert all(number.isdigit() and len(number) == 8 for number in ids)


def test_array_has_its_number_and_limits(tmp_path: Path) -> None:
    array = {"KUBECTL_SKY_ARRAY": "2,5-7", "JOB_COMPLETION_INDEX": "1", "NUM_NODES": "1"}
    script = "echo $SLURM_ARRAY_TASK_ID $SLURM_ARRAY_TASK_MIN $SLURM_ARRAY_TASK_MAX"
    assert run(tmp_path, script, **array) == "5 2 7\n"


def test_task_of_an_array_has_a_job_id_of_its_own(tmp_path: Path) -> None:
    array = {"KUBECTL_SKY_ARRAY": "2,5-7", "JOB_COMPLETION_INDEX": "3", "NUM_NODES": "1"}
    script = "echo $((SLURM_JOB_ID - SLURM_ARRAY_JOB_ID)) $((SLURM_JOBID - SLURM_JOB_ID))"
    assert run(tmp_path, script, **array) == "3 0\n"


def test_module_does_nothing_and_hostnames_are_listed(tmp_path: Path) -> None:
    script = "module load x; ml y; scontrol show hostnames; scontrol show hostnames a,b"
    names = ["node-0.train-x", "node-1.train-x", "node-2.train-x", "a", "b"]
    assert run(tmp_path, script).split() == names


@pytest.mark.parametrize("options", ["--nv", "--nv -B /a:/b --pwd /", "--bind /a --env A=b"])
def test_singularity_runs_its_command_in_the_pod(tmp_path: Path, options: str) -> None:
    script = f"apptainer exec {options} docker://x echo done"
    assert run(tmp_path, script, PATH=f"{tmp_path / 'bin'}:/bin:/usr/bin") == "done\n"


def test_singularity_knows_the_options_that_take_a_value(tmp_path: Path) -> None:
    options = " ".join(f"{option} A=b" for option in sorted(CONTAINER_VALUES))
    script = f"singularity exec {options} docker://x echo done"
    assert run(tmp_path, script, PATH=f"{tmp_path / 'bin'}:/bin:/usr/bin") == "done\n"


@pytest.mark.parametrize("option", ["--env A=1,B=2", "--env=A=1,B=2"])
def test_singularity_sets_each_variable(tmp_path: Path, option: str) -> None:
    script = f"singularity exec {option} docker://x sh -c 'echo $A $B'"
    assert run(tmp_path, script, PATH=f"{tmp_path / 'bin'}:/bin:/usr/bin") == "1 2\n"


def test_image_without_python_is_refused_if_srun_needs_it(tmp_path: Path) -> None:
    assert run(tmp_path, "echo no", without="python3") == (
        "srun needs python3, and the image has none: set image_id\n"
    )
