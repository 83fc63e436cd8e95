"""Words that complete a command line: tasks, volumes, queues and other names of the cluster."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from kubectl_sky.actions import find, identity, queues, volumes
from kubectl_sky.actions.find import Scope
from kubectl_sky.cluster import kubeconfig, objects
from kubectl_sky.cluster.connection import Connection
from kubectl_sky.cluster.session import Session
from kubectl_sky.words import kinds

Candidate = tuple[str, str]  # a word and its description


@dataclass(frozen=True)
class Request:
    """The flags of the command line that is completed."""

    connection: Connection
    user: str | None = None
    all_users: bool = False
    all_namespaces: bool = False

    def session(self) -> Session:
        """Connect to the cluster."""
        return Session.connect(self.connection)

    def scope(self, session: Session) -> Scope:
        """Return the namespace and owner that the command would search."""
        namespace = None if self.all_namespaces else session.namespace
        return Scope(namespace, None if self.all_users else identity.user(session, self.user))


def candidates(source: str, request: Request) -> Sequence[Candidate]:
    """Return the words of a source, such as `tasks`. Raises SkyError."""
    return list(dict(_SOURCES[source](request)).items())


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
        yield namespace["metadata"]["name"], ""


def _contexts(request: Request) -> Iterator[Candidate]:
    contexts = kubeconfig.contexts(request.connection)
    for name in contexts.names:
        yield name, "current" if name == contexts.current else ""


def _owners(request: Request) -> Iterator[Candidate]:
    session = request.session()
    namespace = None if request.all_namespaces else session.namespace
    count = Counter(task.user for task in find.list_tasks(session, Scope(namespace, None)))
    for user, number in count.items():
        yield user, f"{number} tasks" if number > 1 else "1 task"


_SOURCES: Mapping[str, Callable[[Request], Iterator[Candidate]]] = {
    "tasks": _tasks,
    "volumes": _volumes,
    "queues": _queues,
    "namespaces": _namespaces,
    "contexts": _contexts,
    "owners": _owners,
}
