"""List the tasks of all contexts of a kubeconfig, in parallel."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from kubectl_sky.actions import find, identity
from kubectl_sky.cluster import kubeconfig
from kubectl_sky.cluster.connection import Connection
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import ClusterError
from kubectl_sky.observe.status import TaskStatus

_WORKERS = 16


@dataclass(frozen=True)
class Answer:
    """The response of a context: its tasks, or an error."""

    context: str
    tasks: tuple[TaskStatus, ...] = ()
    error: str = ""


@dataclass(frozen=True)
class Question:
    """The tasks to list; `user` None means the user's identity in each cluster."""

    user: str | None
    everybody: bool
    all_namespaces: bool


def tasks(connection: Connection, question: Question) -> list[Answer]:
    """List the tasks of each context; errors are reported per context."""
    names = kubeconfig.contexts(connection).names
    with ThreadPoolExecutor(_WORKERS) as pool:
        return list(pool.map(lambda name: _ask(replace(connection, context=name), question), names))


def _ask(connection: Connection, question: Question) -> Answer:
    context = str(connection.context)
    try:
        session = Session.connect(connection)
        user = None if question.everybody else identity.user(session, question.user)
        namespace = None if question.all_namespaces else session.namespace
        statuses = find.list_tasks(session, find.Scope(namespace, user))
    except ClusterError as error:
        return Answer(context, error=str(error))
    session.close()
    return Answer(context, tuple(statuses))
