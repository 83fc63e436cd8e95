"""Compute the status of the tasks of one file: a pipeline or a parallel group."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from kubectl_sky.observe.documents import Pipeline, PipelineMetadata
from kubectl_sky.observe.nodes import State
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.plan.pipeline import PipelineMember
from kubectl_sky.words import names
from kubectl_sky.words.documents import Part


class PipelineStatus(Part, frozen=True):
    """The existing tasks of a pipeline or group by stage, and their common fields."""

    first_member: PipelineMember
    tasks: tuple[TaskStatus, ...]

    def __repr__(self) -> str:
        """Return what a Python shell shows, on one line."""
        note = f", {self.note}" if self.note else ""
        tasks = f"{self.count(State.COMPLETED)}/{self.first_member.stages} tasks"
        return f"<PipelineStatus {self.id} ({self.name}): {self.state}, {tasks}{note}>"

    @property
    def id(self) -> str:
        return self.first_member.id

    @property
    def name(self) -> str:
        return self.first_member.title

    @property
    def word(self) -> str:
        """The word for it in messages: group or pipeline."""
        return "group" if self.first_member.parallel else "pipeline"

    @property
    def namespace(self) -> str:
        return self.tasks[0].namespace

    @property
    def user(self) -> str:
        return self.tasks[0].user

    @property
    def created_at(self) -> str:
        """When the first task was created."""
        return min(task.created_at for task in self.tasks)

    @property
    def updated_at(self) -> str:
        """When the last change happened."""
        return max(task.updated_at for task in self.tasks)

    def count(self, state: State) -> int:
        return sum(task.state is state for task in self.tasks)

    @property
    def failed(self) -> TaskStatus | None:
        return next((task for task in self.tasks if task.state is State.FAILED), None)

    @property
    def current(self) -> TaskStatus:
        """The task that explains the state: it failed, is pending or running; else the last one."""
        pending = (
            task for task in self.tasks if task.state is State.PENDING and not task.suspended
        )
        unfinished = (task for task in self.tasks if not task.state.ended)
        return self.failed or next(pending, None) or next(unfinished, self.tasks[-1])

    @property
    def missing(self) -> tuple[int, ...]:
        """The stages without a task: stopped, cancelled, or never submitted."""
        existing = {self.stage(task) for task in self.tasks}
        return tuple(
            stage for stage in range(1, self.first_member.stages + 1) if stage not in existing
        )

    @property
    def num_stopped(self) -> int:
        """How many auxiliary tasks were stopped because the others had finished."""
        return len(set(self.missing) & set(self.first_member.auxiliary))

    @property
    def state(self) -> State:
        """Failed if a task failed, completed if all existing tasks completed.

        A missing stage prevents completion, unless it is auxiliary: auxiliary tasks may have been
        stopped.
        """
        if self.failed:
            return State.FAILED
        states = [task.state for task in self.tasks]
        required = set(self.missing) - set(self.first_member.auxiliary)
        if not required and all(state is State.COMPLETED for state in states):
            return State.COMPLETED
        started = State.RUNNING in states or State.COMPLETED in states
        return State.RUNNING if started else State.PENDING

    @property
    def primaries_ended(self) -> bool:
        """Whether all tasks that are not auxiliary have finished."""
        return all(task.state.ended for task in self.tasks if not self.auxiliary(task))

    def auxiliary(self, task: TaskStatus) -> bool:
        """Return whether a task stops when the primary tasks have finished."""
        return self.stage(task) in self.first_member.auxiliary

    @staticmethod
    def stage(task: TaskStatus) -> int:
        """Return the task's stage, from 1."""
        return task.member.stage if task.member else 0

    def task_id(self, stage: int) -> str:
        """Return the id of a stage's task, also if it is deleted."""
        return names.part_id(self.id, stage)

    def title(self, stage: int) -> str:
        """Return the name of a stage's task, also if it is deleted; empty if not known."""
        titles = {self.stage(task): task.name for task in self.tasks}
        recorded = dict(enumerate(self.first_member.task_names, 1))
        return titles.get(stage) or recorded.get(stage, "")

    def heading(self, task: TaskStatus) -> str:
        """Return a task's stage and name: `stage 2 of 3: train, task/…`."""
        word = "task" if self.first_member.parallel else "stage"
        return (
            f"{word} {self.stage(task)} of {self.first_member.stages}: {task.name}, task/{task.id}"
        )

    @property
    def note(self) -> str:
        """A short explanation of the state."""
        failed = self.failed
        if failed:
            return f"stage {self.stage(failed)}, {failed.name}: {failed.note}"
        missing = [stage for stage in self.missing if stage not in self.first_member.auxiliary]
        if missing:
            existing = self.first_member.stages - len(missing)
            return f"incomplete: {existing} of {self.first_member.stages} tasks found"
        waiting = [task for task in self.tasks if task.note and not task.suspended]
        if waiting:
            return f"stage {self.stage(waiting[0])}, {waiting[0].name}: {waiting[0].note}"
        ready = self.ready
        return f"stage {self.stage(ready)}, {ready.name}, is suspended" if ready else ""

    @property
    def ready(self) -> TaskStatus | None:
        """The suspended task whose previous stages have all completed."""
        for task in self.tasks:
            if task.state is not State.COMPLETED:
                return task if task.suspended else None
        return None

    @property
    def to_resume(self) -> TaskStatus | None:
        """The stage to resume now; all stages before it exist.

        The first one is never suspended by us.
        """
        ready = self.ready
        if self.first_member.parallel or ready is None or ready.incomplete:
            return None
        if self.stage(ready) == 1:
            return None
        return ready if all(stage > self.stage(ready) for stage in self.missing) else None

    @property
    def to_cancel(self) -> tuple[TaskStatus, ...]:
        """The stages after one that failed."""
        failed = self.failed
        if self.first_member.parallel or failed is None:
            return ()
        return tuple(task for task in self.tasks if self.stage(task) > self.stage(failed))

    @property
    def complete(self) -> bool:
        """Whether all tasks exist, except for auxiliary ones, which may have been stopped."""
        return set(self.missing) <= set(self.first_member.auxiliary)

    @property
    def primaries_ended_at(self) -> str:
        """When the last task that is not auxiliary finished; RFC 3339."""
        return max(
            max((node.ended_at for node in task.nodes), default="") or task.updated_at
            for task in self.tasks
            if not self.auxiliary(task)
        )

    def remaining_delays(self, seconds: float) -> list[tuple[TaskStatus, float]]:
        """Return the running auxiliary tasks, and in how many seconds to stop each.

        `seconds` have passed since the primary tasks finished. Without delay if one failed.
        """
        failed = any(it.state is State.FAILED for it in self.tasks if not self.auxiliary(it))
        return [
            (task, max((0 if failed else task.member.delay) - seconds, 0.0))
            for task in self.tasks
            if task.member and self.auxiliary(task) and not task.over
        ]

    @property
    def document(self) -> Pipeline:
        execution = "parallel" if self.first_member.parallel else "serial"
        return Pipeline(
            pipeline_id=self.id,
            name=self.name,
            status=self.state,
            execution=execution,
            created_at=self.created_at,
            updated_at=self.updated_at,
            username=self.user,
            metadata=PipelineMetadata(self.namespace, self.first_member.stages, self.note),
            tasks=[task.document for task in self.tasks],
        )


