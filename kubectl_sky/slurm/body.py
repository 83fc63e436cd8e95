"""Read the commands of a batch script: its sruns, modules, containers, and what has no equal."""

import re
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from kubectl_sky.errors import did_you_mean
from kubectl_sky.slurm import shell
from kubectl_sky.slurm.options import SRUN_BY_LETTER, SRUN_BY_NAME, SRUN_NOTES, SRUN_OF_RANKS
from kubectl_sky.slurm.shell import Command, Word
from kubectl_sky.spec.document import printable

Finding = tuple[int, str, str, str]  # offset, what it is about, message, hint

_REFUSED: Mapping[str, tuple[str, str]] = {
    "shifter": ("Shifter images", "name a container image: #SBATCH --container-image=IMAGE"),
    "enroot": ("enroot", "name a container image: #SBATCH --container-image=IMAGE"),
    "pdsh": ("pdsh: the nodes have no ssh", "use srun"),
}
_NOT_CARRIED_OUT: Mapping[str, tuple[str, str]] = {
    "sbatch": ("tasks are submitted from your machine", "use kubectl sky submit"),
    "squeue": ("pods have no access to the queue", "use kubectl sky list"),
    "sacct": ("pods have no access to the accounting", "use kubectl sky list"),
    "sstat": ("pods have no access to the accounting", "use kubectl sky top"),
    "sinfo": ("pods have no access to the cluster", "use kubectl sky gpus"),
    "scancel": ("pods cannot stop tasks", "use kubectl sky stop, or kill in the script"),
    "salloc": ("the task has its nodes already", "use srun alone"),
    "sbcast": ("files are not copied to other nodes", "use a volume, or workdir"),
    "seff": ("pods have no access to the accounting", "use kubectl sky top"),
}
# Commands that may stand beside the only srun of a script, and run on every node then.
_PRELUDE = frozenset({
    "", ".", "[", ":", "cd", "conda", "date", "declare", "echo", "env", "export", "hostname",
    "id", "lscpu", "mamba", "micromamba", "mkdir", "ml", "module", "nvcc", "nvidia-smi",
    "printenv", "printf", "pwd", "set", "sleep", "source", "true", "ulimit", "umask", "unset",
    "which", "whoami"
})  # fmt: skip
# Programs whose output is the same on every node.
_EQUAL_EVERYWHERE = frozenset({
    "awk", "basename", "cut", "dirname", "echo", "expr", "grep", "head", "pwd", "readlink",
    "realpath", "scontrol", "sed", "seq", "sort", "tail", "tr", "uniq", "wc"
})  # fmt: skip
_OF_RANK_0 = re.compile(
    r"\$\{?(?:RANDOM|HOSTNAME|SLURMD_NODENAME|SLURM_PROCID|SLURM_NODEID)\b|\$\$"
)
_CONTAINERS = ("singularity", "apptainer")
# Their options that take a value; runtime/slurm.sh has the same.
CONTAINER_VALUES = frozenset({
    "-B", "-H", "-S", "-W", "-o", "--add-caps", "--app", "--apply-cgroups", "--authfile", "--bind",
    "--blkio-weight", "--blkio-weight-device", "--config", "--cpu-shares", "--cpus",
    "--cpuset-cpus", "--cpuset-mems", "--cwd", "--dns", "--drop-caps", "--env", "--env-file",
    "--fusemount", "--home", "--hostname", "--memory", "--memory-reservation", "--memory-swap",
    "--mount", "--network", "--network-args", "--no-mount", "--overlay", "--pem-path",
    "--pids-limit", "--pwd", "--scratch", "--security", "--workdir"
})  # fmt: skip
_EQUAL_COUNTS = ("$SLURM_NNODES", "$SLURM_JOB_NUM_NODES", "$SLURM_NTASKS", "$SLURM_NPROCS")
_EXPORTS = ("export", "declare", "readonly")
_MAX_IMAGE = 1000  # characters of a name
_MAX_PARTS = 20  # variables in it
_IMAGE_FILES = (".sif", ".simg", ".img", ".sqsh")
_MPI = ("mpirun", "mpiexec", "mpiexec.hydra", "orterun")
_SLURM_WORD = re.compile(
    r"SLURM|\bsrun\b|\bscontrol\b|\bmodule\b|\bsingularity\b|\bapptainer\b|\bml\b"
)
_COMMENT = re.compile(r"^[ \t]*#.*$", re.MULTILINE)
_CONTAINER_IMAGE = re.compile(r"""--container-image[= ]\s*["']?([^\s"')]+)""")
_STEPS = re.compile(
    r"\bsrun\b|\b(?:bash|sh|source)\s+\S{1,200}\.(?:sh|bash|slurm|sbatch)\b|\./\S{1,200}\.sh\b"
)
_SPREADS = re.compile(r"\b(?:srun|mpirun|mpiexec|ssh|orterun|ray)\b")


