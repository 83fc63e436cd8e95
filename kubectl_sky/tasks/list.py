"""`list`: the tasks of a scope, and why those that are pending do not start."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from itertools import chain

from msgspec import Struct
from msgspec.structs import replace

from kubectl_sky.cluster import parallel
from kubectl_sky.cluster.session import Session
from kubectl_sky.observe.ownership import TaskObjects
from kubectl_sky.observe.selection import Selection
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.tasks import evidence, find, hangs, history, pending
from kubectl_sky.tasks.find import Scope
from kubectl_sky.tasks.watch import TaskUpdate

_ALL = Selection()


class Listing(Struct, frozen=True):
    """The selected tasks in order, all tasks of the scope with their objects, and when: `now`.

    `notes` say which deleted tasks cannot be listed.
    """

    tasks: list[TaskStatus]
    everything: Sequence[TaskStatus]
    owned: Sequence[TaskObjects]
    now: datetime
    notes: Sequence[str] = ()


def list_tasks(
    session: Session,
    scope: Scope,
    selection: Selection = _ALL,
    silent_after: Callable[[], timedelta] = timedelta,
    *,
    deleted: bool = False,
) -> Listing:
    """List the tasks of a scope; also which of them are silent for long, if that is not 0.

    With `deleted`, list the finished ones whose objects are gone. Raises ClusterError.
    """
    if deleted:
        past = history.read(session, scope)
        now = session.now()
        return Listing(selection.select(past.tasks, now), past.tasks, (), now, past.notes)
    owned = find.list_objects(session, scope)
    everything = evidence.fold(session, owned)
    now = session.now()
    tasks = selection.select(everything, now)
    tasks = pending.explain_all(session, scope.namespace, tasks, everything)
    tasks = hangs.explain_silent(session, scope.namespace, tasks, silent_after)
    return Listing(tasks, everything, owned, now)


def list_in_namespaces(
    session: Session,
    scope: Scope,
    namespaces: Sequence[str],
    selection: Selection = _ALL,
    silent_after: Callable[[], timedelta] = timedelta,
) -> Listing:
    """List the tasks of several namespaces as one list. Raises ClusterError."""
    listings = parallel.map_parallel(
        lambda name: list_tasks(session, replace(scope, namespace=name), selection, silent_after),
        namespaces,
    )
    now = session.now()
    return Listing(
        selection.select(chain.from_iterable(listing.tasks for listing in listings), now),
        list(chain.from_iterable(listing.everything for listing in listings)),
        list(chain.from_iterable(listing.owned for listing in listings)),
        now,
    )


def select(update: TaskUpdate, selection: Selection, now: datetime) -> Listing:
    return Listing(selection.select(update.tasks, now), update.tasks, update.owned, now)
