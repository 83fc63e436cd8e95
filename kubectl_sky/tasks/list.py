"""`list`: the tasks of a scope, and why those that are pending do not start."""

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from kubectl_sky.cluster.session import Session
from kubectl_sky.observe.ownership import TaskObjects
from kubectl_sky.observe.selection import Selection
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.tasks import evidence, find, pending
from kubectl_sky.tasks.find import Scope
from kubectl_sky.tasks.watch import TaskUpdate

_ALL = Selection()


class Listing(Struct, frozen=True):
    """The selected tasks in order, all tasks of the scope with their objects, and when: `now`."""

    tasks: list[TaskStatus]
    everything: Sequence[TaskStatus]
    owned: Sequence[TaskObjects]
    now: datetime


def list_tasks(session: Session, scope: Scope, selection: Selection = _ALL) -> Listing:
    """List the tasks of a scope. Raises ClusterError."""
    owned = find.list_objects(session, scope)
    everything, now = evidence.fold(session, owned), session.now()
    tasks = selection.select(everything, now)
    return Listing(pending.explain_all(session, scope.namespace, tasks), everything, owned, now)


def select(update: TaskUpdate, selection: Selection, now: datetime) -> Listing:
    return Listing(selection.select(update.tasks, now), update.tasks, update.owned, now)
