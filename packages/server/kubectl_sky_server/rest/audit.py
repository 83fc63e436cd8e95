"""The audit log: who did what, with which result; of bodies and queries only the namespace."""

import json
import os
import re
import sys
from datetime import UTC, datetime
from typing import TextIO

from starlette.datastructures import Headers, QueryParams
from starlette.types import Message, Scope

from kubectl_sky.errors import UserError
from kubectl_sky.words import names
from kubectl_sky.words.names import KUBERNETES_PATH
from kubectl_sky_server.rest.config import Config
from kubectl_sky_server.rest.identity import MAX_NAMESPACE, NAMESPACE_PATTERN
from kubectl_sky_server.rest.metrics import PROBES
from kubectl_sky_server.rest.problems import LOG

_STDOUT = "-"
_UNLOGGED = ("/ui/", "/schemas/")
_PROXIED = re.compile(f"{KUBERNETES_PATH}/apis?/.*?/namespaces/([^/]+)")
_MAX_METHOD = 20
_MAX_PATH = 2000
_MAX_FORWARDED = 300  # the last: proxies append


def open_log(path: str) -> TextIO:
    """Open the file of --audit-log to append to it. Raises UserError."""
    if path == _STDOUT:
        return sys.stdout
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    except OSError as error:
        raise UserError(f"--audit-log {path}: {(error.strerror or str(error)).lower()}") from None
    return os.fdopen(descriptor, "w", encoding="utf-8")


def user_of(scope: Scope) -> str:
    """Return the name of the caller of a request; empty if it is unknown."""
    caller = scope.get("state", {}).get("caller")
    return caller.user.name if caller else ""


def _forwarded_for(scope: Scope) -> dict[str, str | None]:
    """Return what the proxy says of the client; nothing relies on it."""
    text = ", ".join(Headers(scope=scope).getlist("x-forwarded-for"))
    return {"forwarded_for": re.sub("[^ -~]", "?", text[-_MAX_FORWARDED:]) or None}


def write(config: Config, scope: Scope, first: Message) -> None:
    """Write a line for a request when its answer begins with the first message."""
    log = config.audit
    if log is None or scope["path"] in PROBES or scope["path"].startswith(_UNLOGGED):
        return

    state = scope.get("state", {})
    parameters = scope.get("path_params", {})
    caller = state.get("caller")
    task = state.get("task") or parameters.get("task_id", "")
    task = task if names.ID.fullmatch(task) else None
    default = caller.session.namespace if caller and task else None

    proxied = _PROXIED.match(scope["path"])  # a request to the API server
    queried = QueryParams(scope["query_string"]).get("namespace", "")
    namespace = (proxied[1] if proxied else queried)[: MAX_NAMESPACE + 1]
    is_valid = len(namespace) <= MAX_NAMESPACE and re.fullmatch(NAMESPACE_PATTERN, namespace)

    entry = {
        "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "user": user_of(scope) or None,
        "address": scope["client"][0] if scope.get("client") else None,
        **(_forwarded_for(scope) if config.behind_proxy else {}),
        "method": scope.get("method", "GET")[:_MAX_METHOD],
        "path": scope["path"][:_MAX_PATH],
        "namespace": namespace if is_valid else default,
        "task": task,
        "status": first.get("status", 101),  # 101: a WebSocket
    }

    try:
        log.write(json.dumps(entry) + "\n")
        log.flush()
    except OSError as error:
        LOG.error("cannot write the audit log: %s", error.strerror)
