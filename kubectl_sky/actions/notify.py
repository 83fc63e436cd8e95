"""`wait --notify`: send a small JSON document to a URL when tasks have finished."""

import ipaddress
from collections.abc import Iterable
from typing import Annotated
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from kubectl_sky.cluster import web
from kubectl_sky.cluster.web import Fetch, FetchFailed
from kubectl_sky.observe import record
from kubectl_sky.observe.escapes import plain
from kubectl_sky.observe.nodes import State
from kubectl_sky.tasks import find
from kubectl_sky.tasks.find import Target
from kubectl_sky.words.documents import Document, Note
from kubectl_sky.words.notice import Notice


class NotifiedTask(Struct, frozen=True):
    """A finished task."""

    task_id: str
    name: str
    namespace: str
    status: Annotated[str, Note("`completed` or `failed`")]
    note: Annotated[Notice, Note("why it has failed, without words of the program; may be empty")]


class Notification(Document, frozen=True, kw_only=True):
    """What `wait --notify` sends."""

    status: Annotated[
        str,
        Note(
            "`completed`, or `failed` if a task has failed or was stopped;"
            " with `--for` also `running`, `deleted`"
        ),
    ]
    text: Annotated[Notice, Note("the same for people, as chat services show it")]
    tasks: Annotated[list[NotifiedTask], Note("empty if the wait ended because a task was stopped")]


_SECONDS = 10.0  # from the name resolution to the end of the answer


def check(url: str) -> None:
    """Raise ValueError unless the URL can be notified.

    Its path may be a secret, so that no message quotes it.
    """
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        port = parts.port
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


def describe_finished(targets: Iterable[Target], *, deleted: bool = False) -> Notification:
    """Return the document about tasks and pipelines that were waited for."""
    targets = list(targets)
    states = {target.state for target in targets}
    worst = next((state for state in (State.FAILED, State.RUNNING) if state in states), None)
    verdict = "deleted" if deleted else worst or State.COMPLETED
    tasks = [task for target in targets for task in find.tasks_of(target)]
    return Notification(
        status=verdict,
        text=_plain([_line(target, deleted) for target in targets]),
        tasks=[
            NotifiedTask(task.id, task.name, task.namespace, task.state, record.note(task))
            for task in tasks
        ],
    )


def _line(target: Target, deleted: bool) -> Notice:
    note = "" if deleted else record.note(target)
    state = "deleted" if deleted else target.state
    return Notice(f"{target.name} ({target.id}) {state}{f': {note}' if note else ''}")


def _plain(lines: Iterable[Notice]) -> Notice:
    return Notice(plain("\n".join(lines)))


def describe_stopped(message: Notice) -> Notification:
    """Return the document about a wait that ended because a task was stopped."""
    return Notification(status=State.FAILED, text=_plain([message]), tasks=[])


def send(url: str, document: Notification) -> str:
    """POST a document; return why it failed, or an empty text."""
    try:
        headers = {"Content-Type": "application/json"}
        body = msgspec.json.encode(document)
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
