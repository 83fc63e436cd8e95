"""Convert a batch script to the document of a task, whose values know their lines in the script."""

import re
import shlex
from collections.abc import Sequence
from pathlib import PurePath, PurePosixPath

from msgspec import Struct

from kubectl_sky.errors import InvalidFiles, Problem
from kubectl_sky.slurm import body as script
from kubectl_sky.slurm import lifecycle, resources, values
from kubectl_sky.slurm.draft import Draft, Table
from kubectl_sky.slurm.options import BY_NAME
from kubectl_sky.slurm.resources import Shape
from kubectl_sky.spec.document import Document, Path, printable
from kubectl_sky.spec.load import PartlyRead
from kubectl_sky.spec.scripts import MAX_SCRIPT

_INTERPRETER = re.compile(
    r"#!\s*(?:/usr/bin/env\s+(?:-S\s+)?)?(?:\S*[^\w\s])?(?P<name>\w+)(?P<flags>(?:\s+-\S+)*)\s*"
)
_MAX_INTERPRETER = 200  # characters of the first line
_SHELLS = ("bash", "sh", "dash", "ksh")
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")
# Blanks at the end of a line, for which YAML would quote the script; not after a backslash.
_TRAILING = re.compile(r"(?<![\\ \t])[ \t]+$", re.MULTILINE)
_OWN: Path = ("config", "kubectl_sky")
_QUEUE: Path = ("config", "kubernetes", "kueue", "local_queue_name")
# The options that the settings explain, and the field that does so.
_TABLES = {
    "partition": "partitions",
    "account": "accounts",
    "qos": "qos",
    "constraint": "constraints",
}
_PER_TASK = ("cpus-per-task", "gpus-per-task")
_LABELS = ("partition", "account", "qos")


class Call(Struct, frozen=True):
    """The words and flags of the command that reads a script."""

    arguments: Sequence[str] = ()  # of the script
    sets_image: bool = False  # so that those in the script do not matter


def convert(text: str, file: str, call: Call, table: Table) -> Document:
    """Return the task of a batch script; its warnings name what is not carried out.

    Raises PartlyRead, with the rest of the task, and InvalidFiles.
    """
    if len(text) > MAX_SCRIPT:
        message = f"the batch script has more than {MAX_SCRIPT:,} characters"
        hint = "move commands to a file of their own"
        raise InvalidFiles([Problem(file, 0, 0, "", message, hint)])
    draft = Draft(text.replace("\r\n", "\n"), file, table)
    original_name = _put_name(draft)
    draft.data["resources"] = {}
    partition_gpus = _put_tables(draft)
    shape = resources.put_shape(draft)
    requested_gpus = list(resources.find_gpus(draft, shape))
    resources.put_sizes(draft, shape, requested_gpus)
    resources.put_gpus(draft, requested_gpus, partition_gpus)
    if not call.sets_image:
        resources.put_image(draft)

    draft.data["envs"] = {}
    _put_variables(draft)
    _put_folder(draft)
    lifecycle.put_lifecycle(draft)
    if (excluded := draft.read("exclude", values.names)) is not None:
        draft.put((*_OWN, "exclude_nodes"), excluded, draft.given["exclude"])
    _put_volumes(draft)
    _put_array(draft, shape)
    _note(draft, shape)
    _put_run(draft, shape, call.arguments, original_name)

    document = draft.document()
    errors = [problem for problem in draft.problems if problem.severity == "error"]
    if errors:
        raise PartlyRead(sorted(errors), [document])
    return document


def _put_name(draft: Draft) -> str:
    """Set the name of the task; return the name of the job as written."""
    directive = draft.given.get("job-name")
    written = directive.value if directive else PurePath(draft.file.strip("<>")).stem
    name = _NOT_IN_NAMES.sub("-", written).strip("-._")
    if name and not name[0].isalpha():
        name = f"job-{name}"
    draft.put(("name",), name or "job", directive)
    return written


def _put_tables(draft: Draft) -> str:
    """Carry out what the settings say of partition and so on; return the GPUs there."""
    gpus = ""
    for option, field in _TABLES.items():
        directive = draft.given.get(option)
        if directive is None:
            continue
        value = printable(directive.value)
        meaning = draft.setting(field).get(directive.value)
        if meaning is None:
            hint = f"write there slurm: {{{field}: {{{value}: {{queue: QUEUE}}}}}}"
            draft.warn(directive, f"not carried out: {value} is not in the settings", hint)
            continue
        parts = []
        for name, item in meaning.items():
            if name == "accelerators":
                gpus = item
            elif name == "labels":  # those of several options add up
                for key, text in item.items():
                    draft.put(("resources", "labels", key), text, directive)
            else:
                path = _QUEUE if name == "queue" else ("resources", name)
                draft.put(path, item, directive)
            pairs = item.items() if isinstance(item, dict) else ()
            parts.append(f"{name} {','.join(f'{key}={text}' for key, text in pairs) or item}")
        draft.note(directive, ", ".join(parts))
    return gpus


def _put_variables(draft: Draft) -> None:
    """Set the variables of --export."""
    directive = draft.given.get("export")
    for item in directive.items if directive else ():
        name, equals, value = item.partition("=")
        if name not in ("ALL", "NONE", "NIL", ""):
            text = value if equals else None  # the user gives those without a value
            draft.put(("envs", name), text, directive)


