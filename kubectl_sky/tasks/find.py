"""List tasks and pipelines in the cluster; find them by user, id, prefix of an id, or name."""

import difflib
import fnmatch
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Protocol, TypeAlias, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from kubectl_sky.cluster import access, objects, parallel
from kubectl_sky.cluster.session import Json, Session
from kubectl_sky.cluster.watch import ObjectSelection
from kubectl_sky.errors import Forbidden, NotServed, UnknownName, UserError
from kubectl_sky.observe import ownership, status
from kubectl_sky.observe.ownership import Missing, TaskObjects
from kubectl_sky.observe.pipelines import PipelineStatus, pipelines
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.tasks import evidence
from kubectl_sky.words import kinds, names
from kubectl_sky.words.decoding import convert
from kubectl_sky.words.kinds import ReadKind
from kubectl_sky.words.objects import Metadata, Object
from kubectl_sky.words.owners import User
from kubectl_sky.words.pod_objects import Pod
from kubectl_sky.words.task_objects import TaskObject
from kubectl_sky.workloads import registry

Target: TypeAlias = TaskStatus | PipelineStatus
Reference = str | None  # an id, a prefix of an id or a name; None: the last task of the user
# Chooses from the tasks with a name, newest first; from all tasks for the reference None.
Choose = Callable[[Reference, Sequence[Target]], Sequence[Target]]

Item = TypeVar("Item", bound=Object)
P = TypeVar("P")


class _ReadKind(Protocol[P]):
    """List the objects of a kind, as far as they are needed."""

    def __call__(
        self,
        session: Session,
        kind: ReadKind[TaskObject],
        namespace: str | None = None,
        *,
        label_selector: str = "",
    ) -> list[P]: ...


# Not installed, or forbidden to this user: then without objects.
_OPTIONAL_KINDS = {kind for kind, requires in registry.KINDS.items() if requires}
MAX_LABEL_VALUES = 100  # maximum number of values in a label selector
MIN_PREFIX = 3  # characters: a mistyped name must not be the prefix of an id


class TaskNotFound(UnknownName):
    """No task matches."""


def refuse_several(text: Reference, matches: Sequence[Target]) -> Sequence[Target]:
    """Return the only match. Raises UserError if there are several, or no reference."""
    if text is None:
        raise UserError("no TASK given", "name a task")
    if len(matches) > 1:
        ids = ", ".join(match.id for match in matches[:8]) + (" …" if matches[8:] else "")
        raise UserError(f'"{text}" matches {len(matches)} tasks: {ids}', "use the full id")
    return matches


class Scope(Struct, frozen=True):
    """Limit a search to a namespace (None: all) and a user (None: all users).

    `choose` decides what a name of several tasks means.
    """

    namespace: str | None
    user: User | None
    choose: Choose = refuse_several

    @property
    def labels(self) -> dict[str, str]:
        return {names.USERNAME: self.user.label} if self.user else {}

    @property
    def selector(self) -> str:
        return names.selector({names.TASK: "true"} | self.labels)

    def owns(self, metadata: Metadata) -> bool:
        """Return whether an object is the user's.

        Labels are not enough: two similar user names can have the same label.
        """
        return self.user is None or self.user.owns(metadata.labels, metadata.annotations)

    def filter_owned(self, items: Iterable[Item]) -> list[Item]:
        return [item for item in items if self.owns(item.metadata)]


class Read(Struct, frozen=True):
    """What to read of the tasks of a scope.

    `selector` limits it to tasks with more labels. Workloads without their `pods` are a third of
    all bytes.
    """

    selector: str = ""
    pods: bool = True


_READ_ALL = Read()


class _Location(Struct, frozen=True):
    """The label and namespace that locate an id."""

    label: str
    id: str
    namespace: str


def list_tasks(session: Session, scope: Scope, read: Read = _READ_ALL) -> list[TaskStatus]:
    owned = list_objects(session, scope, read)
    return evidence.fold(session, owned) if read.pods else status.fold(owned)


