"""The tasks of every context of a kubeconfig, all asked at once."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from kubectl_sky.actions import find, who
from kubectl_sky.cluster import kubeconfig
from kubectl_sky.cluster.connection import Connection
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import ClusterError
from kubectl_sky.observe.status import TaskStatus

_WORKERS = 16


@dataclass(frozen=True)
class Answer:
    """What a context said: its tasks, or why there is no answer."""

    context: str
    tasks: tuple[TaskStatus, ...] = ()
    error: str = ""


@dataclass(frozen=True)
class Question:
    """Whose tasks are asked for; `user` is None for the one that each cluster knows."""

    user: str | None
    everybody: bool
    all_namespaces: bool


def tasks(connection: Connection, question: Question) -> list[Answer]:
    """Ask each context; one that does not answer keeps no other from it."""
    names = kubeconfig.contexts(connection).names
    with ThreadPoolExecutor(_WORKERS) as pool:
        return list(pool.map(lambda name: _ask(replace(connection, context=name), question), names))


def _ask(connection: Connection, question: Question) -> Answer:
    context = str(connection.context)
    try:
        session = Session.connect(connection)
        user = None if question.everybody else who.user(session, question.user)
        namespace = None if question.all_namespaces else session.namespace
        found = find.tasks(session, find.Scope(namespace, user))
    except ClusterError as error:
        return Answer(context, error=str(error))
    session.close()
    return Answer(context, tuple(found))
