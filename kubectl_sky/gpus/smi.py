"""Read what nvidia-smi or rocm-smi prints in a node of a task: untrusted text.

The fields are those of `nvidia-smi --help-query-gpu` and of `rocm-smi --json`. A value that is not
a number, such as `[N/A]`, is unknown.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

from msgspec import Struct

from kubectl_sky.observe.escapes import plain
from kubectl_sky.observe.nodes import NodeStatus
from kubectl_sky.words.documents import Document, Note

_QUERY = (
    "index,name,utilization.gpu,memory.used,memory.total,temperature.gpu,power.draw,power.limit"
)
_FIELDS = _QUERY.count(",") + 1
# Prints the name of the program on the first line. Both paths are those of device plugins. Where
# containers see all GPUs, UUIDs in CUDA_VISIBLE_DEVICES are those of this one.
SCRIPT = f"""PATH="$PATH:/usr/local/nvidia/bin:/opt/rocm/bin"
if command -v nvidia-smi > /dev/null; then
    echo nvidia-smi
    case ${{CUDA_VISIBLE_DEVICES:-}} in GPU-*) set -- "--id=$CUDA_VISIBLE_DEVICES" ;; esac
    exec nvidia-smi "$@" --query-gpu={_QUERY} --format=csv,noheader,nounits
elif command -v rocm-smi > /dev/null; then
    echo rocm-smi
    exec rocm-smi --showproductname --showuse --showmeminfo vram --showtemp --showpower \\
        --showmaxpower --json
fi
exit 127
"""
_MAX_NAME = 64  # characters
_MAX_MESSAGE = 200  # characters
_NUMBER = re.compile(r"[0-9]{1,15}(?:\.[0-9]{1,6})?")
_MIB = 2**20


class Gpu(
    Struct,
    frozen=True,
    rename={
        "index": "gpu",
        "utilization": "utilization_percent",
        "memory_used": "memory_used_bytes",
        "memory_total": "memory_total_bytes",
        "temperature": "temperature_celsius",
        "power": "power_watts",
        "power_limit": "power_limit_watts",
    },
):
    """A GPU as nvidia-smi or rocm-smi shows it in a node; null if that is not known."""

    rank: int
    pod: str
    index: Annotated[int, Note("index in the node")]
    name: str
    utilization: float | None = None
    memory_used: int | None = None
    memory_total: int | None = None
    temperature: float | None = None
    power: float | None = None
    power_limit: float | None = None


class GpuFailure(Struct, frozen=True):
    """A node whose GPUs cannot be read."""

    rank: int
    pod: str
    message: str


class GpuUsage(Document, frozen=True, kw_only=True):
    """The usage of the GPUs of a task's running nodes: `top --gpu`."""

    task_id: str
    gpus: Sequence[Gpu]
    failures: list[GpuFailure]


def read(node: NodeStatus, output: bytes) -> list[Gpu]:
    """Return the GPUs in the output of SCRIPT. Raises ValueError if there are none."""
    text = output.decode(errors="replace").partition("\n")[2]
    gpus = [*(_nvidia(node, text) if program(output) == "nvidia-smi" else _rocm(node, text))]
    if not gpus:
        raise ValueError("it prints no GPU")
    return gpus


def program(output: bytes) -> str:
    """Return the program that SCRIPT runs, by the line that it prints first; "" if unknown."""
    name = output.decode(errors="replace").partition("\n")[0]
    return name if name in ("nvidia-smi", "rocm-smi") else ""


def failure(exit_code: int, output: bytes, errors: bytes) -> str:
    """Return why SCRIPT failed, with the first line that the program printed."""
    first_line, _, text = output.decode(errors="replace").partition("\n")
    if exit_code == 127 and not first_line:
        return "nvidia-smi and rocm-smi not found in the image"
    lines = f"{text}\n{errors.decode(errors='replace')}".split("\n")
    shortened = (" ".join(plain(line).split())[:_MAX_MESSAGE] for line in lines)
    first = next(filter(None, shortened), "")
    return f"{program(output) or 'the program'} failed with exit code {exit_code}" + (
        f": {first}" if first else ""
    )


def _nvidia(node: NodeStatus, text: str) -> Iterator[Gpu]:
    for line in text.split("\n"):
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) < _FIELDS or not re.fullmatch("[0-9]{1,3}", cells[0]):
            continue
        split = len(cells) - _FIELDS + 2  # a name may have commas
        name = ", ".join(cells[1:split])
        numbers = list(map(_number, cells[split:]))
        used, total = (None if value is None else int(value * _MIB) for value in numbers[1:3])
        yield Gpu(
            node.index, node.pod, int(cells[0]), _name(name), numbers[0], used, total, *numbers[3:]
        )


def _rocm(node: NodeStatus, text: str) -> Iterator[Gpu]:
    """Yield the GPUs of rocm-smi's JSON, which warnings may precede."""
    begin = re.search(r"^\{", text, re.MULTILINE)
    try:
        cards = json.JSONDecoder().raw_decode(text, begin.start())[0] if begin else {}
    except (ValueError, RecursionError):
        return

    for key, card in cards.items():
        index = re.fullmatch("card([0-9]{1,3})", key)
        if index and isinstance(card, dict):
            yield Gpu(
                node.index,
                node.pod,
                int(index[1]),
                _name(str(_first(card, r"Card series", r"Card model") or "")),
                _number(_first(card, r"GPU use \(%\)")),
                _whole(_first(card, r"VRAM Total Used Memory \(B\)")),
                _whole(_first(card, r"VRAM Total Memory \(B\)")),
                _number(_first(card, r"Temperature \(Sensor edge\).*", r"Temperature \(Sensor.*")),
                _number(_first(card, r"(Average|Current Socket) Graphics Package Power.*")),
                _number(_first(card, r"Max Graphics Package Power.*")),
            )


def _first(card: Mapping[str, Any], *patterns: str) -> object:
    """Return the first known value whose key matches: the keys depend on the version."""
    for pattern in patterns:
        for key, value in card.items():
            known = isinstance(value, str | int | float) and value not in ("N/A", "")
            if known and re.fullmatch(pattern, key, re.IGNORECASE):
                return value
    return None


def _number(value: object) -> float | None:
    text = str(value)
    return float(text) if _NUMBER.fullmatch(text) else None


def _name(text: str) -> str:
    return " ".join(plain(text).split())[:_MAX_NAME]


def _whole(value: object) -> int | None:
    number = _number(value)
    return None if number is None else int(number)
