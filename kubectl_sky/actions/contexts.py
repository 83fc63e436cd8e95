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
class ContextTasks:
    """The response of a context: its tasks, or an error."""

    context: str
    tasks: tuple[TaskStatus, ...] = ()
    error: str = ""


@dataclass(frozen=True)
class TaskQuery:
    """The tasks to list; `user` None means the user's identity in each cluster."""

    user: str | None
    all_users: bool
    all_namespaces: bool


def list_tasks(connection: Connection, query: TaskQuery) -> list[ContextTasks]:
    """List the tasks of each context; errors are reported per context."""
    names = kubeconfig.contexts(connection).names
    with ThreadPoolExecutor(_WORKERS) as pool:
        return list(
            pool.map(lambda name: _list_context(replace(connection, context=name), query), names)
        )


def _list_context(connection: Connection, query: TaskQuery) -> ContextTasks:
    context = str(connection.context)
    try:
        session = Session.connect(connection)
        user = None if query.all_users else identity.user(session, query.user)
        namespace = None if query.all_namespaces else session.namespace
        statuses = find.list_tasks(session, find.Scope(namespace, user))
    except ClusterError as error:
        return ContextTasks(context, error=str(error))
    session.close()
    return ContextTasks(context, tuple(statuses))
