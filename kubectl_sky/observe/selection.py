"""Filter, sort and limit lists of tasks."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta

from msgspec import Struct

from kubectl_sky.observe.nodes import State
from kubectl_sky.observe.reasons import DetailedStatus
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.words import age

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

    `states` are names from `states()`; empty for all. Tasks were created within `since`. `labels`
    is whether the labels of a task match.
    """

    states: tuple[str, ...] = ()
    since: timedelta | None = None
    labels: Callable[[Mapping[str, str]], bool] | None = None
    order: str = "age"
    limit: int | None = None

    def select(self, tasks: Iterable[TaskStatus], now: datetime) -> list[TaskStatus]:
        """Return the selected tasks in order; `now` is the API server's time."""
        start = "" if self.since is None else age.timestamp(now - self.since)
        states = {_SKYPILOT.get(state, state) for state in self.states}
        selected = [
            task
            for task in tasks
            if task.created_at >= start
            and (self.labels is None or self.labels(task.labels))
            and (not states or states & {str(task.state), str(task.detailed_status)})
        ]
        selected.sort(key=lambda task: task.id)
        selected.sort(key=ORDERS[self.order], reverse=self.order in _NEWEST_FIRST)  # type: ignore[arg-type]
        return selected[: self.limit]
