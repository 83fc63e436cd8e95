"""`usage` and `list -o wide`: the GPU-hours of tasks."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from kubectl_sky.actions import evidence, find
from kubectl_sky.actions.find import Scope
from kubectl_sky.cluster import objects, shapes
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import Forbidden
from kubectl_sky.observe import gpu_hours, status
from kubectl_sky.observe.gpu_hours import Span
from kubectl_sky.observe.ownership import Ownership
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.words import kinds

Labels = Mapping[str, Mapping[str, str]]  # of cluster nodes, by name
Hours = Mapping[tuple[str, str], float]  # of tasks, by namespace and id


@dataclass(frozen=True)
class Counted:
    """The times in which pods held GPUs: of existing pods, and of recorded deleted ones."""

    pods: Sequence[Span]
    recorded: Sequence[Span]

    @property
    def spans(self) -> list[Span]:
        """All times."""
        return [*self.pods, *self.recorded]


def list_tasks(
    session: Session, scope: Scope, *, with_hours: bool
) -> tuple[list[TaskStatus], Hours]:
    """List the tasks in a scope, newest first, and the GPU-hours of their existing pods.

    Without `with_hours`, there are none, and the pods of completed tasks are not read.
    """
    if not with_hours:
        return find.list_tasks(session, scope), {}
    owned = find.list_owned(session, scope)
    return evidence.folded(session, owned).tasks, of_tasks(owned)


def of_tasks(owned: Ownership) -> Hours:
    """Return the GPU-hours of tasks until now; a task without GPUs has none."""
    hours: dict[tuple[str, str], float] = {}
    for span in _spans(owned, {}):
        key = (span.namespace, span.task_id)
        hours[key] = hours.get(key, 0) + span.hours()
    return hours


def counted(
    session: Session,
    scope: Scope,
    since: datetime,
    environ: Mapping[str, str] = os.environ,
) -> Counted:
    """Return the times after `since` of pods in a scope that exist or were recorded here."""
    owned = find.list_owned(session, scope)
    existing = {pod["metadata"]["name"] for task in owned.tasks for pod in task.all_pods}
    records = [
        record
        for record in evidence.of_scope(session, scope.namespace, environ)
        if scope.user is None or record.user == scope.user.name
    ]
    recorded = (span for record in records for span in gpu_hours.recorded_spans(record, existing))
    return Counted(
        [span for span in _spans(owned, _labels(session)) if span.end > since],
        [span for span in recorded if span.end > since],
    )


def _spans(owned: Ownership, cluster_nodes: Labels) -> Iterator[Span]:
    now = datetime.now(UTC)
    for task in owned.tasks:
        yield from gpu_hours.spans(status.of(task), task.all_pods, cluster_nodes, now)


def _labels(session: Session) -> Labels:
    """Return the labels of the cluster nodes; empty without permission to list them."""
    with suppress(Forbidden):
        items = objects.list_all(session, kinds.NODE, shape=shapes.METADATA_ONLY)
        return {item["metadata"]["name"]: item["metadata"].get("labels") or {} for item in items}
    return {}
