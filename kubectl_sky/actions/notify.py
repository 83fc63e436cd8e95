"""`wait --notify`: send a small JSON document to a URL when tasks have finished."""

import http.client
import ipaddress
import json
import urllib.request
from collections.abc import Iterable
from typing import TYPE_CHECKING
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit

from kubectl_sky import __version__
from kubectl_sky.actions import find
from kubectl_sky.actions.find import Target
from kubectl_sky.cluster import parallel
from kubectl_sky.observe.escapes import plain
from kubectl_sky.observe.nodes import State
from kubectl_sky.words import names

if TYPE_CHECKING:
    from kubectl_sky.words import models

_SECONDS = 10.0  # time limit, from name resolution to the status of the answer


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


def finished(targets: Iterable[Target]) -> "models.Notification":
    """Return the document about finished tasks and pipelines."""
    targets = list(targets)
    completed = all(target.state is State.COMPLETED for target in targets)
    tasks = [task for target in targets for task in find.tasks_of(target)]
    lines = [
        f"{target.name} ({target.id}) {target.state}{f': {target.note}' if target.note else ''}"
        for target in targets
    ]
    return _document(
        State.COMPLETED if completed else State.FAILED,
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


def _document(state: State, text: str, tasks: list["models.NotifiedTask"]) -> "models.Notification":
    return {
        "apiVersion": names.API_VERSION,
        "kind": "Notification",
        "status": str(state),
        "text": plain(text),
        "tasks": tasks,
    }


def send(url: str, document: "models.Notification") -> str:
    """POST a document; return why it failed, or an empty text. Redirects are not followed."""
    host = urlsplit(url).hostname
    request = urllib.request.Request(
        url,
        json.dumps(document).encode(),
        {"Content-Type": "application/json", "User-Agent": f"kubectl-sky/{__version__}"},
        method="POST",
    )
    problems = [f"no answer within {_SECONDS:g} seconds"]

    def post() -> None:
        problem = _post(request)
        problems[:] = [problem] if problem else []

    # The time limits of sockets are for each read: a server that sends a byte now and then, or a
    # resolver, would take longer.
    parallel.run_daemon(post, name="notify").join(_SECONDS)
    problem = next(iter(problems), "")
    return f"cannot notify {host}: {problem}" if problem else ""


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follow no redirect: it could lead to plain http."""

    def redirect_request(self, *args: object, **options: object) -> None:
        return None


def _post(request: urllib.request.Request) -> str:
    """Send a request; return why it failed without the URL, or an empty text."""
    handlers: list[urllib.request.BaseHandler] = [_Redirects()]
    if request.type == "http":  # this machine: not through a proxy
        handlers.append(urllib.request.ProxyHandler({}))
    try:
        with urllib.request.build_opener(*handlers).open(request, timeout=_SECONDS):
            return ""
    except HTTPError as error:
        with error:
            return f"HTTP {error.code}"
    except TimeoutError:
        return f"no answer within {_SECONDS:g} seconds"
    except URLError as error:
        reason = error.reason
        return (reason.strerror or str(reason)) if isinstance(reason, OSError) else str(reason)
    except OSError as error:
        return error.strerror or type(error).__name__
    except (http.client.HTTPException, ValueError) as error:  # their texts may quote the URL
        return type(error).__name__


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
