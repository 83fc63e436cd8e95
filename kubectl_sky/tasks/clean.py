"""`stop --leftovers`: delete what interrupted submits left, and tasks that finished long ago."""

from datetime import datetime, timedelta

from msgspec import Struct

from kubectl_sky.cluster.session import Session
from kubectl_sky.observe.pipelines import list_finished_before
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.tasks import find, multikueue, stop
from kubectl_sky.tasks.find import Scope
from kubectl_sky.tasks.stop import Auxiliary
from kubectl_sky.words import age
from kubectl_sky.words.kinds import Kind

MIN_AGE = timedelta(minutes=10)  # of orphans: younger ones may belong to a running submit


class Leftovers(Struct, frozen=True):
    """Objects without a task, with the session of their cluster, and finished tasks, at `now`.

    `young` is how many orphans are kept. `unread` are the kinds that the user may not list.
    """

    orphans: list[tuple[Session, Auxiliary]]
    finished: list[TaskStatus]
    young: int
    unread: tuple[Kind, ...]
    now: datetime


def find_leftovers(session: Session, scope: Scope, older_than: timedelta | None) -> Leftovers:
    """Find orphans that are `older_than` a time, and tasks that finished longer ago.

    Without a time, there are no tasks. Times are truncated to seconds: with 0 seconds, what was
    created in this second counts.
    """
    items, unread = stop.list_orphans(session, scope)
    now = session.now()
    found = [(session, item) for item in items] + multikueue.list_orphans(session, scope)
    limit = age.timestamp(now - (MIN_AGE if older_than is None else older_than))
    orphans = [entry for entry in found if entry[1].metadata.creation_timestamp <= limit]
    young = len(found) - len(orphans) if older_than is None else 0
    finished = [] if older_than is None else list_finished(session, scope, older_than)
    return Leftovers(orphans, finished, young, unread, now)


def list_finished(session: Session, scope: Scope, older_than: timedelta) -> list[TaskStatus]:
    """List the tasks that finished longer ago; those of a pipeline only with all others."""
    tasks = find.list_tasks(session, scope, find.Read(pods=False))
    limit = age.timestamp(session.now() - older_than)  # the answer tells the server's time
    return list_finished_before(tasks, limit)


def delete(session: Session, leftovers: Leftovers) -> None:
    """Delete the orphans, unless a task has started to use them meanwhile, and the tasks."""
    stop.delete_orphans(leftovers.orphans)
    stop.stop(session, leftovers.finished)
