"""What to type here for Slurm's commands and their options: data and a lookup."""

from collections.abc import Mapping

from kubectl_sky.slurm.options import BY_LETTER, BY_NAME, SRUN_BY_LETTER, SRUN_BY_NAME, Option
from kubectl_sky.words.skypilot_verbs import DELETES, Verb

_FINISHED = "`kubectl sky list` has finished tasks, `kubectl sky usage` GPU-hours"
NODES = "`kubectl get nodes` shows the cluster's nodes, `kubectl sky gpus` their GPUs"

VERBS: Mapping[str, Verb] = {
    "sbatch": Verb("submit"),
    "srun": Verb("run"),
    "salloc": Verb("dev"),
    "squeue": Verb("list"),
    "scancel": Verb("stop", DELETES),
    "sacct": Verb("list", _FINISHED),
    "sinfo": Verb("gpus", NODES),
    "scontrol": Verb("status"),
}

_OWN = "your own tasks are listed; `kubectl sky list --user NAME` lists those of another owner"
_ONE_TASK = "use `kubectl sky status TASK`"
_COLUMNS = "use -o custom-columns=…"
_WAITS = "leave it out: it waits, unless with --detach"

# As of SkyPilot: the answer `use --OPTION`, if nothing follows, is another name for the value.
OPTIONS: Mapping[str, Mapping[str, str]] = {
    "sbatch": {
        **dict.fromkeys(("-N", "--nodes"), "use --num-nodes"),
        **dict.fromkeys(("-J", "--job-name"), "use --name"),
        **dict.fromkeys(("-a", "--array"), "use --array"),
        **dict.fromkeys(("-D", "--chdir"), "use --workdir"),
        **dict.fromkeys(("-d", "--dependency"), "use --after TASK"),
        **dict.fromkeys(("-x", "--exclude"), "use --exclude-node NODE"),
        **dict.fromkeys(("-W", "--wait"), _WAITS),
        "--export": "use --env NAME=VALUE",
        "--parsable": "use -o name",
        "--test-only": "use --dry-run=server",
        "--wrap": "use `kubectl sky run 'CMD'`",
    },
    "srun": {
        **dict.fromkeys(("-N", "--nodes"), "use --num-nodes"),
        **dict.fromkeys(("-J", "--job-name"), "use --name"),
        **dict.fromkeys(("-n", "--ntasks"), "leave it out: CMD runs once on each node"),
        **dict.fromkeys(("-c", "--cpus-per-task"), "use --cpus"),
        **dict.fromkeys(("-G", "--gpus", "--gres"), "use --gpus N, of each node"),
        **dict.fromkeys(("-t", "--time"), "use --max-duration TIME"),
        **dict.fromkeys(("-D", "--chdir"), "use --workdir"),
        **dict.fromkeys(("-x", "--exclude"), "use --exclude-node NODE"),
        **dict.fromkeys(("-l", "--label"), "leave it out: lines begin with their node"),
        "--mem": "use --memory SIZE, of each node",
        "--export": "use --env NAME=VALUE",
        "--container-image": "use --image",
        "--jobid": "use `kubectl sky exec TASK -- CMD`",
        "--pty": "use `kubectl sky dev`",
    },
    "squeue": {
        **dict.fromkeys(("-u", "--user", "--me"), _OWN),
        **dict.fromkeys(("-j", "--jobs", "-n", "--name"), _ONE_TASK),
        **dict.fromkeys(("-t", "--states"), "use --status STATE"),
        **dict.fromkeys(("-o", "--format", "-O", "--Format"), _COLUMNS),
        **dict.fromkeys(("-l", "--long"), "use -o wide"),
        **dict.fromkeys(("-i", "--iterate"), "use --watch"),
        **dict.fromkeys(("-p", "--partition"), "use `kubectl sky queues`"),
        **dict.fromkeys(("-h", "--noheader"), "use --no-headers"),
        "--start": "use `kubectl sky doctor TASK`",
    },
    "scancel": {
        **dict.fromkeys(("-u", "--user", "--me"), "use --all"),
        **dict.fromkeys(("-n", "--name", "--jobname"), "name the task as an argument"),
        **dict.fromkeys(("-t", "--state"), "name the tasks as arguments"),
    },
    "sacct": {
        **dict.fromkeys(("-u", "--user"), _OWN),
        **dict.fromkeys(("-j", "--jobs", "--name"), _ONE_TASK),
        **dict.fromkeys(("-s", "--state"), "use --status STATE"),
        **dict.fromkeys(("-o", "--format"), _COLUMNS),
        **dict.fromkeys(("-S", "--starttime"), "use --since with a time from now, such as 12h"),
        **dict.fromkeys(("-X", "--allocations"), "leave it out: steps are not listed"),
    },
}
_BY_NAME = {"sbatch": BY_NAME, "srun": SRUN_BY_NAME}
_BY_LETTER = {"sbatch": BY_LETTER, "srun": SRUN_BY_LETTER}


def takes_no_value(verb: str, name: str) -> bool:
    """Report whether an option of sbatch or srun stands alone."""
    found = _find(verb, name)
    return bool(found and found.value != "required")


def option(verb: str, name: str) -> str:
    """Return what to type instead of an option of a command of Slurm, or ""."""
    if answer := OPTIONS.get(verb, {}).get(name):
        return answer
    if not _find(verb, name):
        return ""
    if verb == "sbatch":
        return f"write it in the script: #SBATCH {name}"
    return "leave it out, or write a batch script with it"


def _find(verb: str, name: str) -> Option | None:
    table = _BY_NAME if name.startswith("--") else _BY_LETTER
    return table.get(verb, {}).get(name.lstrip("-"))
