"""`doctor --share`: what a ticket about a task needs, as Markdown."""

import platform
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import yaml

from kubectl_sky import __version__
from kubectl_sky.observe.difference import BlockDumper
from kubectl_sky.observe.escapes import plain
from kubectl_sky.tasks import describe

if TYPE_CHECKING:
    from kubectl_sky.cluster.session import Session
    from kubectl_sky.observe.status import TaskStatus

_MAX_EVENTS = 20
_SECRET = re.compile("token|key|passw|secret|credential|auth", re.IGNORECASE)
_REDACTED = "REDACTED"


def report(session: "Session", task: "TaskStatus", verdict: str) -> str:
    """Return a verdict with events, task file and versions, without values of secrets.

    The cluster keeps no values of `secrets`; those of `envs` with such names are replaced.
    """
    server = session.send("GET", "/version").body.get("gitVersion", "?")
    python = platform.python_version()
    versions = f"kubectl-sky {__version__}, Python {python}, Kubernetes {server}"
    file = describe.task_file(session, task)
    sections = {
        f"Task {task.id} ({task.name}): {task.state}": verdict,
        "Events": "\n".join(_events(session, task)) or "none",
        "Task file": _without_secrets(file) if file else "not kept",
        "Versions": versions,
    }
    return "\n\n".join(f"### {plain(title)}\n\n{_fenced(text)}" for title, text in sections.items())


def _events(session: "Session", task: "TaskStatus") -> Iterator[str]:
    for event in describe.list_events(session, task)[:_MAX_EVENTS]:
        times = f" ({event.count}x)" if event.count > 1 else ""
        yield f"{event.time} {event.type} {event.reason} {event.object}: {event.message}{times}"


def _without_secrets(text: str) -> str:
    try:
        documents: list[Any] = list(yaml.safe_load_all(text))
    except yaml.YAMLError:  # others may change what the cluster keeps
        return "not YAML"
    for document in documents:
        envs = document.get("envs") if isinstance(document, dict) else None
        if isinstance(envs, dict):
            envs |= {name: _REDACTED for name in envs if _SECRET.search(str(name))}
    return yaml.dump_all(documents, Dumper=BlockDumper, sort_keys=False, allow_unicode=True)


def _fenced(text: str) -> str:
    """Return a block of text, which no text of the cluster can end."""
    runs = re.findall("`{3,}", text)
    fence = "`" * (max(map(len, runs), default=2) + 1)
    return f"{fence}text\n{plain(text).rstrip()}\n{fence}"