def list_objects(session: Session, scope: Scope, read: Read = _READ_ALL) -> Sequence[TaskObjects]:
    """List the objects and pods of the tasks in a scope, with one parallel request per kind."""
    selector = f"{scope.selector},{read.selector}".rstrip(",")
    with parallel.pool() as pool:
        listed = pool.submit(list_pods, session, scope.namespace, selector) if read.pods else None
        lists = _list_kinds(session, objects.list_all, scope.namespace, selector)
        pods = listed.result() if listed else []
    items = scope.filter_owned(item for items in lists for item in items)
    jobs = list_intermediate_jobs(session, scope.namespace, items, pods)
    return explain_missing(session, scope.namespace, ownership.decide(items, pods, jobs))


def list_workloads(session: Session, namespace: str | None, selector: str) -> list[TaskObject]:
    """List the workloads of all backends, with one request per kind."""
    lists = _list_kinds(session, objects.list_all, namespace, selector)
    return [item for items in lists for item in items if registry.is_root_object(item)]


def list_workload_metadata(session: Session, namespace: str | None, selector: str) -> list[Object]:
    """List the metadata of the workloads of all backends, with one request per kind."""
    lists = _list_kinds(session, objects.list_metadata, namespace, selector)
    return [item for items in lists for item in items if registry.is_root_object(item)]


def list_workload_manifests(session: Session, namespace: str | None, selector: str) -> list[Json]:
    """List all fields of the workloads of all backends, with one request per kind."""
    lists = _list_kinds(session, objects.list_manifests, namespace, selector)
    items = (item for items in lists for item in items)
    return [item for item in items if registry.is_root_object(convert(item, Object))]


def get_task(session: Session, scope: Scope, reference: Reference) -> TaskStatus:
    """Return the task that matches. Raises UserError unless exactly one does."""
    return single_task(get(session, scope, reference))


def single_task(target: Target) -> TaskStatus:
    """Return the task. Raises UserError for a pipeline or group."""
    if isinstance(target, TaskStatus):
        return target
    ids = ", ".join(f"{task.id} ({task.name})" for task in target.tasks)
    raise UserError(f"{target.word} {target.id} has several tasks: {ids}", "choose one of them")


def get(session: Session, scope: Scope, reference: Reference) -> Target:
    """Return the matching task, pipeline or group; the last one for None.

    Raises UserError when nothing matches, or more than the scope accepts.
    """
    return refuse_several(reference or "", get_targets(session, scope, [reference]))[0]


def get_targets(session: Session, scope: Scope, references: Sequence[Reference]) -> list[Target]:
    """Return the matching tasks, pipelines and groups in order, without duplicates.

    A glob such as `train-*` means all tasks whose name or id it matches.
    """
    texts = [text and re.sub("^(task|pipeline|group)/", "", text) for text in references]
    return _fetch(session, scope, list(dict.fromkeys(_identify(session, scope, texts))))


def get_tasks(session: Session, scope: Scope, references: Sequence[Reference]) -> list[TaskStatus]:
    """Return the matching tasks in order, without duplicates.

    A pipeline or group is replaced by its tasks.
    """
    matches = get_targets(session, scope, references)
    tasks = [task for target in matches for task in tasks_of(target)]
    return list({(task.namespace, task.id): task for task in tasks}.values())


def find_predecessor(session: Session, task: TaskStatus) -> Target | None:
    """Return the task or pipeline that a task waits for; None if it was deleted."""
    with suppress(TaskNotFound):
        return get(session, Scope(task.namespace, None), task.after.split()[0])
    return None


def tasks_of(target: Target) -> Sequence[TaskStatus]:
    """Return the tasks of a pipeline or group, or the single task in a list."""
    return [target] if isinstance(target, TaskStatus) else target.tasks


def refetch(session: Session, task: TaskStatus) -> TaskStatus | None:
    """Fetch the current status of a task; None if it was deleted."""
    read = Read(names.selector({names.TASK_ID: task.id}))
    return next(iter(list_tasks(session, Scope(task.namespace, None), read)), None)


