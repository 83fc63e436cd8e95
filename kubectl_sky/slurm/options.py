"""The options of sbatch and srun: their names, which take a value, and what becomes of each."""

from collections.abc import Mapping

from msgspec import Struct


class Option(Struct, frozen=True):
    """An option of sbatch.

    `note` says why it is not carried out, and `hint` what to do instead. Without a note it is
    read, or has no meaning here.
    """

    name: str
    short: str = ""
    value: str = "required"  # or "optional" or "none"
    note: str = ""
    hint: str = ""


_CLUSTER = "it is about Slurm's cluster"
_CPUS = "the kubelet places the CPUs of a pod"
_GPUS = "pods get their GPUs from the device plugin"

_READ = (
    Option("nodes", "N"),
    Option("ntasks", "n"),
    Option("ntasks-per-node"),
    Option("cpus-per-task", "c"),
    Option("cpus-per-gpu"),
    Option("mem"),
    Option("mem-per-cpu"),
    Option("mem-per-gpu"),
    Option("gres"),
    Option("gpus", "G"),
    Option("gpus-per-node"),
    Option("gpus-per-task"),
    Option("ntasks-per-gpu"),
    Option("tmp"),
    Option("time", "t"),
    Option("job-name", "J"),
    Option("array", "a"),
    Option("output", "o"),
    Option("error", "e"),
    Option("partition", "p"),
    Option("account", "A"),
    Option("qos", "q"),
    Option("constraint", "C"),
    Option("exclude", "x"),
    Option("export"),
    Option("chdir", "D"),
    Option("requeue", value="none"),
    Option("dependency", "d"),
    Option("signal"),
    Option("mail-type"),
    Option("mail-user"),
    Option("container-image"),
    Option("exclusive", value="optional"),
)
# What is so anyway, or changes nothing that a task has.
_WITHOUT_EFFECT = (
    Option("no-requeue", value="none"),
    Option("open-mode"),
    Option("quiet", "Q", "none"),
    Option("verbose", "v", "none"),
    Option("parsable", value="none"),
    Option("wait", "W", "none"),
    Option("comment"),
    Option("ignore-pbs", value="none"),
    Option("kill-on-invalid-dep"),
    Option("get-user-env", value="optional"),
    Option("input", "i"),
    Option("mpi"),
    Option("overcommit", "O", "none"),
    Option("propagate", value="optional"),
    Option("spread-job", value="none"),
    Option("use-min-nodes", value="none"),
    Option("wait-all-nodes"),
)
_NOT_CARRIED_OUT = (
    Option("oversubscribe", "s", "none", "several tasks can share a cluster node"),
    Option("nodelist", "w", note="cluster nodes have other names", hint="use a label, or exclude"),
    Option("nodefile", "F", note="cluster nodes have other names"),
    Option("reservation", note=_CLUSTER, hint="use a queue"),
    Option("licenses", "L", note=_CLUSTER),
    Option("clusters", "M", note=_CLUSTER, hint="use --context"),
    Option("wckey", note=_CLUSTER),
    Option("bb", note=_CLUSTER, hint="use a volume"),
    Option("bbf", note=_CLUSTER, hint="use a volume"),
    Option("cluster-constraint", note=_CLUSTER),
    Option("begin", "b", note="the task starts at once", hint="use a CronJob"),
    Option("deadline", note="the task has no deadline", hint="use max_duration"),
    Option("time-min", note="only --time limits the task"),
    Option("hold", "H", "none", "the task starts at once"),
    Option("nice", value="optional", note="tasks are not ordered by it", hint="use --priority"),
    Option("priority", note="tasks are not ordered by it", hint="use the flag --priority"),
    Option("gid", note=_CLUSTER),
    Option("uid", note=_CLUSTER),
    Option("profile", note=_CLUSTER),
    Option("acctg-freq", note=_CLUSTER),
    Option("power", note=_CLUSTER),
    Option("network", note=_CLUSTER, hint="use network_tier: best"),
    Option("reboot", value="none", note=_CLUSTER),
    Option("no-kill", "k", "optional", "a task fails when it loses a node"),
    Option("switches", note="cluster nodes are not chosen by switches", hint="use topology"),
    Option("contiguous", value="none", note="cluster nodes have no order", hint="use topology"),
    Option("distribution", "m", note="use it with srun"),
    Option("ntasks-per-core", note=_CPUS),
    Option("ntasks-per-socket", note=_CPUS),
    Option("sockets-per-node", note=_CPUS),
    Option("cores-per-socket", note=_CPUS),
    Option("threads-per-core", note=_CPUS),
    Option("extra-node-info", "B", note=_CPUS),
    Option("core-spec", "S", note=_CPUS),
    Option("thread-spec", note=_CPUS),
    Option("hint", note=_CPUS),
    Option("cpu-bind", note=_CPUS),
    Option("cpu-freq", note=_CPUS),
    Option("mem-bind", note=_CPUS),
    Option("mincpus", note=_CPUS, hint="use --cpus-per-task"),
    Option("cores", note=_CPUS, hint="use --cpus-per-task"),
    Option("gpus-per-socket", note=_GPUS, hint="use --gpus-per-node"),
    Option("gpu-bind", note=_GPUS),
    Option("gpu-freq", note=_GPUS),
    Option("gres-flags", note=_GPUS),
    Option("tres-per-task", note=_GPUS, hint="use --gpus-per-task"),
    Option("tres-bind", note=_GPUS),
    Option("container-mounts", note="the folders are of Slurm's cluster", hint="use volumes"),
    Option("container-name", note="the image is that of the pod"),
    Option("container-workdir", note="run starts in the workdir"),
    Option("container-env", note="variables of the task win"),
    Option("container-mount-home", value="none", note="home is that of the pod"),
    Option("no-container-mount-home", value="none"),
    Option("container-writable", value="none"),
    Option("container-remap-root", value="none", note="the user is that of the image"),
    Option("no-container-entrypoint", value="none"),
    Option("x11", value="optional", note="pods have no display"),
    Option("test-only", value="none", note="use --dry-run=server"),
    Option("wrap", note="the file is the script"),
)
OPTIONS = (*_READ, *_WITHOUT_EFFECT, *_NOT_CARRIED_OUT)
BY_NAME: Mapping[str, Option] = {option.name: option for option in OPTIONS}
BY_LETTER: Mapping[str, Option] = {option.short: option for option in OPTIONS if option.short}
# Other spellings, some of older versions.
RENAMED = {
    "workdir": "chdir",
    "tasks-per-node": "ntasks-per-node",
    "share": "oversubscribe",
}
_ALIKE = "heterogeneous jobs: all nodes of a task are alike"
_PARTS = "submit a task for each part, or write a group of tasks"
_SHIFTER = "Shifter images"
_CONTAINER = "name a container image: --container-image=IMAGE"
# Words of #SBATCH lines that are refused: what they are, and what to do instead.
REFUSED: Mapping[str, tuple[str, str]] = {
    "hetjob": (_ALIKE, _PARTS),
    "packjob": (_ALIKE, _PARTS),
    "--image": (_SHIFTER, _CONTAINER),
    "--module": (_SHIFTER, _CONTAINER),
}
# Options of srun that take a value, by their short form, and others. Only runtime/srun.py's own
# short options are there, too.
SRUN_VALUED: Mapping[str, str] = {
    "A": "account", "C": "constraint", "D": "chdir", "E": "preserve-env", "G": "gpus",
    "J": "job-name", "L": "licenses", "N": "nodes", "S": "core-spec", "T": "threads", "W": "wait",
    "c": "cpus-per-task", "d": "dependency", "e": "error", "i": "input", "m": "distribution",
    "n": "ntasks", "o": "output", "p": "partition", "q": "qos", "r": "relative", "t": "time",
    "w": "nodelist", "x": "exclude",
    **dict.fromkeys((
        "accel-bind", "bcast", "comment", "container-env", "container-image", "container-mounts",
        "container-name", "container-workdir", "cpu-bind", "cpu_bind", "cpu-freq", "cpus-per-gpu",
        "epilog", "export", "gpu-bind", "gpu-freq", "gpus-per-node", "gpus-per-task", "gres",
        "gres-flags", "hint", "jobid", "job-id", "mail-type", "mail-user", "mem", "mem-bind",
        "mem_bind", "mem-per-cpu", "mem-per-gpu", "mpi", "network", "ntasks-per-core",
        "ntasks-per-gpu", "ntasks-per-node", "ntasks-per-socket", "open-mode", "prolog",
        "profile", "propagate", "reservation", "signal", "slurmd-debug", "switches",
        "task-epilog", "task-prolog", "threads-per-core", "tmp", "tres-per-task"
    ), ""),
}  # fmt: skip
SRUN_PLAIN: Mapping[str, str] = {
    "K": "kill-on-bad-exit", "O": "overcommit", "Q": "quiet", "k": "no-kill", "l": "label",
    "s": "oversubscribe", "u": "unbuffered", "v": "verbose",
    **dict.fromkeys((
        "container-mount-home", "container-remap-root", "container-writable", "exact",
        "exclusive", "no-container-entrypoint", "no-container-mount-home",
        "no-container-remap-root", "overlap", "pty"
    ), ""),
}  # fmt: skip
# Options of srun without an equal, and why. Those that choose ranks, GPUs, output and the like are
# carried out.
SRUN_NOTES: Mapping[str, str] = {
    "mpi": "srun starts no PMI: MPI programs find no other ranks; use the backend mpijob for them",
    "pty": "tasks have no terminal",
    "bcast": "the program is not copied to other nodes; use a volume or workdir",
    "time": "steps have no time limit",
    "mem": "steps share the memory of the pod",
    "mem-per-cpu": "steps share the memory of the pod",
    "container-mounts": "the folders are of Slurm's cluster; use volumes",
    "container-name": "the image is that of the pod",
    "container-workdir": "the command starts where the script is",
    "prolog": _CLUSTER,
    "epilog": _CLUSTER,
    "task-prolog": _CLUSTER,
    "task-epilog": _CLUSTER,
    "dependency": "the step starts at once",
    "reservation": _CLUSTER,
    "distribution": "tasks are numbered in blocks",
    "relative": "use --nodelist",
    "exclude": "use --nodelist",
    "input": "use < FILE",
    "gpus": "use --gres=gpu:N or --gpus-per-task",
    "gpus-per-node": "use --gres=gpu:N",
}
# Options of srun that do not matter where the command runs once on each node.
SRUN_PER_NODE = frozenset(
    {
        "kill-on-bad-exit", "unbuffered", "label", "cpu-bind", "wait", "quiet", "verbose", "mpi",
        "jobid", "job-name", "cpus-per-task", "gres", "gpus", "gpus-per-node", "gpus-per-task",
        "mem", "mem-per-cpu", "mem-per-gpu", "account", "partition", "time", "gpu-bind", "hint",
        "overlap", "exclusive", "exact", "qos", "accel-bind", "distribution", "container-image",
        "container-mounts", "container-name", "container-workdir", "container-env", "export",
        "container-mount-home", "no-container-mount-home", "container-remap-root", "mem-bind",
        "container-writable", "no-container-entrypoint", "overcommit", "threads-per-core",
    }
)  # fmt: skip
