"""Find tasks and pipelines in the cluster by user, id, prefix of an id, or name."""

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from kubectl_sky import names
from kubectl_sky.actions import listing
from kubectl_sky.cluster.session import Json, Session
from kubectl_sky.errors import UserError
from kubectl_sky.observe import ownership, status
from kubectl_sky.observe.pipelines import PipelineStatus, pipelines
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.users import User

Target = TaskStatus | PipelineStatus


def _silent(text: str) -> None:
    """Nobody has asked for warnings."""


@dataclass(frozen=True)
class Scope:
    """Where to look: a namespace (None: all), and whose tasks (None: everybody's).

    `warn` hears of objects that only claim to belong to a task. `known` are the uids of objects
    that are the user's for sure.
    """

    namespace: str | None
    user: User | None
    warn: Callable[[str], object] = _silent
    known: Collection[str] = ()

    @property
    def labels(self) -> dict[str, str]:
        """The label that narrows a list to the user."""
        return {names.USERNAME: self.user.label} if self.user else {}

    def own(self, items: Iterable[Json]) -> list[Json]:
        """Return the objects in scope; labels alone cannot tell alike users apart."""
        return [item for item in items if self.user is None or self.user.owns(item["metadata"])]


@dataclass(frozen=True)
class _Place:
    """Which label has the id, and in which namespace."""

    label: str
    id: str
    namespace: str


def tasks(session: Session, scope: Scope) -> list[TaskStatus]:
    """Return the tasks of a scope, newest first, by one list a kind, all at once."""
    return _fold(session, scope, {names.TASK: "true"} | scope.labels)


def task(session: Session, scope: Scope, wanted: str) -> TaskStatus:
    """Return the one task that is meant. Raises UserError when none or several could be."""
    found = one(session, scope, wanted)
    if isinstance(found, TaskStatus):
        return found
    ids = ", ".join(f"{task.id} ({task.name})" for task in found.tasks)
    raise UserError(f"{found.word} {found.id} has several tasks: {ids}", "name one of them")


def one(session: Session, scope: Scope, wanted: str) -> Target:
    """Return the task, pipeline or group that is meant. Raises UserError when it is not clear."""
    return targets(session, scope, [wanted])[0]


def targets(session: Session, scope: Scope, wanted: Sequence[str]) -> list[Target]:
    """Return what is meant, in order and once each."""
    found = [
        _identify(session, scope, re.sub("^(task|pipeline|group)/", "", text)) for text in wanted
    ]
    return [_seen(session, scope, place) for place in dict.fromkeys(found)]


def many(session: Session, scope: Scope, wanted: Sequence[str]) -> list[TaskStatus]:
    """Return the tasks that are meant, in order and once each; those of pipelines among them."""
    found = targets(session, scope, wanted)
    tasks = [task for each in found for task in tasks_of(each)]
    return list({(task.namespace, task.id): task for task in tasks}.values())


def tasks_of(target: Target) -> Sequence[TaskStatus]:
    """Return a task as the only one, or the tasks of a pipeline."""
    return [target] if isinstance(target, TaskStatus) else target.tasks


def again(session: Session, seen: TaskStatus) -> TaskStatus | None:
    """Return a task as it is now; None when it has gone."""
    labels = {names.TASK: "true", names.TASK_ID: seen.id}
    scope = Scope(seen.namespace, None, known=frozenset(seen.uids.values()))
    return next(iter(decided(_fold(session, scope, labels))), None)


def labelled(
    session: Session, namespace: str, label: str, value: str, known: Collection[str] = ()
) -> list[TaskStatus]:
    """Return the tasks with a label as they are now; `known` are the uids of their objects."""
    scope = Scope(namespace, None, known=known)
    folded = _fold(session, scope, {names.TASK: "true", label: value})
    if label == names.PIPELINE:
        folded = [task for whole in pipelines(folded, known) for task in whole.tasks]
    return decided(folded)


