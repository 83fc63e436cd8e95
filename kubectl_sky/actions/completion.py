"""Complete a command line with names of the cluster; write the script that kubectl starts for it.

Python packages bring the script. krew links one program per plugin only, so it is written to PATH.
"""

import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from kubectl_sky.actions import identity, queues, volumes
from kubectl_sky.cluster import kubeconfig, objects
from kubectl_sky.cluster.connection import Connection
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import UserError
from kubectl_sky.tasks import find
from kubectl_sky.tasks.find import Scope
from kubectl_sky.words import kinds, private

Candidate = tuple[str, str]  # a word and its description


class Request(Struct, frozen=True):
    """The flags of the command line that is completed."""

    connection: Connection
    user: str | None = None
    all_users: bool = False
    all_namespaces: bool = False

    def session(self) -> Session:
        return Session.connect(self.connection)

    def scope(self, session: Session) -> Scope:
        """Return the namespace and owner that the command would search."""
        namespace = None if self.all_namespaces else session.namespace
        user = None if self.all_users else identity.user(session, self.user)
        return Scope(namespace, user)


def candidates(source: str, request: Request) -> Sequence[Candidate]:
    """Return the words of a source, such as `tasks`. Raises SkyError."""
    return list(dict(SOURCES[source](request)).items())


def _tasks(request: Request) -> Iterator[Candidate]:
    """Yield the names of tasks, then their ids, newest first.

    A name that several tasks have means the newest one.
    """
    session = request.session()
    tasks = find.list_tasks(session, request.scope(session))
    count = Counter(task.name for task in tasks)
    newest = {task.name: task for task in reversed(tasks)}
    for name, task in reversed(newest.items()):
        suffix = f", newest of {count[name]}" if count[name] > 1 else ""
        yield name, f"{task.state}{suffix}"
    for task in tasks:
        yield task.id, f"{task.name}, {task.state}"


def _volumes(request: Request) -> Iterator[Candidate]:
    session = request.session()
    statuses = volumes.list_volumes(session, request.scope(session))
    for volume in statuses:
        yield volume.name, f"{volume.size}, {volume.phase}"
    for volume in statuses:
        yield volume.id, f"{volume.name}, {volume.phase}"


def _queues(request: Request) -> Iterator[Candidate]:
    for queue in queues.list_queues(request.session()):
        yield queue.name, f"{queue.admitted} admitted, {queue.pending} pending"


def _namespaces(request: Request) -> Iterator[Candidate]:
    for namespace in objects.list_all(request.session(), kinds.NAMESPACE):
        yield namespace.metadata.name, ""


def _contexts(request: Request) -> Iterator[Candidate]:
    contexts = kubeconfig.contexts(request.connection)
    for name in contexts.names:
        note = "current" if name == contexts.current else ""
        yield name, note


def _owners(request: Request) -> Iterator[Candidate]:
    session = request.session()
    namespace = None if request.all_namespaces else session.namespace
    count = Counter(task.user for task in find.list_tasks(session, Scope(namespace, None)))
    for user, number in count.items():
        note = f"{number} tasks" if number > 1 else "1 task"
        yield user, note


SOURCES: Mapping[str, Callable[[Request], Iterator[Candidate]]] = {
    "tasks": _tasks,
    "volumes": _volumes,
    "queues": _queues,
    "namespaces": _namespaces,
    "contexts": _contexts,
    "owners": _owners,
}


NAME = "kubectl_complete-sky"
PROGRAM = "kubectl-sky"
_MARK = "# Written by `kubectl sky completion install`."
SCRIPT = f"""\
#!/bin/sh
{_MARK}
exec {PROGRAM} __complete "$@"
"""


def install(folder: str | None, environ: Mapping[str, str]) -> tuple[Path, bool]:
    """Write the script; return its path, and False if kubectl has a script already.

    Raises UserError if no folder of PATH can be written to.
    """
    existing = shutil.which(NAME, path=environ.get("PATH", ""))
    if existing and not folder:
        return Path(existing), False
    path = (Path(folder) if folder else _writable_folder(environ)) / NAME
    if path.exists() and not _is_ours(path):
        raise UserError(f"{path} already exists", "choose another folder of PATH with --dir")
    try:
        private.replace(path, SCRIPT.encode(), 0o777)
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {(error.strerror or '').lower()}") from None
    return path, True


def uninstall(environ: Mapping[str, str]) -> Path:
    """Remove the script from PATH and return its path. Raises UserError if it is not there."""
    for folder in _folders(environ):
        path = folder / NAME
        if _is_ours(path):
            try:
                path.unlink()
            except OSError as error:
                reason = (error.strerror or "").lower()
                raise UserError(f"{path}: cannot be deleted: {reason}") from None
            return path
    existing = shutil.which(NAME, path=environ.get("PATH", ""))
    if existing:
        raise UserError(f"{existing} belongs to the Python package", "uninstall it with pip")
    raise UserError(f"{NAME} not found on PATH")


def _folders(environ: Mapping[str, str]) -> Iterator[Path]:
    """Yield the folders of PATH; relative ones depend on the working directory."""
    for name in environ.get("PATH", "").split(os.pathsep):
        if Path(name).is_absolute():
            yield Path(name)


def _writable_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder of the plugin, or else the first folder of PATH in the user's home."""
    program = shutil.which(PROGRAM, path=environ.get("PATH", ""))
    home = Path(environ.get("HOME") or "/nonexistent")
    candidates = [Path(program).parent] if program else []
    candidates += [folder for folder in _folders(environ) if folder.is_relative_to(home)]
    for folder in candidates:
        if folder.is_dir() and os.access(folder, os.W_OK):
            return folder
    raise UserError("no folder of PATH is writable", "choose one with --dir")


def _is_ours(path: Path) -> bool:
    try:
        return _MARK in path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
