"""Choose the kubeconfig context of a task, and list the tasks of all contexts."""

from collections.abc import Collection

from msgspec import Struct
from msgspec.structs import replace

from kubectl_sky.actions import identity
from kubectl_sky.cluster import kubeconfig, parallel
from kubectl_sky.cluster.connection import Connection
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import ClusterError, InvalidFiles, Problem
from kubectl_sky.observe.selection import Selection
from kubectl_sky.plan.placement import without_other_contexts
from kubectl_sky.spec import infra
from kubectl_sky.spec.document import Document, Path
from kubectl_sky.submitting.taskfile import TaskFile
from kubectl_sky.tasks import list as list_
from kubectl_sky.tasks.find import Scope
from kubectl_sky.tasks.list import Listing
from kubectl_sky.words import decisions


class ContextTasks(Struct, frozen=True):
    """The response of a context: its tasks, or an error."""

    context: str
    listing: Listing | None = None
    error: str = ""


def list_tasks(
    connection: Connection,
    user_flag: str | None,
    selection: Selection,
    all_users: bool,
    all_namespaces: bool,
) -> list[ContextTasks]:
    """List the tasks of each context; errors are reported per context.

    Without `user_flag`, they are those of the user's identity in each cluster. Raises ClusterError
    if there is no context.
    """

    def list_context(context: str) -> ContextTasks:
        try:
            session = Session.connect(replace(connection, context=context))
            user = None if all_users else identity.user(session, user_flag)
            namespace = None if all_namespaces else session.namespace
            listing = list_.list_tasks(session, Scope(namespace, user), selection)
        except ClusterError as error:
            return ContextTasks(context, error=str(error))
        session.close()
        return ContextTasks(context, listing)

    names = kubeconfig.contexts(connection).names
    if not names:
        raise ClusterError("the kubeconfig has no contexts", "name another with --kubeconfig")
    return parallel.map_parallel(list_context, names)


class _ContextField(Struct, frozen=True):
    """A context that a document names, and the path of the field."""

    context: str
    document: Document
    path: Path

    def problem(self, message: str, hint: str = "") -> Problem:
        return self.document.problem(self.path, message, hint)


def choose(task_file: TaskFile, connection: Connection) -> tuple[TaskFile, Connection]:
    """Limit the tasks and the connection to one context.

    If a file names several contexts, use the first one that exists in the kubeconfig and that all
    tasks allow. Raises InvalidFiles if there is none.
    """
    order = dict.fromkeys(option.context for task in task_file.tasks for option in task.candidates)
    if not any(order):
        return task_file, connection

    fields = [
        _ContextField(context, entry.document, path)
        for entry in task_file.entries
        for context, path in infra.contexts(entry.document).items()
    ]
    if connection.context:
        chosen: str | None = connection.context
        if connection.anonymous and not {chosen, None} & set(order):
            hint = "remove it, or submit the file with the plugin and your kubeconfig"
            raise InvalidFiles(
                [
                    entry.problem(f'this server does not reach context "{entry.context}"', hint)
                    for entry in fields
                ]
            )
        sources = _format_contexts(fields)
        remark = "" if chosen in order else f"--context {chosen} is used instead of {sources}"
    else:
        kubeconfig_contexts = kubeconfig.contexts(connection)
        chosen = _first_usable(task_file, order, fields, kubeconfig_contexts.names)
        is_default = chosen in (None, kubeconfig_contexts.current)
        source = _format_contexts([entry for entry in fields if entry.context == chosen][:1])
        note = f"context {source}; other commands find the task with --context {chosen}"
        remark = "" if is_default else note

    if chosen and not connection.context:
        named = [entry for entry in fields if entry.context == chosen]
        decisions.log_decision(f"context {chosen}", _format_contexts(named[:1]))
    remarks = (*task_file.remarks, remark) if remark else task_file.remarks
    entries = tuple(
        replace(entry, task=without_other_contexts(entry.task, chosen))
        for entry in task_file.entries
    )
    return replace(task_file, entries=entries, remarks=remarks), replace(connection, context=chosen)


def _first_usable(
    task_file: TaskFile,
    order: Collection[str | None],
    fields: list[_ContextField],
    names: Collection[str],
) -> str | None:
    """Return the first context of the kubeconfig that all tasks allow. Raises InvalidFiles."""
    existing = [context for context in order if context is None or context in names]
    by_task = [{candidate.context for candidate in task.candidates} for task in task_file.tasks]

    for context in existing:
        if all(not contexts.isdisjoint({context, None}) for contexts in by_task):
            return context
    if existing:
        text = "all tasks of a file must use one context"
        hint = "choose it with --context"
        raise InvalidFiles([entry.problem(text, hint) for entry in fields])

    hint = f"it has: {', '.join(names)}" if names else "it has none"
    raise InvalidFiles(
        [
            entry.problem(f'context "{entry.context}" not found in the kubeconfig', hint)
            for entry in fields
        ]
    )


def _format_contexts(fields: list[_ContextField]) -> str:
    """Format the contexts: `west of task.yaml:3:10`."""
    return " or ".join(f"{entry.context} of {entry.problem('').location}" for entry in fields)
