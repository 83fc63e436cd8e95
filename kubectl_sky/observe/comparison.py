"""Compare tasks, or the indexes of an array: what differs in them, and what they printed last."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any

from kubectl_sky.observe.nodes import NodeStatus
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.spec.variables import mask
from kubectl_sky.words import age
from kubectl_sky.words.documents import Document, Note, Part

Fields = Mapping[str, str]

_NODE_TYPES = ("node.kubernetes.io/instance-type", "nvidia.com/gpu.product")
_DIGEST = "image digest"
_NODE_TYPE = "node type"
_OF_PODS = (_DIGEST, _NODE_TYPE)  # not known before a pod runs, and when it is deleted
_SWEEP = "config.kubectl_sky.sweep"
# loss=0.1, acc: 93.5, "loss": 1e-3; not the port of an address, nor a part of a time.
_NUMBER = re.compile(
    r"(?<![\w/.:-])([A-Za-z_][\w/.-]{0,60})[\"']?\s{0,3}[=:]\s{0,3}"
    r"([-+]?(?:\d{1,20}\.?\d{0,20}|\.\d{1,20})(?:[eE][-+]?\d{1,4})?)(?![\w.:/-])"
)
_MAX_LINE = 2000  # bytes of a line in which numbers are looked for


class ComparedTask(Part, frozen=True):
    """A task or an index of an array, with all that may differ."""

    title: Annotated[str, Note("`train`, `train LR=0.1`: what distinguishes it from the others")]
    task_id: str
    index: Annotated[int | None, Note("of an array: its number")]
    status: str
    exit_code: Annotated[int | None, Note("of the node that failed, or of the first one")]
    seconds: Annotated[int | None, Note("how long it ran, or has run")]
    fields: Annotated[
        Fields,
        Note("of the task file, such as `envs.LR`; image, files, commit and node type"),
    ]
    metrics: Annotated[Mapping[str, float], Note("the last value of each number that it printed")]


class Comparison(Document, frozen=True, kw_only=True):
    """What differs between tasks: `compare TASK TASK`."""

    tasks: list[ComparedTask]
    differing: Annotated[list[str], Note("fields that are not the same in all")]
    metrics: Annotated[list[str], Note("numbers that all have printed")]


def compare(tasks: Sequence[ComparedTask]) -> Comparison:
    names = dict.fromkeys(name for task in tasks for name in task.fields)
    for name in _OF_PODS:
        if not all(name in task.fields for task in tasks):
            names.pop(name, None)
    differing = [name for name in names if len({task.fields.get(name) for task in tasks}) > 1]
    printed = [task.metrics for task in tasks if task.metrics]
    common = [name for name in printed[0] if all(name in it for it in printed)] if printed else []
    return Comparison(tasks=list(tasks), differing=differing, metrics=common)


def describe(
    task: TaskStatus,
    node: NodeStatus | None,
    file: Fields,
    node_labels: Mapping[str, Mapping[str, str]],
) -> Fields:
    """Return all that may differ of a task, or of a node of an array.

    `node_labels` are those of cluster nodes that the user may read.
    """
    nodes = [node] if node else task.nodes
    fields = {key: text for key, text in file.items() if not key.startswith(_SWEEP)}
    fields |= {f"envs.{name}": value for name, value in (node.sweep if node else {}).items()}
    fields["image"] = task.requested.image
    fields[_DIGEST] = ", ".join(dict.fromkeys(it.image_digest for it in nodes if it.image_digest))
    fields |= {f"files {path}": text for path, text in task.files.items()}
    fields |= {f"commit {path}": text for path, text in task.revisions.items()}
    hosts = dict.fromkeys(it.host for it in nodes if it.host in node_labels)
    types = dict.fromkeys(_node_type(node_labels[host]) for host in hosts)
    fields[_NODE_TYPE] = ", ".join(filter(None, types))
    return {key: text for key, text in fields.items() if text}


def _node_type(labels: Mapping[str, str]) -> str:
    return " ".join(labels[name] for name in _NODE_TYPES if name in labels)


def seconds(nodes: Iterable[NodeStatus], now: str) -> int | None:
    """Return the time from the first start to the last end; None if none has started."""
    starts = [start for node in nodes if (start := age.parse(node.started_at))]
    ends = [end for node in nodes if (end := age.parse(node.ended_at or now))]
    if not starts or not ends:
        return None
    return max(int((max(ends) - min(starts)).total_seconds()), 0)


def flatten(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield the fields of a task file with their paths; lists are JSON, secrets are masked."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from flatten(_masked(str(key), item), f"{path}.{key}".removeprefix("."))
    elif isinstance(value, str):
        yield path, value
    else:
        yield path, json.dumps(value, ensure_ascii=False, default=str)


def _masked(name: str, value: Any) -> Any:
    """Return a value without secrets; `name` is that of the field or variable that has it."""
    if isinstance(value, dict):
        names = {key: str(key) for key in value}
        names["value"] = str(value.get("name", name))  # {name: API_KEY, value: hunter2}
        return {key: _masked(names[key], item) for key, item in value.items()}
    if isinstance(value, list):
        return [_masked(name, item) for item in value]
    text = str(value)
    shown = mask(name, text)
    return value if value is None or shown == text else shown


def read_metrics(lines: Iterable[bytes]) -> dict[str, float]:
    """Return the last value of each number with a name in the lines of a log."""
    metrics = {}
    for line in lines:
        for match in _NUMBER.finditer(line[:_MAX_LINE].decode(errors="replace")):
            metrics[match[1]] = float(match[2])
    return metrics
