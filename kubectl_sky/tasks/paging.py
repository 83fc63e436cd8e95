"""Read one page of the tasks, newest first.

The API server sorts objects by name only, so its own pages do not have the newest tasks first. A
page reads the metadata of all workloads, and in full only its own tasks and their pods.
"""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from kubectl_sky.cluster.session import Session
from kubectl_sky.observe import ownership
from kubectl_sky.observe.pipelines import PipelineStatus, pipelines
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.tasks import find
from kubectl_sky.tasks.find import Scope
from kubectl_sky.tasks.pending import explain_all
from kubectl_sky.words import names

Position = tuple[str, str, str]  # as TaskStatus.position


class Page(Struct, frozen=True):
    """Tasks, newest first, and the pipelines and groups that they are part of, in full.

    `last` is the position to continue from; None after the last page.
    """

    tasks: list[TaskStatus]
    pipelines: list[PipelineStatus]
    last: Position | None


def read(session: Session, scope: Scope, limit: int, before: Position | None) -> Page:
    """Return the first `limit` tasks of a scope that are older than `before`.

    There are fewer if some are deleted meanwhile.
    """
    if limit > find.MAX_LABEL_VALUES:  # a selector cannot name so many
        tasks = find.list_tasks(session, scope)
        chosen, last = cut((task.position() for task in tasks), limit, before)
    else:
        members = _members(session, scope)
        chosen, last = cut(members, limit, before)
        shared = {(members[key], key[2]) for key in chosen if members[key]}
        ids = {key[1] for key in chosen}
        ids |= {key[1] for key, pipeline in members.items() if (pipeline, key[2]) in shared}
        tasks = find.list_tasks(session, scope, find.Read(find.with_ids(ids))) if ids else []

    wanted = {position[1:] for position in chosen}
    page = [task for task in tasks if (task.id, task.namespace) in wanted]
    pipeline_ids = {task.member.id for task in page if task.member}
    groups = [pipeline for pipeline in pipelines(tasks) if pipeline.id in pipeline_ids]
    return Page(explain_all(session, scope.namespace, page), groups, last)


def read_several(
    session: Session, scopes: Sequence[Scope], limit: int, before: Position | None
) -> Page:
    """Return a page of the tasks of several scopes as one list."""
    pages = [read(session, scope, limit, before) for scope in scopes]
    tasks = {task.position(): task for page in pages for task in page.tasks}
    chosen, last = cut(tasks, limit, before)
    if chosen and any(page.last for page in pages):
        last = chosen[-1]

    shown = [tasks[position] for position in chosen]
    named = {(task.namespace, task.member.id) for task in shown if task.member}
    groups = [
        group for page in pages for group in page.pipelines if (group.namespace, group.id) in named
    ]
    return Page(shown, groups, last)


def _members(session: Session, scope: Scope) -> dict[Position, str]:
    """Return the positions of all tasks in a scope, with the id of their pipeline or group."""
    created: dict[ownership.Key, tuple[str, str]] = {}
    items = find.list_workload_metadata(session, scope.namespace, scope.selector)

    for item in scope.filter_owned(items):
        metadata = item.metadata
        pipeline = metadata.labels.get(names.PIPELINE, "")
        entry = (metadata.creation_timestamp, pipeline)
        key = ownership.key(item)
        created[key] = min(created.get(key, entry), entry)

    return {
        (time, task_id, namespace): pipeline
        for (namespace, task_id), (time, pipeline) in created.items()
        if task_id
    }


def cut(
    positions: Iterable[Position], limit: int, before: Position | None
) -> tuple[list[Position], Position | None]:
    """Return the newest positions before one, and the last of them if others follow."""
    older = [position for position in positions if before is None or position < before]
    older.sort(reverse=True)
    last = older[limit - 1] if len(older) > limit else None
    return older[:limit], last
