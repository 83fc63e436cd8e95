"""`wait --notify`: send a small JSON document to a URL when tasks have finished."""

import ipaddress
import json
from collections.abc import Iterable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from kubectl_sky.cluster import web
from kubectl_sky.cluster.web import Fetch, FetchFailed
from kubectl_sky.observe.escapes import plain
from kubectl_sky.observe.nodes import State
from kubectl_sky.tasks import find
from kubectl_sky.tasks.find import Target
from kubectl_sky.words import names

if TYPE_CHECKING:
    from kubectl_sky.words import models

_SECONDS = 10.0  # from the name resolution to the end of the answer


def check(url: str) -> None:
    """Raise ValueError unless the URL can be notified.

    Its path may be a secret, so that no message quotes it.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
        host.encode("idna")
    except ValueError:
        raise ValueError("not a URL") from None
    secure = parts.scheme == "https" or (parts.scheme == "http" and _is_loopback(host))
    if parts.scheme and not secure:
        raise ValueError("must be https; http only to this machine")
    if not (secure and host and url.isascii() and url.isprintable()) or port == 0 or " " in url:
        raise ValueError("not a URL")
    if parts.username is not None or parts.password is not None:
        raise ValueError("a URL with a user or password is not supported")


def finished(targets: Iterable[Target], *, deleted: bool = False) -> "models.Notification":
    """Return the document about tasks and pipelines that were waited for."""
    targets = list(targets)
    states = {target.state for target in targets}
    worst = next((state for state in (State.FAILED, State.RUNNING) if state in states), None)
    tasks = [task for target in targets for task in find.tasks_of(target)]
    lines = [
        f"{target.name} ({target.id}) {'deleted' if deleted else target.state}"
        f"{f': {target.note}' if target.note and not deleted else ''}"
        for target in targets
    ]
    return _document(
        "deleted" if deleted else worst or State.COMPLETED,
        "\n".join(lines),
        [
            {
                "task_id": task.id,
                "name": task.name,
                "namespace": task.namespace,
                "status": str(task.state),
                "note": task.note,
            }
            for task in tasks
        ],
    )


def stopped(message: str) -> "models.Notification":
    """Return the document about a wait that ended because a task was stopped."""
    return _document(State.FAILED, message, [])


def _document(state: str, text: str, tasks: list["models.NotifiedTask"]) -> "models.Notification":
    return {
        "apiVersion": names.API_VERSION,
        "kind": "Notification",
        "status": str(state),
        "text": plain(text),
        "tasks": tasks,
    }


def send(url: str, document: "models.Notification") -> str:
    """POST a document; return why it failed, or an empty text."""
    try:
        headers, body = {"Content-Type": "application/json"}, json.dumps(document).encode()
        answer = web.fetch(Fetch(url, "POST", headers, body, _SECONDS))
        problem = f"HTTP {answer.status}" if answer.status >= 300 else ""
    except FetchFailed as error:
        problem = error.what
    return f"cannot notify {urlsplit(url).hostname}: {problem}" if problem else ""


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
