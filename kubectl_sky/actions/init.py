"""`init`: write a task file with comments, for a script, for torchrun or for vLLM."""

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from kubectl_sky import __version__
from kubectl_sky.errors import InvalidFiles, UserError
from kubectl_sky.spec.load import load
from kubectl_sky.spec.schema import describe
from kubectl_sky.spec.validate import validate

KINDS = ("script", "torchrun", "vllm")
_SCHEMA = f"https://github.com/kubectl-sky/kubectl-sky/raw/v{__version__}/schemas/task.json"
_TORCH_IMAGE = "docker:pytorch/pytorch:2.8.0-cuda12.8-cudnn9-runtime"
_VLLM_IMAGE = "docker:vllm/vllm-openai:v0.11.0"
_GPUS = "A100:1"
_NAMES = "use letters, digits and dashes"
_IMPORTS_TORCH = re.compile(r"^\s*(?:import|from)\s+(?:torch|lightning)\b", re.M)
_PROGRAMS = {".py": "python ", ".sh": "bash ", ".bash": "bash "}
_MAX_SCRIPT_BYTES = 1_000_000


class Draft(Struct, frozen=True):
    """What the task file is for; `kind` is one of `KINDS`, or "" to choose one."""

    name: str = "task"
    script: str = ""
    gpus: str = ""
    nodes: int = 1
    kind: str = ""


def draft(target: str, gpus: str, nodes: int, kind: str) -> tuple[Draft, Path]:
    """Return the draft of a script, or of a name, and the path of the task file.

    Raises UserError if the script does not exist, or is not uploaded with this folder.
    """
    if not target.isprintable() or not Path(target).name:
        raise UserError(f"invalid task name {describe(target)}", _NAMES)
    if not gpus.isprintable():
        raise UserError(
            f"invalid --gpus {describe(gpus)}", f"use a type and a number, such as {_GPUS}"
        )

    path = Path(target)
    if path.suffix in (".yaml", ".yml"):
        return Draft(path.stem, "", gpus, nodes, kind), path
    if path.suffix in _PROGRAMS or path.is_file():
        if path.is_absolute() or ".." in path.parts:
            raise UserError(f"{path} is not below this folder", "run init in the script's folder")
        name = re.sub("[^a-z0-9]+", "-", path.stem.lower()).strip("-") or "task"
        kind = kind or _kind(path, gpus, nodes)
        return Draft(name, target, gpus, nodes, kind), Path(f"{path.stem}.yaml")

    return Draft(path.name, "", gpus, nodes, kind), Path(f"{target}.yaml")


def _kind(path: Path, gpus: str, nodes: int) -> str:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            script = file.read(_MAX_SCRIPT_BYTES)
    except OSError as error:
        reason = (error.strerror or "").lower()
        raise UserError(f"script {path} cannot be read: {reason}") from None
    torch = bool(_IMPORTS_TORCH.search(script)) or (nodes > 1 and bool(gpus))
    return "torchrun" if path.suffix == ".py" and torch else "script"


def text(draft: Draft, file: str) -> str:
    """Return a task file. Raises UserError if a name or a flag is invalid."""
    kind = draft.kind or ("torchrun" if draft.nodes > 1 and draft.gpus else "script")
    lines = [
        f"# yaml-language-server: $schema={_SCHEMA}",
        f"# Run it: kubectl sky submit {file}",
        f"name: {draft.name}",
        "",
        *_resources(draft, kind),
        "",
        *_BODIES[kind](draft),
    ]

    content = "\n".join(lines) + "\n"
    if _yaml_value(draft.name) != draft.name:  # such as `a: b`, `a # b` and 1e3
        raise UserError(f'invalid task name "{draft.name}"', _NAMES)

    errors = [
        problem
        for document in load(content.encode(), file)
        for problem in validate(document)
        if problem.severity == "error" or problem.path == "name"
    ]
    if any(problem.path == "name" for problem in errors):
        raise UserError(f'invalid task name "{draft.name}"', _NAMES)
    if errors:
        raise UserError(f"--gpus {draft.gpus}: {errors[0].message}", errors[0].hint)
    return content


def _yaml_value(text: str) -> object:
    try:
        return load(f"name: {text}\n".encode(), "name")[0].get("name")
    except InvalidFiles:
        return None


