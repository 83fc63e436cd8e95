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
_CPUS = "the kubelet places the CPUs of a pod"
_GPUS = "pods get their GPUs from the device plugin"
_CLUSTER = "it is about Slurm's cluster"
_NOT_CARRIED_OUT = (
    Option("oversubscribe", "s", "none", "several tasks can share a cluster node"),
    Option("nodelist", "w", note="cluster nodes have other names", hint="use a label, or exclude"),
    Option("reservation", note=_CLUSTER, hint="use a queue"),
    Option("clusters", "M", note=_CLUSTER, hint="use --context"),
    Option("begin", "b", note="the task starts at once", hint="use a CronJob"),
    Option("deadline", note="the task has no deadline", hint="use max_duration"),
    Option("hold", "H", "none", "the task starts at once"),
    Option("nice", value="optional", note="tasks are not ordered by it", hint="use --priority"),
    Option("priority", note="tasks are not ordered by it", hint="use the flag --priority"),
    Option("quotatype", note=_CLUSTER, hint="use --use-spot, or a queue"),  # a common plugin's
    Option("network", note=_CLUSTER, hint="use network_tier: best"),
    Option("reboot", value="none", note=_CLUSTER),
    Option("no-kill", "k", "optional", "a task fails when it loses a node"),
    Option("switches", note="cluster nodes are not chosen by switches", hint="use topology"),
    Option("contiguous", value="none", note="cluster nodes have no order", hint="use topology"),
    Option("extra-node-info", "B", note=_CPUS),
    Option("core-spec", "S", note=_CPUS),
    Option("ntasks-per-gpu", note=_GPUS, hint="use --ntasks-per-node"),
    Option("licenses", "L", note=_CLUSTER),
    Option("nodefile", "F", note=_CLUSTER),
    Option("distribution", "m", note="tasks are numbered in blocks"),
    Option("container-mounts", note="the folders are of Slurm's cluster", hint="use volumes"),
    Option("container-name", note="the image is that of the pod"),
    Option("container-workdir", note="run starts in the workdir"),
    Option("container-env", note="variables of the task win"),
    Option("container-mount-home", value="none", note="home is that of the pod"),
    Option("no-container-mount-home", value="none"),
    Option("container-writable", value="none"),
    Option("container-remap-root", value="none", note="the user is that of the image"),
    Option("no-container-entrypoint", value="none"),
    Option("no-container-remap-root", value="none"),
    Option("x11", value="optional", note="pods have no display"),
    Option("test-only", value="none", note="use --dry-run=server"),
    Option("wrap", note="the file is the script"),
)
# Names of others that take a value, by why they are not carried out.
_OTHERS: Mapping[str, str] = {
    _CPUS: """
        ntasks-per-core ntasks-per-socket sockets-per-node cores-per-socket threads-per-core
        thread-spec hint cpu-bind cpu-freq mem-bind mincpus cores
        """,
    _GPUS: "gpus-per-socket gpu-bind gpu-freq gres-flags tres-per-task tres-bind",
    _CLUSTER: """
        wckey bb bbf cluster-constraint gpu_cmode gid uid profile acctg-freq power time-min
        """,
}
OPTIONS = (
    *_READ,
    *_WITHOUT_EFFECT,
    *_NOT_CARRIED_OUT,
    *(Option(name, note=note) for note, names in _OTHERS.items() for name in names.split()),
)
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
# Options that only srun has, or that take a value only there.
_ONLY_SRUN = (
    Option("jobid"),
    Option("job-id"),
    Option("cpu_bind"),
    Option("mem_bind"),
    Option("accel-bind"),
    Option("bcast"),
    Option("epilog"),
    Option("prolog"),
    Option("task-epilog"),
    Option("task-prolog"),
    Option("preserve-env", "E"),
    Option("relative", "r"),
    Option("threads", "T"),
    Option("wait", "W"),
    Option("exact", value="none"),
    Option("kill-on-bad-exit", "K", "optional"),
    Option("label", "l", "none"),
    Option("multi-prog", value="none"),
    Option("overlap", value="none"),
    Option("pty", value="none"),
    Option("quit-on-interrupt", value="none"),
    Option("unbuffered", "u", "none"),
)
SRUN_BY_NAME: Mapping[str, Option] = {option.name: option for option in (*OPTIONS, *_ONLY_SRUN)}
SRUN_BY_LETTER: Mapping[str, Option] = {
    option.short: option for option in SRUN_BY_NAME.values() if option.short
}
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
# Options of srun that matter where the command runs once on each node.
SRUN_OF_RANKS = frozenset({
    "bcast", "chdir", "dependency", "epilog", "error", "exclude", "input", "multi-prog", "nodelist",
    "output", "preserve-env", "prolog", "pty", "relative", "reservation", "task-epilog",
    "task-prolog", "threads"
})  # fmt: skip
