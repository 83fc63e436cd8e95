"""`doctor --share`: what a ticket about a task needs, as Markdown."""

import base64
import platform
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import yaml

from kubectl_sky import __version__
from kubectl_sky.cluster import objects
from kubectl_sky.errors import ClusterError
from kubectl_sky.observe.difference import BlockDumper
from kubectl_sky.observe.escapes import plain
from kubectl_sky.observe.masks import Mask, smells
from kubectl_sky.tasks import describe, doctor, find
from kubectl_sky.words import kinds, names
from kubectl_sky.workloads import references

if TYPE_CHECKING:
    from kubectl_sky.cluster.session import Session
    from kubectl_sky.observe.status import TaskStatus
    from kubectl_sky.observe.verdict import Diagnosis

_MAX_EVENTS = 20
_LEAST = 8  # characters of a value of `envs` that is looked for in other texts
_LEAST_SECRET = 4  # characters, if its name is that of a secret
_MAPS = ("envs", "secrets", "annotations", "headers")  # fields of which all values are hidden
_NAMES = re.compile(r"(?:^k|K)ey$|Name$")  # fields of Kubernetes whose values are names
_FLAG = re.compile(r"--?[A-Za-z][\w.-]*")
Hide = Callable[[str, str, Any], Any]  # the kind, the name of the field, and its value
_NOT_LEFT_OUT = (
    "Names, labels, paths, hosts and images are as they are, and secrets in other forms are not"
    " known. Not looked at: other logs, uploaded files and the image. Read it before you post it."
)


def report(
    session: "Session", task: "TaskStatus", describe_verdict: Callable[["Diagnosis"], str]
) -> str:
    """Return a verdict with events, task file and versions, without values of secrets.

    Values of `envs` and of the Secrets that the task reads are masked in all texts. If such a
    Secret cannot be read, the report quotes no program.
    """
    text = describe.task_file(session, task)
    documents = _parse(text) if text else []
    secrets = _list_secrets(session, task)
    mask = Mask([*(secrets or ()), *_list_values(documents or [])])

    verdict = doctor.diagnose(session, task, mask)
    verdict = verdict if secrets is not None else verdict.without_words
    events = _events(session, task, mask, quotes=secrets is not None)

    sections = {
        f"Task {task.id} ({task.name}): {task.state}": describe_verdict(verdict),
        "Events": "\n".join(events) or "none",
        "Task file": _masked_file(documents, mask) if text else "not kept",
        "Versions": _versions(session),
        "Left out": "\n".join(_left_out(mask, quotes=secrets is not None)),
    }
    return "\n\n".join(f"### {plain(title)}\n\n{_fenced(text)}" for title, text in sections.items())


def _versions(session: "Session") -> str:
    server = session.send("GET", "/version").body.get("gitVersion", "?")
    python = platform.python_version()
    return f"kubectl-sky {__version__}, Python {python}, Kubernetes {server}"


def _events(session: "Session", task: "TaskStatus", mask: Mask, *, quotes: bool) -> Iterator[str]:
    for event in describe.list_events(session, task)[:_MAX_EVENTS]:
        times = f" ({event.count}x)" if event.count > 1 else ""
        # The kubelet quotes probes and hooks.
        is_quote = event.object.startswith("Pod/") and event.reason != "FailedScheduling"
        message = mask(event.message) if quotes or not is_quote else "(left out)"
        yield f"{event.time} {event.type} {event.reason} {event.object}: {message}{times}"


def _left_out(mask: Mask, *, quotes: bool) -> Iterator[str]:
    counts = [f"{kind}: {count}" for kind, count in sorted(mask.counts.items())]
    yield f"Replaced by REDACTED: {', '.join(counts) or 'nothing'}."
    if not quotes:
        yield "Words of programs: you may not read a Secret of the task, to mask its values."
    yield _NOT_LEFT_OUT


def _list_secrets(session: "Session", task: "TaskStatus") -> list[tuple[str, str]] | None:
    """Return the values of the Secrets that the task reads; None unless all can be read."""
    selector = names.selector({names.TASK_ID: task.id})
    values = []
    try:
        workloads = find.list_workload_manifests(session, task.namespace, selector)
        for name in references.list_secrets(workloads):
            data = objects.get(session, kinds.SECRET, name, task.namespace).data or {}
            texts = (base64.b64decode(text).decode(errors="replace") for text in data.values())
            values += [("values of Secrets", text) for text in texts]
    except (ClusterError, ValueError):
        return None
    return values


def _parse(text: str) -> list[Any] | None:
    try:
        return list(yaml.safe_load_all(text))
    except yaml.YAMLError:  # others may change what the cluster keeps
        return None


def _masked_file(documents: list[Any] | None, mask: Mask) -> str:
    if documents is None:
        return "not YAML"
    shown = _changed(documents, lambda kind, _, value: mask.hide(kind, value), mask)
    return yaml.dump_all(shown, Dumper=BlockDumper, sort_keys=False, allow_unicode=True)


def _list_values(documents: list[Any]) -> list[tuple[str, str]]:
    """Return the values of variables that are looked for in other texts, too, with their kinds."""
    values = list[tuple[str, str]]()

    def add(kind: str, name: str, value: object) -> None:
        if len(str(value)) >= (_LEAST_SECRET if smells(name) else _LEAST):
            values.append((kind, str(value)))

    _changed(documents, add, str)
    return values


def _changed(
    value: Any, hide: Hide, change: Callable[[str], object], name: str = "", kind: str = ""
) -> Any:
    """Return YAML with other values: of fields that may be secret by `hide`, others by `change`."""
    if isinstance(value, dict):
        return {
            key: _changed(item, hide, change, _name(value, key), kind or _kind(value, key))
            for key, item in value.items()
        }
    if isinstance(value, list):
        before = [None, *value]
        return [
            _changed(item, hide, change, name, kind or _kind_of_word(flag))
            for flag, item in zip(before, value, strict=False)
        ]
    if kind and value is not None:
        return hide(kind, name, value)
    return change(value) if isinstance(value, str) else value


def _name(fields: dict[Any, Any], key: object) -> str:
    return str(fields["name"] if key == "value" and "name" in fields else key)


def _kind(fields: dict[Any, Any], key: object) -> str:
    """Return why the values of a field are hidden; empty if they are not."""
    name = str(key)
    value = fields[key]
    if name in _MAPS:
        return f"values of {name}"
    if name == "event_callback":
        return name
    if name == "value" and "name" in fields:
        return "values of variables"
    is_plain = isinstance(value, bool | dict | list) or _NAMES.search(name)
    return "" if is_plain or not smells(name) else "values after names"


def _kind_of_word(before: object) -> str:
    is_flag = isinstance(before, str) and _FLAG.fullmatch(before) and smells(before)
    return "words after flags" if is_flag else ""


def _fenced(text: str) -> str:
    """Return a block of text, which no text of the cluster can end."""
    runs = re.findall("`{3,}", text)
    fence = "`" * (max(map(len, runs), default=2) + 1)
    return f"{fence}text\n{plain(text).rstrip()}\n{fence}"