def _resources(draft: Draft, kind: str) -> Sequence[str]:
    gpus = draft.gpus or ("" if kind == "script" else _GPUS)
    count = re.search(r"(?:^|:)([1-9]\d*)$", gpus)
    number = int(count[1]) if count else 1
    cpus, memory = (4 * number, 16 * number) if gpus else (1, 1)  # as SkyPilot's defaults
    image = {"torchrun": _TORCH_IMAGE, "vllm": _VLLM_IMAGE}.get(kind, "")

    return [
        "# What each node needs. Remove what you do not need.",
        "resources:",
        f"  {f'cpus: {cpus}+':<17} # at least; without the +, exactly {cpus}",
        f"  {f'memory: {memory}+':<17} # GiB",
        f"  accelerators: {gpus}" if gpus else f"  # accelerators: {_GPUS}",
        f"  image_id: {image}"
        if image
        else "  # image_id: docker:python:3.13    # default: python:3.13-slim",
        *(["  ports: 8000"] if kind == "vllm" else []),
        *_nodes(draft, kind),
    ]


def _nodes(draft: Draft, kind: str) -> Sequence[str]:
    if draft.nodes == 1 and kind == "vllm":
        return []
    sign, number = ("", draft.nodes) if draft.nodes > 1 else ("# ", 2)
    comment = "# the nodes find each other by $SKYPILOT_NODE_IPS"
    return ["", f"{sign}num_nodes: {number}      {comment}"]


def _script(draft: Draft) -> Sequence[str]:
    without_program = "" if "/" in draft.script else "./"
    program = _PROGRAMS.get(Path(draft.script).suffix, without_program)
    return [
        *_workdir(draft),
        "# The task itself. Without run, the node stays up, and",
        '# "kubectl sky exec ID -it -- bash" gets you in.',
        "run: |",
        f"  {program}{shlex.quote(draft.script)}"
        if draft.script
        else '  echo "Hello from node $SKYPILOT_NODE_RANK of $SKYPILOT_NUM_NODES"',
    ]


def _torchrun(draft: Draft) -> Sequence[str]:
    return [
        *_workdir(draft),
        "# torchrun starts one process per GPU on every node. Rank 0 has the first IP address.",
        "run: |",
        "  torchrun \\",
        '    --nnodes "$SKYPILOT_NUM_NODES" \\',
        '    --node-rank "$SKYPILOT_NODE_RANK" \\',
        '    --nproc-per-node "$SKYPILOT_NUM_GPUS_PER_NODE" \\',
        '    --master-addr "$(echo "$SKYPILOT_NODE_IPS" | head -n1)" \\',
        "    --master-port 29500 \\",
        f"    {shlex.quote(draft.script or 'train.py')}",
    ]


def _vllm(draft: Draft) -> Sequence[str]:
    return [
        "envs:",
        "  MODEL: Qwen/Qwen2.5-7B-Instruct   # override it with --env MODEL=...",
        "",
        "# secrets:",
        "#   HF_TOKEN: null  # for models that need a login: --secret HF_TOKEN",
        "",
        f"# Reach it: kubectl sky port-forward {draft.name} 8000",
        "run: |",
        '  vllm serve "$MODEL" --port 8000 --tensor-parallel-size "$SKYPILOT_NUM_GPUS_PER_NODE"',
    ]


_BODIES = {"script": _script, "torchrun": _torchrun, "vllm": _vllm}


def _workdir(draft: Draft) -> Sequence[str]:
    sign = "" if draft.script else "# "
    return [
        f"{sign}workdir: .        # uploads this folder to every node; run starts in it",
        "",
        "# envs:",
        "#   EPOCHS: 10      # override it with --env EPOCHS=20",
        "",
        "# setup: |          # runs before run, for example to install packages",
        "#   pip install numpy",
        "",
    ]


def write(draft: Draft, path: Path, force: bool) -> None:
    """Write a task file. Raises UserError if the file exists."""
    content = text(draft, str(path))
    mode = "w" if force else "x"
    try:
        with path.open(mode, encoding="utf-8") as file:
            file.write(content)
    except FileExistsError:
        raise UserError(f"{path} already exists", "to overwrite it, use --force") from None
    except OSError as error:
        reason = (error.strerror or "").lower()
        raise UserError(f"{path}: cannot be written: {reason}") from None