def get_of_anyone(session: Session, scope: Scope, reference: str) -> Target:
    """Return the user's task that matches; if there is none, that of another user."""
    try:
        return get(session, scope, reference)
    except UnknownName:
        return get(session, replace(scope, user=None), reference)


def get_by_label(session: Session, namespace: str, label: str, value: str) -> Target:
    """Return the task (label task-id) or pipeline with this id. Raises UserError without any."""
    return _fetch(session, Scope(namespace, None), [_Location(label, value, namespace)])[0]


def _fetch(session: Session, scope: Scope, locations: Sequence[_Location]) -> list[Target]:
    """Return what is at the locations, with one request per kind for 100 of a namespace."""
    ids: dict[tuple[str, str], list[str]] = defaultdict(list)
    for location in locations:
        ids[location.label, location.namespace].append(location.id)
    targets: dict[_Location, Target] = {}
    for (label, namespace), values in ids.items():
        for selector in _selectors(label, values):
            tasks = list_tasks(session, replace(scope, namespace=namespace), Read(selector))
            matches = pipelines(tasks) if label == names.PIPELINE else tasks
            targets |= {_Location(label, match.id, namespace): match for match in matches}
    for location in locations:
        if location not in targets:
            raise _not_found(location.id, scope)
    return [targets[location] for location in locations]


def _selectors(label: str, values: Sequence[str]) -> list[str]:
    """Return selectors of objects with one of the values of a label: one for 100 values."""
    return [
        f"{label} in ({','.join(values[start : start + MAX_LABEL_VALUES])})"
        for start in range(0, len(values), MAX_LABEL_VALUES)
    ]


def _identify(session: Session, scope: Scope, texts: Sequence[Reference]) -> Iterator[_Location]:
    """Locate tasks and pipelines by id, name or prefix of an id; tasks take precedence.

    The id of another user's task does not hide a task of that name.
    """
    ids = [text for text in dict.fromkeys(texts) if text and names.ID.fullmatch(text)]
    items_of = _items_by_id(session, scope, ids)
    tasks: list[TaskStatus] | None = None
    for text in texts:
        label, items = items_of.get(text or "", ("", []))
        if scope.filter_owned(items):
            yield _locate_owned(scope, _Location(label, str(text), ""), items)
            continue

        if tasks is None:
            workloads = list_workloads(session, scope.namespace, scope.selector)
            tasks = status.tasks(scope.filter_owned(workloads), ())
        try:
            matches = _matches(scope, text, tasks)
        except TaskNotFound:
            _refuse_other_owners(session, scope, text, items)
            if scope.namespace:
                access.check_namespace(session, scope.namespace, access.ARGUMENT)
            raise

        for match in matches:
            label = names.TASK_ID if isinstance(match, TaskStatus) else names.PIPELINE
            yield _Location(label, match.id, match.namespace)


def _refuse_other_owners(
    session: Session, scope: Scope, text: Reference, items: Sequence[TaskObject]
) -> None:
    """Raise UnknownName if tasks of other users match a text that none of the user's does.

    `items` are the workloads whose id it is; without any, those of all users are listed.
    """
    if text is None or scope.user is None:
        return
    anyone = replace(scope, user=None, choose=lambda _, matches: matches)
    workloads = items or list_workloads(session, scope.namespace, anyone.selector)
    try:
        matches = _matches(anyone, text, status.tasks(workloads, ()))
    except UserError:  # none, or several of one prefix
        return
    of_users = " and ".join(sorted({match.user for match in matches}))
    hint = "add --all-users to include other users' tasks"
    raise UnknownName(f'task "{text}" belongs to {of_users}', hint) from None


def _items_by_id(
    session: Session, scope: Scope, ids: Sequence[str]
) -> dict[str, tuple[str, list[TaskObject]]]:
    """Return the workloads of each id of a task or pipeline, and the label that has it.

    With one request per kind for 100 ids. The user's own take precedence, then tasks.
    """
    items_of: dict[str, tuple[str, list[TaskObject]]] = {}
    for label in (names.TASK_ID, names.PIPELINE):
        matches: dict[str, list[TaskObject]] = defaultdict(list)
        for selector in _selectors(label, ids):
            for item in list_workloads(session, scope.namespace, f"{names.TASK}=true,{selector}"):
                matches[item.metadata.labels[label]].append(item)
        for text, items in matches.items():
            if text not in items_of or scope.filter_owned(items):
                items_of[text] = label, items
        ids = [text for text in ids if not scope.filter_owned(matches[text])]
    return items_of


