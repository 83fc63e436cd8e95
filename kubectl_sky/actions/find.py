"""Find tasks and pipelines in the cluster by user, id, prefix of an id, or name."""

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from kubectl_sky import kinds, names
from kubectl_sky.cluster import absent, access, objects
from kubectl_sky.cluster.session import Json, Session
from kubectl_sky.errors import Forbidden, NotServed, UserError
from kubectl_sky.kinds import Kind
from kubectl_sky.observe import needed, status
from kubectl_sky.observe.nodes import RETRYING, NodeStatus, State
from kubectl_sky.observe.pipelines import PipelineStatus, pipelines
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.users import User
from kubectl_sky.values import dataclass, replace
from kubectl_sky.workloads import registry

Target = TaskStatus | PipelineStatus

_NAMED = 100  # tasks that a selector names


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


@dataclass(frozen=True)
class _Place:
    """Which label has the id, and in which namespace."""

    label: str
    id: str
    namespace: str


def tasks(session: Session, scope: Scope) -> list[TaskStatus]:
    """Return the tasks of a scope, newest first, by one list a kind, all at once."""
    return _fold(session, scope, {names.TASK: "true"} | scope.labels)


def brief(session: Session, scope: Scope) -> list[TaskStatus]:
    """Return the same tasks, where nodes that are over lack the pods that have succeeded.

    These are most of what there is after a while, and no line for a task tells of them.
    """
    labels = {names.TASK: "true"} | scope.labels
    items, pods = _parts(session, scope, labels, "status.phase!=Succeeded")
    found = status.tasks(items, pods)
    unsure = {task.id for task in found if any(map(_unsure, task.nodes))}
    if not unsure:
        return found
    few = f",{names.TASK_ID} in ({','.join(sorted(unsure))})" if len(unsure) <= _NAMED else ""
    selector, fields = _selector(labels) + few, "status.phase=Succeeded"
    listed = _lists(session, [kinds.POD], scope.namespace, selector, needed.shape, fields)
    since = {pod["metadata"]["uid"]: pod for pod in [*pods, *scope.own(listed[0])]}
    again = status.tasks(_of(unsure, items), _of(unsure, since.values()))
    return status.newest([*(task for task in found if task.id not in unsure), *again])


def _unsure(node: NodeStatus) -> bool:
    """Say whether a node may have a pod that has succeeded, of which its object says nothing."""
    if node.state.ended:
        return False
    alive = node.pod and node.exit_code is None and node.reason != RETRYING
    return not alive or (node.state is State.RUNNING and not node.started_at)


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
    return next(iter(_fold(session, Scope(seen.namespace, None), labels)), None)


def labelled(session: Session, namespace: str, label: str, value: str) -> list[TaskStatus]:
    """Return the tasks with a label as they are now."""
    return _fold(session, Scope(namespace, None), {names.TASK: "true", label: value})


def _seen(session: Session, scope: Scope, place: _Place) -> Target:
    labels = {names.TASK: "true", place.label: place.id}
    folded = _fold(session, Scope(place.namespace, scope.user), labels)
    if not folded:
        raise _missing(place.id, scope)
    return pipelines(folded)[0] if place.label == names.PIPELINE else folded[0]


def workloads(session: Session, namespace: str | None, selector: str) -> list[Json]:
    """List the objects that run tasks, whatever backend made them, one request a kind."""
    lists = _lists(session, registry.KINDS, namespace, selector)
    return [item for items in lists for item in items if registry.top(item)]


def served(session: Session) -> list[Kind]:
    """Return the kinds of which a task may be on this cluster."""
    return [
        kind
        for kind, requires in registry.KINDS.items()
        if not requires or access.serves(session, kind)
    ]


def _lists(
    session: Session,
    wanted: Iterable[Kind],
    namespace: str | None,
    selector: str,
    shapes: Callable[[Kind], type | None] = lambda kind: None,
    pod_fields: str = "",
) -> list[list[Json]]:
    """List several kinds side by side, of pods those that a field selector is for.

    Where a kind has to be installed first and is not, or is not for this user, there are none.
    """

    def listed(kind: Kind) -> list[Json]:
        brought = bool(registry.KINDS.get(kind))
        try:
            found = objects.list_all(
                session,
                kind,
                namespace,
                label_selector=selector,
                field_selector=pod_fields if kind is kinds.POD else "",
                shape=shapes(kind),
            )
        except (NotServed, Forbidden) as error:
            if not brought:
                raise
            if isinstance(error, NotServed):
                absent.note(session.server, kind)
            return []
        if brought:
            absent.forget(session.server, kind)
        return found

    each = list(wanted)
    with ThreadPoolExecutor(len(each)) as pool:
        return list(pool.map(listed, each))


def _fold(session: Session, scope: Scope, labels: dict[str, str]) -> list[TaskStatus]:
    return status.tasks(*_parts(session, scope, labels))


def _parts(
    session: Session, scope: Scope, labels: dict[str, str], pod_fields: str = ""
) -> tuple[list[Json], list[Json]]:
    """List workloads and pods side by side.

    Kinds that were absent a short while ago are listed only where there are pods that nothing else
    made; where not all pods are listed, where the cluster says that it has them now.
    """
    skipped = [kind for kind in registry.KINDS if absent.noted(session.server, kind)]
    wanted = [kind for kind in registry.KINDS if kind not in skipped]
    where = (scope.namespace, _selector(labels), needed.shape)
    with ThreadPoolExecutor(1) as pool:
        installed = pool.submit(_installed, session, skipped) if skipped and pod_fields else None
        *found, pods = _lists(session, (*wanted, kinds.POD), *where, pod_fields)
    again: list[Kind] = []
    if installed:
        again = installed.result()
    elif skipped and _ids(pods) - {each for items in found for each in _ids(items)}:
        again = skipped
    if again:
        found += _lists(session, again, *where)
    return scope.own(item for items in found for item in items), scope.own(pods)


def _installed(session: Session, missed: list[Kind]) -> list[Kind]:
    """Return those of some kinds that the cluster may have; all where it does not say."""
    try:
        groups = access.groups(session)
    except Forbidden:
        return missed
    return [kind for kind in missed if kind.version in groups.get(kind.group, ())]


def _selector(labels: dict[str, str]) -> str:
    return ",".join(f"{key}={value}" for key, value in labels.items())


def _of(ids: Collection[str], items: Iterable[Json]) -> list[Json]:
    return [item for item in items if item["metadata"]["labels"].get(names.TASK_ID, "") in ids]


def _ids(items: Iterable[Json]) -> set[str]:
    return {item["metadata"]["labels"].get(names.TASK_ID, "") for item in items}


def _identify(session: Session, scope: Scope, text: str) -> _Place:
    """Return what a user means by an id, its beginning, or a name; tasks come before pipelines."""
    for label in (names.TASK_ID, names.PIPELINE) if names.ID.fullmatch(text) else ():
        found = workloads(session, scope.namespace, f"{label}={text}")
        if found:
            return _own(scope, _Place(label, text, ""), found)
    selector = _selector({names.TASK: "true"} | scope.labels)
    tasks = status.tasks(scope.own(workloads(session, scope.namespace, selector)), [])
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
