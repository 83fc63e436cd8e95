"""Keep evidence of failed nodes in the user's cache, for when pods are deleted."""

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from kubectl_sky import names, settings
from kubectl_sky.cluster.core import CoreManager
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import ClusterError, Unreachable
from kubectl_sky.observe import evidence
from kubectl_sky.observe.evidence import LINES, LOGS, Death, Evidence
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.private import Folder

_FILES = 100  # maximum number of tasks with evidence
_SECONDS = 14 * 86_400  # retention time
_LONGEST = 8_000_000  # maximum bytes read from a file


class Keeper:
    """Save evidence of the failed pods of one task as soon as they are seen."""

    def __init__(self, session: Session, environ: Mapping[str, str] = os.environ) -> None:
        self._session = session
        self._folder = _folder(environ)
        self._found: dict[str, Death] = {}
        self._written = 0
        self._silent: set[str] = set()  # cluster nodes that did not answer a log request

    def see(self, task: TaskStatus, pods: Iterable[Mapping[str, Any]]) -> None:
        """Record newly failed pods; read the logs of the first ones only."""
        for death in evidence.deaths(task, pods):
            if death.pod not in self._found:
                early = len(self._found) < LOGS
                self._found[death.pod] = self._with_lines(task, death) if early else death
        if len(self._found) > self._written and (len(self._found) <= LOGS or task.over):
            self._write(task)

    def _with_lines(self, task: TaskStatus, death: Death) -> Death:
        """Add the last log lines, if they can be read."""
        if death.host in self._silent:
            return death
        core = CoreManager(self._session)
        try:
            lines = core.last_lines(task.namespace, death.pod, names.CONTAINER, LINES)
        except Unreachable:  # the API server or the cluster node is unreachable
            self._silent.add(death.host)
            return death
        except ClusterError:  # the pod is deleted or never started
            return death
        return death.having(lines)

    def _write(self, task: TaskStatus) -> None:
        """Merge the evidence into the file of the task; ignore write errors."""
        self._written = len(self._found)
        name = _file(self._session.server, task.namespace, task.id)
        evidence_so_far = _read(self._folder, name)
        if evidence_so_far is None or not evidence_so_far.of(task):
            evidence_so_far = Evidence(
                task.id, task.name, task.namespace, self._session.server, task.created_at
            )
        with suppress(OSError):
            updated = evidence_so_far.having(self._found.values())
            self._folder.write(name, json.dumps(updated.as_json()).encode())
            self._folder.prune(_FILES, seconds=_SECONDS)


def kept(
    session: Session, task: TaskStatus, environ: Mapping[str, str] = os.environ
) -> Evidence | None:
    """Return the evidence of deleted pods of a task; None without any."""
    stored = _read(_folder(environ), _file(session.server, task.namespace, task.id))
    if stored is None or not stored.of(task):
        return None
    lost = stored.gone(task)
    return lost if lost.deaths else None


def remembered(
    session: Session,
    namespace: str | None,
    wanted: str,
    environ: Mapping[str, str] = os.environ,
) -> Evidence | None:
    """Return the evidence of a deleted task by its id, name or prefix of the id.

    Of several, the newest task counts.
    """
    folder, text = _folder(environ), wanted.removeprefix("task/")
    records = [
        record
        for record in (_read(folder, name) for name in folder.names())
        if record and record.server == session.server and namespace in (None, record.namespace)
    ]
    records.sort(key=lambda record: record.created_at, reverse=True)
    matches = [record for record in records if text in (record.task_id, record.name)] or [
        record for record in records if text and record.task_id.startswith(text)
    ]
    return next(iter(matches), None)


def _folder(environ: Mapping[str, str]) -> Folder:
    return Folder(settings.cache_folder(environ), "evidence")


def _file(server: str, namespace: str, task_id: str) -> str:
    digest = hashlib.sha256(f"{server} {namespace}".encode()).hexdigest()
    return f"{task_id}-{digest[:12]}.json"


def _read(folder: Folder, name: str) -> Evidence | None:
    """Read an evidence file; None if it is invalid or unreadable."""
    try:
        return evidence.read(json.loads(folder.read(name, _LONGEST)))
    except (OSError, ValueError, RecursionError):
        return None