def _matches(scope: Scope, text: Reference, tasks: Sequence[TaskStatus]) -> Sequence[Target]:
    """Return the tasks and pipelines that a name, a prefix or None means."""
    if text is None and scope.user is None:  # the last task may be another user's
        raise UserError("no TASK given", "name a task, or remove --all-users")
    submitted = [task for task in tasks if text is not None or not task.member]
    candidates: list[Target] = [*submitted, *pipelines(tasks)]
    candidates.sort(key=lambda target: (target.created_at, target.id), reverse=True)
    named = [target for target in candidates if text in (None, target.name)]
    if named:
        return scope.choose(text, named)
    if text and is_glob(text):
        if globbed := _match_glob(text, candidates):
            return globbed
        raise _not_found(text, scope)
    matches = [target for target in candidates if text and target.id.startswith(text)]
    if not matches or len(text or "") < MIN_PREFIX:
        raise _not_found(text, scope, candidates)
    return refuse_several(text, matches)


def is_glob(text: str) -> bool:
    return any(character in text for character in "*?[")


def _match_glob(text: str, targets: Sequence[Target]) -> list[Target]:
    """Return those whose name or id matches; a task of a pipeline only without its pipeline."""
    matches = [
        target
        for target in targets
        if fnmatch.fnmatchcase(target.name, text) or fnmatch.fnmatchcase(target.id, text)
    ]
    pipeline_ids = {match.id for match in matches if isinstance(match, PipelineStatus)}
    return [
        match
        for match in matches
        if isinstance(match, PipelineStatus)
        or not match.member
        or match.member.id not in pipeline_ids
    ]


def _locate_owned(scope: Scope, location: _Location, items: Sequence[TaskObject]) -> _Location:
    owned = scope.filter_owned(items)
    namespaces = sorted({item.metadata.namespace for item in owned})
    if len(namespaces) > 1:
        raise UserError(
            f"task {location.id} exists in the namespaces {', '.join(namespaces[:8])}",
            "choose one of them with --namespace",
        )
    return replace(location, namespace=owned[0].metadata.namespace)


_NODE = re.compile(r"(.+)[-/:.](?:node-|rank-)([0-9]{1,5})")  # train-node-0, train/node-0
_OF_FILE = "name the task: its id or its name; `kubectl sky submit FILE` runs a file"


def _not_found(text: Reference, scope: Scope, candidates: Sequence[Target] = ()) -> UserError:
    where = f'in namespace "{scope.namespace}"' if scope.namespace else "in any namespace"
    owner = f" (owner: {scope.user.name})" if scope.user else ""
    if text is None:
        return TaskNotFound(f"no tasks found {where}{owner}", "run `kubectl sky submit FILE`")
    if text.endswith((".yaml", ".yml")):
        return TaskNotFound(f'"{text}" is a file, not a task', _OF_FILE)
    if text.isdecimal():
        hint = "a task has no jobs with numbers; for the log of one node, use `logs --rank`"
        return TaskNotFound(f'task "{text}" not found {where}{owner}', hint)
    names = {target.name for target in candidates}
    if {*text.split(",")} <= names:
        hint = f"separate tasks with spaces: {' '.join(text.split(','))}"
        return TaskNotFound(f'task "{text}" not found {where}{owner}', hint)
    node = _NODE.fullmatch(text)
    if node and node[1] in names:
        one = f"`kubectl sky logs {node[1]} --rank {node[2]}`"
        hint = f'did you mean "{node[1]}"? for one node, {one}'
        return TaskNotFound(f'task "{text}" not found {where}{owner}', hint)
    parts = re.split("[-/]", text)  # of the name of a pod or Job
    similar = [target.id for target in candidates if target.id in parts]
    if not similar:
        by_case = {target.name.lower(): target.name for target in candidates}
        name = text.lower().strip("/ ").rpartition("/")[2]  # as in job/train
        similar = [by_case[match] for match in difflib.get_close_matches(name, by_case, n=1)]
    lists = "run `kubectl sky list` for your tasks, `kubectl sky serve status` for services"
    hint = f'did you mean "{similar[0]}"?' if similar else lists
    return TaskNotFound(f'task "{text}" not found {where}{owner}', hint)


