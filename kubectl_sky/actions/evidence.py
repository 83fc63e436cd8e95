"""What dead nodes leave, kept in the user's cache for when their pods and logs are gone."""

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

_FILES = 100  # tasks of which something is kept
_SECONDS = 14 * 86_400  # that it is kept
_LONGEST = 8_000_000  # bytes of a file that is read


class Keeper:
    """Watches one task for pods that fail, and keeps each as soon as it is seen."""

    def __init__(self, session: Session, environ: Mapping[str, str] = os.environ) -> None:
        self._session = session
        self._folder = _folder(environ)
        self._found: dict[str, Death] = {}
        self._written = 0
        self._silent: set[str] = set()  # machines that have let us wait for a log

    def see(self, task: TaskStatus, pods: Iterable[Mapping[str, Any]]) -> None:
        """Look at a task and its pods; of the first that failed the logs are read."""
        for death in evidence.deaths(task, pods):
            if death.pod not in self._found:
                early = len(self._found) < LOGS
                self._found[death.pod] = self._with_lines(task, death) if early else death
        if len(self._found) > self._written and (len(self._found) <= LOGS or task.over):
            self._write(task)

    def _with_lines(self, task: TaskStatus, death: Death) -> Death:
        """Return it with its lines; how the pod ended is known without them."""
        if death.host in self._silent:
            return death
        core = CoreManager(self._session)
        try:
            lines = core.last_lines(task.namespace, death.pod, names.CONTAINER, LINES)
        except Unreachable:  # the API server, or the machine behind it is lost
            self._silent.add(death.host)
            return death
        except ClusterError:  # it is gone, or never began
            return death
        return death.having(lines)

    def _write(self, task: TaskStatus) -> None:
        """Add what was found to what is known; where nothing can be written, nothing is kept."""
        self._written = len(self._found)
        name = _file(self._session.server, task.namespace, task.id)
        known = _read(self._folder, name)
        if known is None or not known.of(task):
            known = Evidence(
                task.id, task.name, task.namespace, self._session.server, task.created_at
            )
        with suppress(OSError):
            found = known.having(self._found.values())
            self._folder.write(name, json.dumps(found.as_json()).encode())
            self._folder.prune(_FILES, seconds=_SECONDS)


def kept(
    session: Session, task: TaskStatus, environ: Mapping[str, str] = os.environ
) -> Evidence | None:
    """Return what is known of a task's pods that the cluster no longer has; None without any."""
    found = _read(_folder(environ), _file(session.server, task.namespace, task.id))
    if found is None or not found.of(task):
        return None
    gone = found.gone(task)
    return gone if gone.deaths else None


def remembered(
    session: Session,
    namespace: str | None,
    wanted: str,
    environ: Mapping[str, str] = os.environ,
) -> Evidence | None:
    """Return what is known of a task that has gone as a whole, by its id."""
    task_id = wanted.removeprefix("task/")
    if not names.ID.fullmatch(task_id):
        return None
    folder = _folder(environ)
    for name in folder.names():
        if not name.startswith(f"{task_id}-"):
            continue
        found = _read(folder, name)
        if found and found.server == session.server and namespace in (None, found.namespace):
            return found
    return None


def _folder(environ: Mapping[str, str]) -> Folder:
    return Folder(settings.cache_folder(environ), "evidence")


def _file(server: str, namespace: str, task_id: str) -> str:
    digest = hashlib.sha256(f"{server} {namespace}".encode()).hexdigest()
    return f"{task_id}-{digest[:12]}.json"


def _read(folder: Folder, name: str) -> Evidence | None:
    """Return what a file holds; None where it is none of ours, or cannot be read."""
    try:
        return evidence.read(json.loads(folder.read(name, _LONGEST)))
    except (OSError, ValueError, RecursionError):
        return None