class Srun(Struct, frozen=True):
    """A call of srun: its options, and its words after them."""

    command: Command
    options: Mapping[str, tuple[str, int]]  # the value, and the offset of the option
    program: tuple[Word, ...]
    unknown: tuple[Word, ...] = ()


class Body(Struct, frozen=True):
    """The part of a script after its directives."""

    text: str
    code: str  # the text with blanks in place of lines that are comments
    commands: tuple[Command, ...]
    sruns: tuple[Srun, ...]
    variables: Mapping[str, str]

    @property
    def uses_slurm(self) -> bool:
        """Whether it has variables or programs of Slurm."""
        return bool(_SLURM_WORD.search(self.code))

    @property
    def starts_steps(self) -> bool:
        """Whether it has an srun, or a script that may have one."""
        return bool(_STEPS.search(self.code))

    @property
    def reaches_nodes(self) -> bool:
        """Whether something in it starts programs on other nodes."""
        return bool(_SPREADS.search(self.code))


def read(text: str) -> Body:
    code = _COMMENT.sub(lambda found: " " * len(found[0]), text)
    commands = tuple(shell.commands(text))
    sruns = tuple(_srun(command) for command in commands if command.name == "srun")
    return Body(text, code, commands, sruns, _find_variables(text, commands))


def _srun(command: Command) -> Srun:
    """Read the options of srun, as runtime/srun.py does."""
    words = list(shell.without_redirections(command.words[1:]))
    options: dict[str, tuple[str, int]] = {}
    unknown = []
    while words and words[0].plain.startswith("-") and words[0].plain != "-":
        word = words.pop(0)
        if word.plain == "--":
            break
        if word.plain.startswith("--"):
            name, equals, value = word.plain[2:].partition("=")
            option = SRUN_BY_NAME.get(name)
        else:
            option = SRUN_BY_LETTER.get(word.plain[1])
            value = word.plain[2:]
            equals = value
        if option is None:
            unknown.append(word)
            continue
        if not equals and option.value == "required" and words:
            value = words.pop(0).plain
        options[option.name] = (value, word.start)
    return Srun(command, options, tuple(words), tuple(unknown))


def refusals(body: Body) -> Iterator[Finding]:
    """Yield what makes the script one that cannot run."""
    for command in body.commands:
        if command.name in _REFUSED:
            what, hint = _REFUSED[command.name]
            yield command.start, command.name, f"not supported: {what}", hint
    for srun in body.sruns:
        if "multi-prog" in srun.options:
            offset = srun.options["multi-prog"][1]
            hint = "start each program with an srun, in the background"
            yield offset, "--multi-prog", "not supported: one command for all tasks", hint
        for word in srun.unknown:
            name = word.plain.lstrip("-").partition("=")[0]
            hint = did_you_mean(name, SRUN_BY_NAME).strip()
            yield word.start, f"srun {printable(word.plain)}", "unknown option", hint


def _container_image(command: Command) -> Word | None:
    """Return the image of `singularity exec IMAGE`, also after srun; None if there is none."""
    plain = [word.plain for word in command.words]
    start = next((index for index, name in enumerate(plain) if name in _CONTAINERS), None)
    if start is None or not {"exec", "run"} & set(plain[start + 1 : start + 4]):
        return None
    words = list(command.words[start + 1 :])
    candidates = list[Word]()
    while words and len(candidates) < 3:  # a variable may have options in place of the image
        word = words.pop(0)
        if word.plain in CONTAINER_VALUES and words:
            words.pop(0)
        elif not word.plain.startswith("-") and word.plain not in ("exec", "run"):
            if "://" in word.plain or word.plain.endswith(_IMAGE_FILES):
                return word
            candidates.append(word)
    return candidates[0] if candidates else None


def known_image(image: str, body: Body, images: Mapping[str, str]) -> str:
    """Return the container image that a name means, or ""."""
    image = expand(image, body)
    for name, mapped in images.items():
        if name in (image, image.rpartition("/")[2]):
            return mapped
    if image.startswith("docker://"):
        return image.removeprefix("docker://").replace("#", "/", 1)
    is_path = image.startswith(("/", ".", "~", "$")) or image.endswith(_IMAGE_FILES)
    return "" if is_path or "$" in image else image.replace("#", "/", 1)


_VARIABLE = re.compile(r"\$\{?(\w+)(?::?-([^}]*))?\}?")
_DEFAULT = re.compile(r"\$\{(\w+):?=([^}]{0,1000})\}")


def expand(text: str, body: Body) -> str:
    """Return a text with the variables that the script sets once to a fixed text."""
    for _ in range(4):
        text = _VARIABLE.sub(
            lambda found: body.variables.get(found[1], "")[:_MAX_IMAGE] or found[2] or found[0],
            text[:_MAX_IMAGE],
            count=_MAX_PARTS,
        )
    return text[:_MAX_IMAGE]


