"""The flags of a task, a row each: commands, Python API, and documentation are made from it."""

from enum import IntEnum
from typing import Annotated, Any, Literal, get_args

from msgspec import Struct
from msgspec.structs import replace


class Commands(IntEnum):
    """The commands that have a flag; each level includes those before it."""

    ANY = 1  # also `dev up`, whose pod is a single node that stays
    NEW_TASK = 2  # also `run`, which writes the task file
    TASK_FILE = 3  # those that read a task file


class Flag(Struct, frozen=True):
    """A flag of a task: an option of commands, and an argument of `Task.override`."""

    option: str
    help: str
    field: str = ""  # what it sets in the task file, if that is a field
    metavar: str | None = None
    commands: Commands = Commands.ANY
    alias: str | None = None
    argument: str = ""  # of Python, if its name there is another one
    is_map: bool = False  # takes names with values
    is_number: bool = False
    takes_none: bool = False  # `none` empties the field
    single: bool = False  # refuses two different values
    name: str = ""  # of its value in Overrides
    type: Any = None  # of that value

    @property
    def choices(self) -> tuple[str, ...]:
        """The values that it may have; empty if its type allows any."""
        return tuple(value for choice in get_args(self.type) for value in get_args(choice))


Text = str | None
Texts = tuple[str, ...]
Switch = bool | None