def grouped(tasks: Sequence[TaskStatus]) -> list[TaskStatus | PipelineStatus]:
    """Return the tasks; a pipeline or group replaces the first of its tasks."""
    groups = pipelines(tasks)
    group_of = {(it.namespace, it.id): group for group in groups for it in group.tasks}
    rows = [group_of.get((task.namespace, task.id), task) for task in tasks]
    return list({id(row): row for row in rows}.values())


def list_finished_before(tasks: Sequence[TaskStatus], cutoff: str) -> list[TaskStatus]:
    """Return the tasks that finished until a time; those of a pipeline only with all others."""
    rows = grouped(tasks)
    groups = [row.tasks if isinstance(row, PipelineStatus) else (row,) for row in rows]
    return [
        task
        for group in groups
        if all(task.over and task.updated_at <= cutoff for task in group)
        for task in group
    ]


def pipelines(tasks: Iterable[TaskStatus]) -> list[PipelineStatus]:
    """Return the pipelines and groups in order; other tasks are left out."""
    members: dict[tuple[str, str], list[TaskStatus]] = defaultdict(list)
    for task in tasks:
        if task.member:
            members[task.namespace, task.member.id].append(task)
    groups = []
    for group in members.values():
        ordered = sorted(group, key=lambda task: (PipelineStatus.stage(task), task.id))
        if member := ordered[0].member:
            groups.append(PipelineStatus(member, tuple(ordered)))
    return groups


def reason(target: TaskStatus | PipelineStatus) -> str:
    """Return why a task or pipeline, or one of its nodes, does not run.

    Of a completed one, only that it is being deleted, and what still keeps its pods.
    """
    if target.state is not State.COMPLETED:
        return target.note
    if not isinstance(target, TaskStatus):
        return ""
    return "; ".join(filter(None, (str(target.deletion), target.kept_note)))