def decided(tasks: list[TaskStatus]) -> list[TaskStatus]:
    """Return the tasks. Raises UserError where nothing tells which objects are the user's."""
    for task in tasks:
        if task.rivals:
            raise UserError(
                f"task {task.id} is claimed by objects that were created in the same second:"
                f" {', '.join(task.rivals)}",
                "delete those that are not yours: kubectl delete",
            )
    return tasks


def _seen(session: Session, scope: Scope, place: _Place) -> Target:
    labels = {names.TASK: "true", place.label: place.id}
    folded = _fold(session, replace(scope, namespace=place.namespace), labels)
    targets: Sequence[Target] = folded
    if place.label == names.PIPELINE:
        wholes = targets = pipelines(folded, scope.known)
        members = {task.id for whole in wholes for task in whole.tasks}
        for task in folded if wholes else ():
            if task.id not in members:
                scope.warn(f"task {task.id} is ignored: it is not part of {place.id}")
    if not targets:
        raise _missing(place.id, scope)
    decided(list(tasks_of(targets[0])))
    return targets[0]


def _fold(session: Session, scope: Scope, labels: dict[str, str]) -> list[TaskStatus]:
    folded = _folded(session, scope, *_parts(session, scope, labels))
    for text in folded.ignored:
        scope.warn(text)
    return folded.tasks


def _folded(
    session: Session, scope: Scope, items: Sequence[Json], pods: Sequence[Json]
) -> status.Folded:
    jobs = listing.makers(session, scope.namespace, items, pods)
    return status.folded(ownership.decide(items, pods, jobs, scope.known))


def _parts(session: Session, scope: Scope, labels: dict[str, str]) -> tuple[list[Json], list[Json]]:
    """Return what runs tasks, and pods, of those in scope."""
    items, pods = listing.parts(session, scope.namespace, _selector(labels))
    return scope.own(items), scope.own(pods)


def _selector(labels: dict[str, str]) -> str:
    return ",".join(f"{key}={value}" for key, value in labels.items())


def _identify(session: Session, scope: Scope, text: str) -> _Place:
    """Return what a user means by an id, its beginning, or a name; tasks come before pipelines."""
    for label in (names.TASK_ID, names.PIPELINE) if names.ID.fullmatch(text) else ():
        found = listing.workloads(session, scope.namespace, f"{label}={text}")
        if found:
            return _own(scope, _Place(label, text, ""), found)
    selector = _selector({names.TASK: "true"} | scope.labels)
    tasks = status.tasks(scope.own(listing.workloads(session, scope.namespace, selector)), [])
    known: list[Target] = [*tasks, *pipelines(tasks)]
    matching = [t for t in known if t.name == text] or [t for t in known if t.id.startswith(text)]
    if not matching:
        raise _missing(text, scope)
    if len(matching) > 1:
        ids = ", ".join(found.id for found in matching[:8]) + (" …" if matching[8:] else "")
        raise UserError(f"{text!r} may be any of {len(matching)} tasks: {ids}", "give a whole id")
    meant = matching[0]
    label = names.TASK_ID if isinstance(meant, TaskStatus) else names.PIPELINE
    return _Place(label, meant.id, meant.namespace)


def _own(scope: Scope, place: _Place, found: Sequence[Json]) -> _Place:
    own = scope.own(found)
    namespaces = sorted({item["metadata"]["namespace"] for item in own})
    if len(namespaces) > 1:
        raise UserError(
            f"task {place.id} exists in the namespaces {', '.join(namespaces[:8])}",
            "choose one of them with --namespace",
        )
    if not own:
        owner = status.tasks(found, [])[0].user
        raise UserError(
            f"task {place.id} belongs to {owner}", "add --all-users to mean other users' too"
        )
    return replace(place, namespace=own[0]["metadata"]["namespace"])


def _missing(text: str, scope: Scope) -> UserError:
    where = f"in namespace {scope.namespace}" if scope.namespace else "in any namespace"
    whose = f" of {scope.user.name}" if scope.user else ""
    return UserError(
        f"there is no task {text!r}{whose} {where}", "`kubectl sky list` shows those there are"
    )
