"""`compare`: read what differs between tasks or indexes of arrays, and the ends of their logs."""

import re
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress

from msgspec import Struct

from kubectl_sky.cluster import objects, parallel
from kubectl_sky.cluster.core import CoreManager
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import ClusterError, Forbidden, InvalidFiles, UserError
from kubectl_sky.observe import comparison
from kubectl_sky.observe.comparison import ComparedTask, Comparison, Fields
from kubectl_sky.observe.nodes import NodeStatus
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.observe.titles import titles
from kubectl_sky.spec.load import load as read_yaml
from kubectl_sky.tasks import describe, find
from kubectl_sky.tasks.choice import Choice, find_targets
from kubectl_sky.tasks.find import Scope
from kubectl_sky.words import age, kinds, names

_MAX = 200  # logs that are read
_LINES = 200  # at the end of a log, in which numbers are looked for
_INDEX = re.compile(r"(?P<task>.+):(?P<index>[0-9]{1,9})")


class _Subject(Struct, frozen=True):
    """A task, or one index of an array."""

    task: TaskStatus
    node: NodeStatus | None

    @property
    def nodes(self) -> Sequence[NodeStatus]:
        return [self.node] if self.node else self.task.nodes


def compare(session: Session, scope: Scope, choice: Choice) -> Comparison:
    """Compare the chosen tasks; `TASK:3` is an index of an array, an array alone all of them.

    Raises UserError unless there are at least two.
    """
    subjects = _find_subjects(session, scope, choice)
    if len(subjects) < 2:
        hint = _find_more(session, scope, subjects) or "name another TASK, or TASK:INDEX"
        raise UserError("compare needs two tasks or indexes", hint)
    if len(subjects) > _MAX:
        raise UserError(f"{len(subjects):,} tasks are too many to compare; the limit is {_MAX}")

    tasks = list({subject.task.id: subject.task for subject in subjects}.values())
    title_of = titles(tasks)
    read_files = parallel.map_parallel(lambda task: _read_file(session, task), tasks)
    files = {task.id: file for task, file in zip(tasks, read_files, strict=True)}
    labels = _read_node_labels(session)
    now = age.timestamp(session.now())

    def read(subject: _Subject) -> ComparedTask:
        task = subject.task
        node = subject.node
        title = title_of[task.id]
        index: int | None = None
        state = task.state
        shown = task.first_failure or (task.nodes[0] if task.nodes else None)
        if node:
            title = f"{title} {node.name}"
            index = node.index
            state = node.state
            shown = node
        exit_code = shown.exit_code if shown else None

        return ComparedTask(
            title=title,
            task_id=task.id,
            index=index,
            status=str(state),
            exit_code=exit_code,
            seconds=comparison.seconds(subject.nodes, now),
            fields=comparison.describe(task, node, files[task.id], labels),
            metrics=_read_metrics(session, task, shown),
        )

    return comparison.compare(parallel.map_parallel(read, subjects))


def _find_subjects(session: Session, scope: Scope, choice: Choice) -> list[_Subject]:
    if choice.is_filter:
        targets = find_targets(session, scope, choice)
        return [
            subject
            for target in targets
            for task in find.tasks_of(target)
            for subject in _subjects_of(task, None)
        ]

    subjects = []
    for reference in choice.references or (None,):
        match = _INDEX.fullmatch(reference or "")
        text = match["task"] if match else reference
        index = int(match["index"]) if match else None
        for target in find.get_targets(session, scope, [text]):
            for task in find.tasks_of(target):
                subjects += _subjects_of(task, index)
    return subjects


def _find_more(session: Session, scope: Scope, subjects: Sequence[_Subject]) -> str:
    """Return how to compare all tasks of the same name as the only one; empty without others."""
    if not subjects or subjects[0].node:
        return ""
    glob = f"{subjects[0].task.name}*"
    several = len(find.get_targets(session, scope, [glob])) > 1
    command = f"kubectl sky compare {shlex.quote(glob)}"
    return f"compare all tasks named {glob}: `{command}`" if several else ""


def _subjects_of(task: TaskStatus, index: int | None) -> list[_Subject]:
    """Return the task, or its index; of an array without one, all indexes."""
    if index is None and not task.workload.independent_nodes:
        return [_Subject(task, None)]
    nodes = [node for node in task.nodes if index in (None, node.index)]
    if not nodes:
        raise find.unknown_rank(task, index or 0)
    return [_Subject(task, node) for node in nodes]


def _read_file(session: Session, task: TaskStatus) -> Fields:
    """Return the fields of the file that the cluster keeps of a task; empty without a valid one."""
    text = describe.task_file(session, task)
    if not text:
        return {}
    try:  # others may have written it
        documents = read_yaml(text.encode(), f"<task/{task.id}>")
    except InvalidFiles:
        return {}
    return dict(comparison.flatten(documents[-1].data))


def _read_node_labels(session: Session) -> Mapping[str, Mapping[str, str]]:
    """Return the labels of the cluster nodes; empty without the right to list them."""
    with suppress(Forbidden):
        items = objects.list_metadata(session, kinds.NODE, None)
        return {item.metadata.name: item.metadata.labels for item in items}
    return {}


def _read_metrics(
    session: Session, task: TaskStatus, node: NodeStatus | None
) -> Mapping[str, float]:
    """Return the numbers at the end of a log; empty without one."""
    if node is None or not node.started:
        return {}
    with suppress(ClusterError):
        core = CoreManager(session)
        lines = core.last_lines(task.namespace, node.pod, names.CONTAINER, _LINES)
        return comparison.read_metrics(lines)
    return {}
