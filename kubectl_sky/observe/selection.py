"""Filter, sort and limit lists of tasks."""

from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct

from kubectl_sky.observe.nodes import DetailedStatus, State
from kubectl_sky.observe.status import TaskStatus

# Sort keys of tasks; times sort newest first.
ORDERS: dict[str, Callable[[TaskStatus], object]] = {
    "age": lambda task: task.created_at,
    "updated": lambda task: task.updated_at,
    "name": lambda task: task.name,
    "namespace": lambda task: (task.namespace, task.name),
    "nodes": lambda task: task.num_nodes,
    "status": lambda task: (list(State).index(task.state), task.detailed_status, task.name),
    "user": lambda task: (task.user, task.name),
}
_SKYPILOT = {"succeeded": str(State.COMPLETED)}  # its other words are those of DetailedStatus
_NEWEST_FIRST = ("age", "updated", "nodes")


def states() -> tuple[str, ...]:
    """Return the state names: the four of State, those of DetailedStatus, and SkyPilot's."""
    return tuple(dict.fromkeys([*map(str, State), *map(str, DetailedStatus), *_SKYPILOT]))


class Selection(Struct, frozen=True):
    """A filter by state, time and labels, with a sort order and a limit.

    `states` are names from `states()`; empty for all. `since` is RFC 3339 in UTC. `labels` is
    whether the labels of a task match.
    """

    states: tuple[str, ...] = ()
    since: str = ""
    labels: Callable[[Mapping[str, str]], bool] = lambda labels: True
    order: str = "age"
    limit: int | None = None

    def of(self, tasks: Iterable[TaskStatus]) -> list[TaskStatus]:
        """Return the selected tasks in order."""
        selected = [task for task in tasks if self._shows(task)]
        selected.sort(key=lambda task: task.id)
        selected.sort(key=ORDERS[self.order], reverse=self.order in _NEWEST_FIRST)  # type: ignore[arg-type]
        return selected[: self.limit]

    def _shows(self, task: TaskStatus) -> bool:
        if task.created_at < self.since or not self.labels(task.labels):
            return False
        if not self.states:
            return True
        states = {_SKYPILOT.get(state, state) for state in self.states}
        return not {str(task.state), str(task.detailed_status)}.isdisjoint(states)
