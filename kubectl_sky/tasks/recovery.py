"""Start nodes again that their cluster node keeps from running, as whoever leads a task does."""

from collections.abc import Callable
from datetime import timedelta
from time import monotonic

from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import Forbidden
from kubectl_sky.observe.deletion import repair
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.tasks.lost_pods import describe_replaced, list_lost, replace_lost_pods
from kubectl_sky.tasks.rejected_pods import list_rejected, move_rejected

_LATER = 5.0  # seconds until a task is looked at again
_STEP = 1.0  # seconds until a Job that is being moved is looked at again


def needs_recovery(task: TaskStatus) -> bool:
    return bool(list_lost(task) or list_rejected(task))


def recover(
    session: Session, task: TaskStatus, node_lost_after: timedelta | None
) -> tuple[list[str], float | None]:
    """Do what is due for the nodes of a task; lost pods are left without a time.

    Return what was done, in lines, and in how many seconds to look again. Raises Forbidden.
    """
    texts, goes_on = move_rejected(session, task)
    seconds = _STEP if goes_on else None
    if node_lost_after is not None and list_lost(task):
        replaced, later = replace_lost_pods(session, task, node_lost_after)
        texts += describe_replaced(replaced)
        seconds = min(filter(None, (seconds, later)), default=None)
    return texts, seconds


class Recovery:
    """Recover the nodes of a task while a client leads; note what was done, a missing right once.

    Lost pods are left if `node_lost_after` is None.
    """

    def __init__(
        self,
        session: Session,
        leads: Callable[[], bool],
        note: Callable[[str], None],
        node_lost_after: timedelta | None,
    ) -> None:
        self._session = session
        self._leads = leads
        self._note = note
        self._node_lost_after = node_lost_after
        self._is_forbidden = False
        self._next_look = 0.0

    def __call__(self, task: TaskStatus) -> None:
        """Do what is due; called often, it looks every few seconds."""
        if self._is_forbidden or monotonic() < self._next_look:
            return
        if not needs_recovery(task) or not self._leads():
            return
        try:
            texts, seconds = recover(self._session, task, self._node_lost_after)
        except Forbidden as error:
            self._is_forbidden = True
            self._note(f"{task.name}: {error.what}; {_advise(task)}")
            return
        self._next_look = monotonic() + min(seconds or _LATER, _LATER)
        for text in texts:
            self._note(f"{task.name}: {text}")


def _advise(task: TaskStatus) -> str:
    """Return what to do for a node that may not be recovered."""
    if lost := list_lost(task):
        return repair(lost[0].host)
    node = list_rejected(task)[0]
    return f"submit it again with --exclude-node {node.leaving or node.rejected_by}"
