"""Decide how the tasks of a file run: backend, plan and notes. Pure functions."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from kubectl_sky.errors import ClusterError, InvalidFiles, UserError
from kubectl_sky.plan import buckets, environment, queueing
from kubectl_sky.plan.pipeline import (
    PARALLEL,
    PipelineMember,
    with_member,
    with_predecessor,
    without_queue_until_resumed,
)
from kubectl_sky.plan.placement import Placement, choose_placement
from kubectl_sky.plan.plan import Plan
from kubectl_sky.plan.resolve import notes, resolve
from kubectl_sky.spec.document import Document, FieldError
from kubectl_sky.spec.secret_values import keep
from kubectl_sky.spec.task import Task
from kubectl_sky.words import names
from kubectl_sky.words.facts import Access, Archive, Facts
from kubectl_sky.words.kinds import Kind
from kubectl_sky.words.secret import Secret
from kubectl_sky.words.settings import Settings
from kubectl_sky.workloads import gangs, registry
from kubectl_sky.workloads.arrays import ArrayJob
from kubectl_sky.workloads.workload import Workload

AUTO = "auto"
_SINGLE_JOB = "indexed"  # the backend that makes one Job of several nodes
_LACKS = {Access.ABSENT: "{} is not installed", Access.FORBIDDEN: "you may not create {}s"}


class TaskEntry(Struct, frozen=True):
    """A checked task of a file, with its id and its position in a pipeline or group.

    `document` is the source of the task, and `header` the document before the first task of a
    pipeline or group. `archives` are its local files by target path. `token`
    authenticates its nodes to each other.
    """

    document: Document
    task: Task
    task_id: str
    member: PipelineMember | None = None
    archives: Mapping[str, Archive] = {}
    token: Secret = Secret("")
    header: Document | None = None

    @property
    def task_file(self) -> tuple[Mapping[str, Any], ...]:
        """Return the documents of the task by its name, without the values of secrets."""
        named = {"name": self.task.name} if self.task.name else {}
        own = named | keep(self.document) | named
        return (keep(self.header), own) if self.header else (own,)

    def backend(self, settings: Settings) -> str | None:
        """Return the requested backend, or `auto`; None if it is not set."""
        return self.task.backend or settings.backend

    @contextmanager
    def located(self) -> Iterator[None]:
        """Add the position in the file to an error about a field."""
        try:
            yield
        except FieldError as error:
            raise InvalidFiles([self.document.locate(error)]) from error

    def is_queued(self, settings: Settings) -> bool:
        """Return whether the task goes through a Kueue queue."""
        has_own_queue = self.backend(settings) in registry.OWN_QUEUES
        return not has_own_queue and bool(queueing.queue(self.task.kubernetes, settings))


class Choice(Struct, frozen=True):
    """A backend, and a note on why it was chosen."""

    backend: Workload
    note: str = ""


class Decision(Struct, frozen=True):
    """How the tasks of a file run: a plan and a placement for each, and notes for the user."""

    plans: tuple[Plan, ...]
    placements: tuple[Placement, ...]
    notes: tuple[str, ...]

    @property
    def together(self) -> bool:
        return names.PIPELINE in self.plans[0].labels

    @property
    def independent(self) -> bool:
        """Whether the tasks start at different times: a pipeline, a group or an array."""
        return self.together or self.plans[0].backend == ArrayJob.name

    @property
    def id(self) -> str:
        return self.plans[0].labels[names.PIPELINE] if self.together else self.plans[0].id

    @property
    def label(self) -> str:
        return names.PIPELINE if self.together else names.TASK_ID

    @property
    def word(self) -> str:
        """The word for it in messages: task, pipeline or group."""
        if not self.together:
            return "task"
        parallel = self.plans[0].annotations[names.EXECUTION] == PARALLEL
        return "group" if parallel else "pipeline"

    @property
    def title(self) -> str:
        """The name of the task, pipeline or group, as the user wrote it."""
        plan = self.plans[0]
        return plan.annotations[names.PIPELINE_NAME] if self.together else plan.title

    @property
    def namespace(self) -> str:
        return self.plans[0].namespace

    @property
    def workload_kinds(self) -> frozenset[str]:
        return frozenset(registry.find(plan.backend).kind.kind for plan in self.plans)


def decide(entries: Sequence[TaskEntry], facts: Facts, settings: Settings) -> Decision:
    """Decide everything that a file leaves open.

    Raises UserError for a missing Secret or queue, or if no backend can run a task, and
    ClusterError for a queue without Kueue.
    """
    missing = [
        message for entry in entries for message in environment.missing_secrets(entry.task, facts)
    ]
    if missing:
        raise UserError("\n".join(dict.fromkeys(missing)))

    for entry in entries:
        if entry.is_queued(settings):
            queueing.check(entry.task, facts, settings)

    tasks = []
    for entry in entries:
        with entry.located():
            tasks.append(_task(entry, facts, settings))

    plans = tuple(plan for plan, _, _ in tasks)
    task_notes = (note for _, _, notes in tasks for note in notes)
    sync_notes = buckets.sync_notes([entry.task for entry in entries], settings)
    return Decision(
        plans,
        placements=tuple(placement for _, placement, _ in tasks),
        notes=tuple(dict.fromkeys((*task_notes, *sync_notes))),
    )


def _task(
    entry: TaskEntry, facts: Facts, settings: Settings
) -> tuple[Plan, Placement, Sequence[str]]:
    """Decide how one task runs: with the first backend that can run it."""
    task = entry.task
    facts = replace(facts, archives=entry.archives, token=entry.token)
    placement = choose_placement(task, facts)
    reason = ""
    for choice in choices(_list_requested(entry, facts, settings), task.num_nodes, facts.access):
        candidate = replace(task, backend=choice.backend.name)
        plan = resolve(candidate, entry.task_id, placement, facts, settings)

        if entry.member:
            plan = with_member(plan, entry.member)
        plan = with_predecessor(plan, facts.after)
        plan = without_queue_until_resumed(choice.backend.adapted(plan, task, facts))
        plan, gang_notes = gangs.arrange(plan, choice.backend, task, facts, settings)

        reason = choice.backend.fits(plan)
        if not reason and plan.suspended and not choice.backend.suspend_path:
            reason = "it cannot suspend a task until the previous one has succeeded"
        elif not reason and plan.hold and task.num_nodes > 1 and choice.backend.fail_fast:
            reason = "it stops the other nodes only when a held container ends (hold_on_failure)"
        elif not reason and plan.group and not choice.backend.stable_hostnames:
            reason = "its pods cannot have the host names of a group's tasks"

        if not reason:
            messages = [*notes(candidate, placement, facts, settings), choice.note, *gang_notes]
            messages = [note for note in (*messages, *choice.backend.notes(plan)) if note]
            prefix = f"{task.name}: " if entry.member else ""
            plan = replace(plan, task_file=entry.task_file)
            return plan, placement, [f"{prefix}{note}" for note in messages]

    message = f'backend "{choice.backend.name}" cannot run task "{plan.title}": {reason}'
    if task.backend:
        raise FieldError(("config", "kubectl_sky", "backend"), message)
    raise UserError(message)


def _list_requested(entry: TaskEntry, facts: Facts, settings: Settings) -> str | None:
    """Return the requested backend, for a queue of MultiKueue one of a single Job.

    MultiKueue chooses a cluster for each object. Raises UserError for what it would tear apart.
    """
    requested = entry.backend(settings)
    nodes = entry.task.num_nodes

    if not (facts.queues and facts.queues.multikueue and entry.is_queued(settings)):
        return requested
    if entry.member:
        raise UserError(
            "tasks of a pipeline or group cannot use a queue of MultiKueue, which chooses a cluster"
            " for each",
            "submit them one by one",
        )

    single = _SINGLE_JOB if nodes > 1 else names.DEFAULT_BACKEND
    if requested in (None, AUTO, single, _SINGLE_JOB, ArrayJob.name):
        return single if requested in (None, AUTO) else requested
    raise UserError(
        f'backend "{requested}" cannot use a queue of MultiKueue, which chooses a cluster for each'
        " object",
        f"use --backend {_SINGLE_JOB}",
    )


def list_needed_kinds(requested: str | None, nodes: int) -> list[Kind]:
    """Return the kinds whose availability must be known before a choice."""
    kinds = [registry.find(name).required_kind for name in _backend_names(requested, nodes)]
    return [kind for kind in dict.fromkeys(kinds) if kind]


def choices(requested: str | None, nodes: int, access: Mapping[Kind, Access]) -> Iterator[Choice]:
    """Yield the backends for a task of `nodes` nodes, best first; at least one.

    Raises UserError for an unknown backend, ClusterError for one that is not installed.
    """
    if requested != AUTO:
        backend = registry.find(requested or names.DEFAULT_BACKEND)
        kind = backend.required_kind
        if kind and access.get(kind) is Access.ABSENT:
            alternatives = [name for name in registry.NAMED if not registry.find(name).requires]
            raise ClusterError(
                f"backend {backend.name} needs {backend.requires}, and the cluster does not serve"
                f" {kind.plural} ({kind.api_version})",
                f"install it, or choose another backend: {', '.join(alternatives)}",
            )
        yield Choice(backend)
        return
    rejections: list[str] = []
    for name in _backend_names(requested, nodes):
        backend = registry.find(name)
        # Unknown availability, such as without a cluster, counts as absent.
        kind = backend.required_kind
        status = access.get(kind, Access.ABSENT) if kind else Access.USABLE
        if status is Access.USABLE:
            reason = backend.merit if nodes > 1 else "the task has one node"
            yield Choice(backend, f"backend {name}: {'; '.join([reason, *rejections])}")
        else:
            rejections.append(_LACKS[status].format(backend.kind.kind))


def _backend_names(requested: str | None, nodes: int) -> list[str]:
    if requested != AUTO:
        return [requested or names.DEFAULT_BACKEND]
    return list(registry.AUTOMATIC) if nodes > 1 else [names.DEFAULT_BACKEND]
