"""Find tasks in the cluster by user, id, prefix of an id, or name."""

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from kubectl_sky import kinds, names
from kubectl_sky.cluster import objects
from kubectl_sky.cluster.session import Json, Session
from kubectl_sky.errors import UserError
from kubectl_sky.observe import status
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.users import User


@dataclass(frozen=True)
class Scope:
    """Where to look: a namespace (None: all), and whose tasks (None: everybody's)."""

    namespace: str | None
    user: User | None

    @property
    def labels(self) -> dict[str, str]:
        """The label that narrows a list to the user."""
        return {names.USERNAME: self.user.label} if self.user else {}

    def own(self, items: Iterable[Json]) -> list[Json]:
        """Return the objects in scope; labels alone cannot tell alike users apart."""
        return [item for item in items if self.user is None or self.user.owns(item["metadata"])]


def tasks(session: Session, scope: Scope) -> list[TaskStatus]:
    """Return the tasks of a scope, newest first, by two lists at once."""
    return _fold(session, scope, {names.TASK: "true"} | scope.labels)


def task(session: Session, scope: Scope, wanted: str) -> TaskStatus:
    """Return the one task that is meant. Raises UserError when none or several could be."""
    return many(session, scope, [wanted])[0]


def many(session: Session, scope: Scope, wanted: Sequence[str]) -> list[TaskStatus]:
    """Return the tasks that are meant, in order and once each."""
    found = [_identify(session, scope, text.removeprefix("task/")) for text in wanted]
    return [_seen(session, scope, *place) for place in dict.fromkeys(found)]


def again(session: Session, seen: TaskStatus) -> TaskStatus | None:
    """Return a task as it is now; None when it has gone."""
    labels = {names.TASK: "true", names.TASK_ID: seen.id}
    return next(iter(_fold(session, Scope(seen.namespace, None), labels)), None)


def _seen(session: Session, scope: Scope, task_id: str, namespace: str) -> TaskStatus:
    labels = {names.TASK: "true", names.TASK_ID: task_id}
    folded = _fold(session, Scope(namespace, scope.user), labels)
    if not folded:
        raise _missing(task_id, scope)
    return folded[0]


def _fold(session: Session, scope: Scope, labels: dict[str, str]) -> list[TaskStatus]:
    """List Jobs and pods side by side and fold them."""
    selector = ",".join(f"{key}={value}" for key, value in labels.items())
    with ThreadPoolExecutor(2) as pool:
        jobs, pods = pool.map(
            lambda kind: objects.list_all(session, kind, scope.namespace, label_selector=selector),
            (kinds.JOB, kinds.POD),
        )
    return status.tasks(scope.own(jobs), scope.own(pods))


def _identify(session: Session, scope: Scope, text: str) -> tuple[str, str]:
    """Return id and namespace of the task that a user means by an id, its beginning, or a name."""
    if names.ID.fullmatch(text):
        jobs = objects.list_all(
            session, kinds.JOB, scope.namespace, label_selector=f"{names.TASK_ID}={text}"
        )
        if jobs:
            return _own(scope, text, jobs)
    selector = ",".join(f"{k}={v}" for k, v in ({names.TASK: "true"} | scope.labels).items())
    jobs = objects.list_all(session, kinds.JOB, scope.namespace, label_selector=selector)
    known = status.tasks(scope.own(jobs), [])
    matching = [t for t in known if t.name == text] or [t for t in known if t.id.startswith(text)]
    if not matching:
        raise _missing(text, scope)
    if len(matching) > 1:
        ids = ", ".join(found.id for found in matching[:8]) + (" …" if matching[8:] else "")
        raise UserError(f"{text!r} may be any of {len(matching)} tasks: {ids}", "give a whole id")
    return matching[0].id, matching[0].namespace


def _own(scope: Scope, task_id: str, jobs: Sequence[Json]) -> tuple[str, str]:
    own = scope.own(jobs)
    if not own:
        owner = status.tasks(jobs, [])[0].user
        raise UserError(
            f"task {task_id} belongs to {owner}", "add --all-users to mean other users' too"
        )
    return task_id, own[0]["metadata"]["namespace"]


def _missing(text: str, scope: Scope) -> UserError:
    where = f"in namespace {scope.namespace}" if scope.namespace else "in any namespace"
    whose = f" of {scope.user.name}" if scope.user else ""
    return UserError(
        f"there is no task {text!r}{whose} {where}", "`kubectl sky list` shows those there are"
    )
