"""The status of the tasks of one file together: a pipeline, or a group that runs at once.

Anybody can copy the label of a pipeline. So a task counts only if it has the id that a submit gives
to its stage, and says the same of the whole as the others; of several such sets the one that was
created first counts.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from kubectl_sky import names
from kubectl_sky.observe.nodes import State
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.plan.pipeline import Member


@dataclass(frozen=True)
class PipelineStatus:
    """The tasks that are there, by their stages, and what they have in common."""

    place: Member  # of the first of them
    tasks: tuple[TaskStatus, ...]

    @property
    def id(self) -> str:
        """The id of the whole."""
        return self.place.id

    @property
    def name(self) -> str:
        """The name of the whole."""
        return self.place.title

    @property
    def word(self) -> str:
        """What people call it."""
        return "group" if self.place.parallel else "pipeline"

    @property
    def namespace(self) -> str:
        """The namespace of its objects."""
        return self.tasks[0].namespace

    @property
    def user(self) -> str:
        """Whose it is."""
        return self.tasks[0].user

    @property
    def created_at(self) -> str:
        """When its first object was made."""
        return min(task.created_at for task in self.tasks)

    @property
    def updated_at(self) -> str:
        """When something happened last."""
        return max(task.updated_at for task in self.tasks)

    def count(self, state: State) -> int:
        """Return how many tasks are in a state."""
        return sum(task.state is state for task in self.tasks)

    @property
    def failed(self) -> TaskStatus | None:
        """Return the first task that failed."""
        return next((task for task in self.tasks if task.state is State.FAILED), None)

    @property
    def missing(self) -> tuple[int, ...]:
        """The stages that are not there: stopped, cancelled, or never submitted."""
        there = {self.stage(task) for task in self.tasks}
        return tuple(n for n in range(1, self.place.stages + 1) if n not in there)

    @property
    def state(self) -> State:
        """Failed when a task failed, completed when all have; auxiliary ones may have been ended.

        What is missing otherwise keeps it from being completed.
        """
        if self.failed:
            return State.FAILED
        states = [task.state for task in self.tasks]
        needed = set(self.missing) - set(self.place.auxiliary)
        if not needed and all(state is State.COMPLETED for state in states):
            return State.COMPLETED
        begun = State.RUNNING in states or State.COMPLETED in states
        return State.RUNNING if begun else State.PENDING

    @property
    def primaries_ended(self) -> bool:
        """Whether no task is left for which auxiliary ones would have to go on."""
        return all(task.state.ended for task in self.tasks if not self.auxiliary(task))

    @property
    def failed_primary(self) -> bool:
        """Whether a task failed for which auxiliary ones go on."""
        return any(t.state is State.FAILED for t in self.tasks if not self.auxiliary(t))

    def auxiliary(self, task: TaskStatus) -> bool:
        """Say whether a task ends when the others have ended."""
        return self.stage(task) in self.place.auxiliary

    @staticmethod
    def stage(task: TaskStatus) -> int:
        """Return which of the tasks this is, from 1."""
        return task.member.stage if task.member else 0

    def heading(self, task: TaskStatus) -> str:
        """Name a task by its stage: `stage 2 of 3: train, task/…`."""
        word = "task" if self.place.parallel else "stage"
        return f"{word} {self.stage(task)} of {self.place.stages}: {task.name}, task/{task.id}"

    @property
    def note(self) -> str:
        """What a person should know beside the state."""
        failed = self.failed
        if failed:
            return f"stage {self.stage(failed)}, {failed.name}: {failed.note}"
        missing = [n for n in self.missing if n not in self.place.auxiliary]
        if missing:
            there = self.place.stages - len(missing)
            return f"incomplete: {there} of {self.place.stages} tasks are there"
        waiting = [task for task in self.tasks if task.note and not task.held]
        if waiting:
            return f"stage {self.stage(waiting[0])}, {waiting[0].name}: {waiting[0].note}"
        ready = self.ready
        return f"stage {self.stage(ready)}, {ready.name}, is held" if ready else ""

    @property
    def ready(self) -> TaskStatus | None:
        """Return the task that is held although all before it have succeeded."""
        for task in self.tasks:
            if task.state is not State.COMPLETED:
                return task if task.held else None
        return None

    def as_json(self) -> dict[str, object]:
        """The whole for programs, with its tasks in their usual shape."""
        return {
            "pipeline_id": self.id,
            "name": self.name,
            "status": str(self.state),
            "execution": "parallel" if self.place.parallel else "serial",
            "created_at": self.created_at,
            "updated_at": self.updated_at,
            "username": self.user,
            "metadata": {
                "namespace": self.namespace,
                "num_tasks": self.place.stages,
                "note": self.note,
            },
            "tasks": [task.as_json() for task in self.tasks],
        }


def grouped(tasks: Sequence[TaskStatus]) -> list[TaskStatus | PipelineStatus]:
    """Return the tasks, those that belong together as one, where the first of them stood."""
    wholes = pipelines(tasks)
    whole_of = {_key(task): whole for whole in wholes for task in whole.tasks}
    rows = [whole_of.get(_key(task), task) for task in tasks]
    return list({id(row): row for row in rows}.values())


def pipelines(tasks: Iterable[TaskStatus], known: Collection[str] = ()) -> list[PipelineStatus]:
    """Fold the tasks that belong together, in the order in which they come; others are left out.

    `known` are the uids of objects that are the user's for sure.
    """
    claimants: dict[tuple[str, str], list[TaskStatus]] = defaultdict(list)
    for task in tasks:
        if task.member and _regular(task):
            claimants[task.namespace, task.member.id].append(task)
    return [_pipeline(_chosen(group, known)) for group in claimants.values()]


def _key(task: TaskStatus) -> tuple[str, str]:
    return task.namespace, task.id


def _regular(task: TaskStatus) -> bool:
    """Say whether a task has the id that a submit gives to its stage."""
    member = task.member
    assert member
    return 1 <= member.stage <= member.stages and task.id == names.part_id(member.id, member.stage)


def _chosen(claimants: Sequence[TaskStatus], known: Collection[str]) -> list[TaskStatus]:
    """Return the tasks that say the same of the whole, of several such sets the first one."""
    sets: dict[tuple[object, ...], list[TaskStatus]] = defaultdict(list)
    for task in claimants:
        member = task.member
        assert member
        whole = member.title, member.stages, member.parallel, member.auxiliary
        sets[task.user, task.labels.get(names.USERNAME), *whole].append(task)

    def rank(members: Sequence[TaskStatus]) -> tuple[bool, str, int]:
        is_known = any(uid in known for task in members for uid in task.uids.values())
        return not is_known, min(task.created_at for task in members), -len(members)

    return min(sets.values(), key=rank)


def _pipeline(tasks: list[TaskStatus]) -> PipelineStatus:
    ordered = sorted(tasks, key=lambda task: (PipelineStatus.stage(task), task.id))
    place = ordered[0].member
    assert place is not None
    return PipelineStatus(place, tuple(ordered))