def _put_folder(draft: Draft) -> None:
    """Upload the folder of the submit, or one below it."""
    directive = draft.given.get("chdir")
    folder = directive.value if directive else "."
    if directive and (PurePosixPath(folder).is_absolute() or folder[:1] in ("~", "$")):
        message = "not carried out: the folder is of Slurm's cluster; run starts in the workdir"
        draft.warn(directive, message, "submit from the folder that has the files")
        folder = "."
    elif directive and ".." in PurePosixPath(folder).parts:
        message = "not supported: the folder is not below that of the submit"
        draft.refuse(directive, message, "submit from the folder that has the files")
        folder = "."
    draft.put(("workdir",), folder, directive)


def _put_volumes(draft: Draft) -> None:
    """Mount the volumes of the settings; write the logs to one of them if --output is there."""
    volumes = draft.setting("volumes")
    for path, volume in volumes.items():
        draft.put(("volumes", path), volume)
    directive = draft.given.get("output") or draft.given.get("error")
    if directive is None or directive.value == "/dev/null":
        return
    folder = PurePosixPath(f"{directive.value.partition('%')[0]}x").parent
    if any(folder.is_relative_to(path) for path in volumes):
        draft.put((*_OWN, "logs"), str(folder), directive)
        return
    hint = "for files, mount a volume there: slurm: {volumes: {/PATH: VOLUME}} in the settings"
    draft.warn(directive, "no file is written: kubectl sky logs has the output", hint)


def _put_array(draft: Draft, shape: Shape) -> None:
    numbers = draft.read("array", values.numbers)
    if numbers is None:
        return
    directive = draft.given["array"]
    if shape.nodes > 1:
        message = f"an array of {shape.nodes} nodes: each task of an array runs on one node"
        draft.refuse(directive, message, "submit the task once per number instead")
        draft.data.pop("num_nodes")
    draft.put((*_OWN, "array"), numbers, directive)


def _note(draft: Draft, shape: Shape) -> None:
    """Name the options and commands that are not carried out."""
    for directive in draft.given.values():
        option = BY_NAME[directive.name]
        if option.note:
            draft.warn(directive, f"not carried out: {option.note}", option.hint)
    for finding in script.refusals(draft.body):
        draft.report(finding, "error")
    for finding in script.notes(draft.body, shape.nodes, shape.tasks):
        draft.report(finding, "warning")


def _put_run(draft: Draft, shape: Shape, arguments: Sequence[str], job: str) -> None:
    """Write the script: for every node if that is enough, else for rank 0, with srun."""
    before = _first_lines(draft, arguments)
    draft.added = len(before)
    body = draft.body
    per_node = script.per_node(body, shape.nodes, shape.tasks)
    needs_slurm = body.uses_slurm or shape.nodes > 1
    if needs_slurm or not {"array", "signal"}.isdisjoint(draft.given):
        is_batch = per_node is None and (shape.nodes > 1 or body.starts_steps)
        mode = "batch" if is_batch else "ranks"
        draft.put((*_OWN, "slurm"), mode)
        _put_slurm_variables(draft, shape, job)
    text = body.text if per_node is None else per_node
    text = _TRAILING.sub("", text).rstrip("\n")
    if not text.strip():
        draft.problems.append(Problem(draft.file, 0, 0, "", "the script has no commands"))
        text = ":"
    draft.put(("run",), "\n".join([*before, text]) + "\n")


def _first_lines(draft: Draft, arguments: Sequence[str]) -> list[str]:
    """Return the lines for the options of the interpreter, and for the arguments."""
    is_short = len(draft.interpreter) <= _MAX_INTERPRETER
    match = _INTERPRETER.fullmatch(draft.interpreter) if is_short else None
    if not match or match["name"] not in _SHELLS:
        message = "not supported: a batch script is for bash or sh"
        what = printable(draft.interpreter)
        draft.problems.append(Problem(draft.file, 1, 1, what, message, "write #!/bin/bash"))
        return []
    flags = "".join(re.findall(r"-([eux]+)\b", match["flags"]))
    lines = [f"set -{flags}"] if flags else []
    return [*lines, f"set -- {shlex.join(arguments)}"] if arguments else lines


def _put_slurm_variables(draft: Draft, shape: Shape, job: str) -> None:
    """Set the variables of Slurm that depend on the options, and that a script may read."""
    given = draft.given
    variables = {}
    if "ntasks" in given:
        variables["SLURM_NTASKS"] = str(shape.tasks)
    if shape.tasks_per_node > 1:
        variables["SLURM_NTASKS_PER_NODE"] = str(shape.tasks_per_node)
    for option in _PER_TASK:
        if option in given:
            variables[f"SLURM_{option.upper().replace('-', '_')}"] = given[option].value
    rare = {
        f"SLURM_JOB_{option.upper()}": given[option].value for option in _LABELS if option in given
    }
    if job != draft.data["name"]:
        rare["SLURM_JOB_NAME"] = job
    variables |= {name: value for name, value in rare.items() if name in draft.body.text}
    for name, value in variables.items():
        draft.put(("envs", name), value)


def read_text(data: bytes, file: str) -> str:
    """Decode a batch script. Raises InvalidFiles."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        problem = Problem(file, 0, 0, "", "the file is not UTF-8", "save it as UTF-8")
        raise InvalidFiles([problem]) from None
    if "\0" in text:
        problem = Problem(file, 0, 0, "", "the file has a NUL character", "is it a text file?")
        raise InvalidFiles([problem])
    return text