def _find_variables(text: str, commands: Sequence[Command]) -> dict[str, str]:
    """Return the variables that have one value in a script, also by `: "${NAME:=value}"`."""
    given: dict[str, set[str]] = {}
    for command in commands:
        exports = command.words[1:] if command.name in _EXPORTS else ()
        for assignment in (*command.assignments, *exports):
            name, _, value = assignment.plain.partition("=")
            given.setdefault(name, set()).add(value)
    defaults: dict[str, str] = dict(_DEFAULT.findall(text))
    return defaults | {name: min(values) for name, values in given.items() if len(values) == 1}


def notes(body: Body, nodes: int, tasks: int) -> Iterator[Finding]:
    """Yield what is not carried out as Slurm would."""
    yield from _module_notes(body)
    for command in body.commands:
        yield from _command_notes(command, nodes)
    for srun in body.sruns:
        for name, (value, offset) in srun.options.items():
            is_needless = name == "mpi" and (value == "none" or tasks == 1)
            if name in SRUN_NOTES and not is_needless:
                yield offset, f"srun --{name}", f"not carried out: {SRUN_NOTES[name]}", ""
    if nodes > 1 and not body.reaches_nodes:
        message = "the script starts nothing on the other nodes, which wait for it to end"
        yield 0, "run", message, "start programs with srun, or use --nodes=1"


def _module_notes(body: Body) -> Iterator[Finding]:
    """Yield one note on all modules, at the first of them."""
    loads = []
    for command in body.commands:
        words = [word.plain for word in shell.without_redirections(command.words)]
        if words[:1] == ["module"] and words[1:2] in (["load"], ["add"]):
            loads.append((command.start, words[2:]))
        elif words[:1] == ["ml"] and words[1:]:
            loads.append((command.start, words[1:]))
    if loads:
        loaded = ", ".join(dict.fromkeys(name for _, names in loads for name in names))
        loaded = printable(loaded, 200)
        message = f"does nothing: programs come from the image, also {loaded}"
        yield loads[0][0], "module load", message, "choose the image with --image-id"


def _command_notes(command: Command, nodes: int) -> Iterator[Finding]:
    if command.name in _NOT_CARRIED_OUT:
        reason, hint = _NOT_CARRIED_OUT[command.name]
        yield command.start, command.name, f"not carried out: {reason}", hint
    subcommand = " ".join(word.plain for word in command.words[1:3])
    if command.name == "scontrol" and not subcommand.startswith(("show hostname", "show job")):
        message = "not carried out: only show hostnames and show job work in a task"
        yield command.start, "scontrol", message, ""
    if command.name in _MPI and nodes > 1:
        message = "not carried out on other nodes: they have no ssh"
        yield command.start, command.name, message, "use srun, or the backend mpijob"


def images(body: Body, settings: Mapping[str, str]) -> Iterator[tuple[int, str, str]]:
    """Yield the images that commands name: offset, the image as written, and what it means."""
    for command in body.commands:
        if image := _container_image(command):
            yield image.start, image.plain, known_image(image.plain, body, settings)
    for found in _CONTAINER_IMAGE.finditer(body.code):  # also in a variable with options of srun
        yield found.start(), found[1], known_image(found[1], body, settings)


def per_node(body: Body, nodes: int, tasks: int) -> str | None:
    """Return the script of every node, if it is one srun that runs once on each; else None."""
    sruns = body.sruns
    if len(sruns) != 1 or tasks != nodes or not _is_simple(sruns[0], nodes):
        return None
    command = sruns[0].command
    start = command.words[0].start
    if nodes > 1 and _OF_RANK_0.search(body.code[:start]):
        return None

    others = [item for item in body.commands if item is not command]
    if not all(_may_run_everywhere(item, nodes) for item in others):
        return None
    return body.text[:start] + body.text[sruns[0].program[0].start :]


def _may_run_everywhere(command: Command, nodes: int) -> bool:
    """Report whether a command beside the srun has the same effect on every node."""
    if nodes > 1 and command.redirects_output:
        return False
    if any("srun" in word.text for word in (*command.words, *command.assignments)):
        return False
    if command.depth:
        return nodes == 1 or command.name in _EQUAL_EVERYWHERE
    return command.name in _PRELUDE and command.operator in ("\n", ";", "&&", "||")


def _is_simple(srun: Srun, nodes: int) -> bool:
    """Report whether an srun is a line of its own whose options fit one task on each node."""
    command = srun.command
    if command.depth or command.piped or command.operator not in ("\n", ";"):
        return False
    if nodes > 1 and command.redirects_output:  # each node would write the file
        return False
    if not srun.program or srun.program[0].plain.startswith("$"):  # it may be options of srun
        return False
    return all(_fits_node(name, value, nodes) for name, (value, _) in srun.options.items())


def _fits_node(name: str, value: str, nodes: int) -> bool:
    if name in ("nodes", "ntasks"):
        return value == str(nodes) or re.sub("[{}]", "", value) in _EQUAL_COUNTS
    if name == "ntasks-per-node":
        return value in ("1", "$SLURM_NTASKS_PER_NODE")
    if name == "export":
        return value == "ALL"
    return name not in SRUN_OF_RANKS