class Overrides(Struct, frozen=True):
    """The values of the flags, as --help lists them; None and empty values keep the file's."""

    task_id: Annotated[
        Text, Flag("--id", "Task id; a repeated submit changes nothing.", argument="id")
    ] = None
    name: Annotated[Text, Flag("--name", "Task name (default: that of the file).", "name")] = None
    workdir: Annotated[
        Text, Flag("--workdir", "Local folder to upload to every node.", "workdir", metavar="DIR")
    ] = None
    git_url: Annotated[
        Text,
        Flag("--git-url", "Git repository to clone as the workdir.", "workdir.url", metavar="URL"),
    ] = None
    git_ref: Annotated[
        Text,
        Flag(
            "--git-ref", "Branch, tag or commit of that repository.", "workdir.ref", metavar="REF"
        ),
    ] = None
    env: Annotated[
        Texts,
        Flag(
            "--env",
            "Environment variable; K alone takes yours.",
            "envs",
            metavar="K=V",
            is_map=True,
        ),
    ] = ()
    env_files: Annotated[
        Texts, Flag("--env-file", "File with one K=V per line.", "envs", metavar="FILE")
    ] = ()
    secret: Annotated[
        Texts,
        Flag(
            "--secret",
            "Secret from your variable K; ps shows K=V.",
            "secrets",
            metavar="K",
            is_map=True,
        ),
    ] = ()
    secret_files: Annotated[
        Texts,
        Flag("--secret-file", "File with one secret K=V per line.", "secrets", metavar="FILE"),
    ] = ()
    cpus: Annotated[
        Text, Flag("--cpus", "CPUs per node: 2, 4+, 500m.", "resources.cpus", takes_none=True)
    ] = None
    memory: Annotated[
        Text,
        Flag(
            "--memory", "Memory per node: 8 (GiB), 16+, 512Mi.", "resources.memory", takes_none=True
        ),
    ] = None
    gpus: Annotated[
        Text, Flag("--gpus", "GPUs per node: 1, H100:8.", "resources.accelerators", takes_none=True)
    ] = None
    image: Annotated[
        Text,
        Flag(
            "--image",
            "Container image.",
            "resources.image_id",
            metavar="IMAGE",
            alias="--image-id",
            takes_none=True,
        ),
    ] = None
    disk_size: Annotated[
        Text,
        Flag("--disk-size", "Disk per node.", "resources.disk_size", metavar="GB", is_number=True),
    ] = None
    use_spot: Annotated[
        Switch,
        Flag("--use-spot", "Run on spot nodes, or do not require them.", "resources.use_spot"),
    ] = None
    priority: Annotated[
        Text,
        Flag(
            "--priority",
            "Priority: -1000 to 1000, or a PriorityClass.",
            "resources.priority",
            metavar="N",
            is_number=True,
            takes_none=True,
        ),
    ] = None
    infra: Annotated[
        Text,
        Flag("--infra", "Context, as `infra` in files.", "resources.infra", metavar="k8s/CONTEXT"),
    ] = None
    exclude_nodes: Annotated[
        Texts,
        Flag(
            "--exclude-node",
            "Cluster node not to run on.",
            "config.kubectl_sky.exclude_nodes",
            metavar="NODE",
        ),
    ] = ()
    queue: Annotated[
        Text,
        Flag("--queue", "Queue of Kueue (LocalQueue) or Volcano.", "config.kubernetes.quota.queue"),
    ] = None
    ports: Annotated[
        Texts,
        Flag(
            "--ports",
            "Ports of rank 0 to publish by a Service: 8080, 8000-8010.",
            "resources.ports",
            metavar="PORT",
        ),
    ] = ()
    expose: Annotated[
        Text,
        Flag(
            "--expose",
            "Kind of that Service: clusterip, nodeport, loadbalancer, podip.",
            "config.kubectl_sky.expose",
            metavar="HOW",
        ),
    ] = None
    backend: Annotated[
        Text,
        Flag(
            "--backend",
            "Backend: jobs (default), indexed, jobset, mpijob, appwrapper, volcano, or auto.",
            "config.kubectl_sky.backend",
            single=True,
        ),
    ] = None
    bucket_mode: Annotated[
        Literal["mount", "sync", "copy"] | None,
        Flag(
            "--bucket-mode",
            "Mounted buckets: mount (default; sync without a CSI driver), sync or copy.",
        ),
    ] = None
    templates: Annotated[
        Text,
        Flag("--templates", "Folder with templates that replace the built-in ones.", metavar="DIR"),
    ] = None
    num_nodes: Annotated[
        Text,
        Flag(
            "--num-nodes",
            "Number of nodes.",
            "num_nodes",
            metavar="N",
            commands=Commands.NEW_TASK,
            is_number=True,
        ),
    ] = None
    max_duration: Annotated[
        Text,
        Flag(
            "--max-duration",
            "How long it may run: 90m, 10h, 2d.",
            "max_duration",
            metavar="TIME",
            commands=Commands.NEW_TASK,
        ),
    ] = None
    gang: Annotated[
        Text,
        Flag(
            "--gang",
            "Start all nodes together or none: auto (default), required, off.",
            "config.kubectl_sky.gang",
            metavar="WHEN",
            commands=Commands.NEW_TASK,
        ),
    ] = None
    hold: Annotated[
        Text,
        Flag(
            "--hold",
            "Hold failed containers for exec: 30m, 2h.",
            "config.kubectl_sky.hold_on_failure",
            metavar="TIME",
            commands=Commands.NEW_TASK,
        ),
    ] = None
    array: Annotated[
        Text,
        Flag(
            "--array",
            "One task per number: 0-99; %P: P at a time.",
            "config.kubectl_sky.array",
            metavar="N-M[%P]",
            commands=Commands.NEW_TASK,
        ),
    ] = None
    sweep: Annotated[
        Texts,
        Flag(
            "--sweep",
            "One task per value of a variable: LR=0.1,0.01, SEED=1..3.",
            "config.kubectl_sky.sweep",
            metavar="K=V,V",
            commands=Commands.NEW_TASK,
            is_map=True,
        ),
    ] = ()
    sweep_limit: Annotated[
        Text,
        Flag(
            "--sweep-limit",
            "How many tasks of a sweep run at a time (default: all).",
            "config.kubectl_sky.sweep_limit",
            metavar="N",
            commands=Commands.NEW_TASK,
            is_number=True,
        ),
    ] = None
    as_task: Annotated[
        bool,
        Flag(
            "--as-task",
            "Run a service or pool as one task, with one replica or worker.",
            commands=Commands.TASK_FILE,
        ),
    ] = False


def flags_of(overrides: type[Overrides]) -> tuple[Flag, ...]:
    """Return the rows of flags, with the names and types of their values."""
    return tuple(
        replace(flag, name=name, type=kind)
        for parent in reversed(overrides.__mro__)
        for name, row in vars(parent).get("__annotations__", {}).items()
        for kind, flag in [get_args(row)]
    )


FLAGS = flags_of(Overrides)