def unknown_rank(task: TaskStatus, rank: int) -> UserError:
    """Return the error of a rank that a task does not have."""
    last = max(node.index for node in task.nodes)
    hint = f"it has ranks 0 to {last}" if last else "it has one node, of rank 0"
    return UserError(f"task {task.id} has no rank {rank}", hint)


def select_objects(session: Session, namespace: str | None, selector: str) -> ObjectSelection:
    """Return what to watch for tasks and their pods."""
    served = [kind for kind in registry.KINDS if access.may_serve(session, kind)]
    return ObjectSelection((*served, kinds.POD), namespace, selector, _OPTIONAL_KINDS)


def list_pods(session: Session, namespace: str | None, selector: str) -> list[Pod]:
    return objects.list_all(session, kinds.POD, namespace, label_selector=selector)


def _list_kinds(
    session: Session,
    read: _ReadKind[P],
    namespace: str | None,
    selector: str,
) -> list[list[P]]:
    """List the kinds of workloads in parallel, and check at the same time which are installed.

    Optional kinds that are not installed, or forbidden to this user, give an empty list.
    """

    def listed(kind: ReadKind[TaskObject]) -> list[P]:
        optional = kind in _OPTIONAL_KINDS
        if optional and not access.may_serve(session, kind):
            return []
        try:
            return read(session, kind, namespace, label_selector=selector)
        except (NotServed, Forbidden):
            if not optional:
                raise
            return []

    return parallel.map_parallel(listed, registry.KINDS)


def explain_missing(
    session: Session, namespace: str | None, tasks: Sequence[TaskObjects]
) -> Sequence[TaskObjects]:
    """Find out why nodes of tasks have no object; reads nothing if no task lacks one.

    Without permission to list Services, it stays unknown.
    """
    lacking = [task for task in tasks if task.lacks]
    if not lacking:
        return tasks
    is_pipeline = any(names.PIPELINE in (task.items[0].metadata.labels) for task in lacking)
    selector = f"{names.TASK}=true" if is_pipeline else with_ids(task.key[1] for task in lacking)
    try:
        services = objects.list_metadata(session, kinds.SERVICE, namespace, label_selector=selector)
    except Forbidden:
        return tasks
    decided = ownership.explain(tasks, services, session.now())
    deleted = [task for task in decided if task.missing is Missing.DELETED]
    if not deleted:
        return decided
    # The submit may have finished between the two requests: read the objects again.
    current = list_workloads(session, namespace, with_ids(task.key[1] for task in deleted))
    return ownership.confirm(decided, current)


def with_ids(task_ids: Iterable[str]) -> str:
    """Return a selector of these tasks, or of all tasks if there are too many."""
    ids = sorted(set(task_ids))
    return (
        f"{names.TASK_ID} in ({','.join(ids)})"
        if len(ids) <= MAX_LABEL_VALUES
        else f"{names.TASK}=true"
    )


def list_intermediate_jobs(
    session: Session, namespace: str | None, items: Sequence[TaskObject], pods: Sequence[Pod]
) -> list[Object]:
    """List the Jobs between pods and workloads; empty if no backend creates any."""
    jobs: list[Object] = []
    for label, named in ownership.jobs_between(items, pods).items():
        values = f" in ({','.join(sorted(set(named)))})" if len(named) <= MAX_LABEL_VALUES else ""
        jobs += objects.list_metadata(
            session, kinds.JOB, namespace, label_selector=f"{label}{values}"
        )
    return jobs
