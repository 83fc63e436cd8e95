"""The tasks that a command is about: TASK..., -l SELECTOR or --all, with one meaning everywhere."""

from collections.abc import Callable, Mapping

from msgspec import Struct

from kubectl_sky.cluster.session import Session
from kubectl_sky.observe.pipelines import grouped
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.tasks import find
from kubectl_sky.tasks.find import Read, Scope, Target

Labels = Callable[[Mapping[str, str]], bool]  # whether labels match
_READ_ALL = Read()


class Choice(Struct, frozen=True):
    """References of tasks, or all tasks whose labels match, or all; without any, the last task."""

    references: tuple[str, ...] = ()
    labels: Labels | None = None
    everything: bool = False

    @property
    def is_broad(self) -> bool:
        """Whether the cluster decides how many tasks it is."""
        return self.is_filter or any(map(find.is_glob, self.references))

    @property
    def is_filter(self) -> bool:
        return self.everything or self.labels is not None

    @property
    def may_be_several(self) -> bool:
        return self.is_broad or len(self.references) > 1

    def matches(self, labels: Mapping[str, str]) -> bool:
        return self.labels is None or self.labels(labels)


def find_targets(
    session: Session, scope: Scope, choice: Choice, read: Read = _READ_ALL
) -> list[Target]:
    """Return the chosen tasks, pipelines and groups; of labels and all, the newest first.

    A pipeline of which only some tasks have the labels is replaced by these tasks. Raises UserError
    if a reference matches nothing; labels may match nothing.
    """
    if not choice.is_filter:
        return find.get_targets(session, scope, choice.references or [None])

    tasks = find.list_tasks(session, scope, read)
    tasks.sort(key=TaskStatus.position, reverse=True)
    targets: list[Target] = []
    for target in grouped(tasks):
        members = find.tasks_of(target)
        matches = [task for task in members if choice.matches(task.labels)]
        targets += [target] if len(matches) == len(members) else matches
    return targets
