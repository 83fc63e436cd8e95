"""Several tasks in one file: a pipeline (one by one) or a group (all at once)."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kubectl_sky.spec.document import Data, Document

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_DEFAULT = "default"  # in termination_delay: all tasks that it does not name


@dataclass(frozen=True)
class Pipeline:
    """Settings of all tasks of a file; with `parallel` they are a group.

    A group runs all at once. It finishes when its `primary` tasks finish; empty means all
    tasks. `delays` maps the names of the other tasks to the seconds for which they continue after
    that.
    """

    name: str | None = None
    parallel: bool = False
    primary: tuple[str, ...] = ()
    delays: Mapping[str, int] = field(default_factory=dict)
    connected: bool = True

    def delay(self, task: str) -> int | None:
        """Return the seconds that a task runs on after the primary tasks; None if primary."""
        if not self.primary or task in self.primary:
            return None
        return self.delays.get(task, self.delays.get(_DEFAULT, 0))


def pipeline_of(documents: Sequence[Document]) -> Pipeline | None:
    """Return the settings of all tasks of a file; None for a single task.

    `documents` are the documents of one file without errors from `validate`.
    """
    first = documents[0]
    if first.tasks == 1 and not first.parallel:
        return None
    header: Mapping[str, Data] = first.data if first.is_header else {}
    name = header.get("name")
    return Pipeline(
        name=None if name is None else str(name),
        parallel=first.parallel,
        primary=tuple(header.get("primary_tasks") or ()),
        delays=_delays(header.get("termination_delay")),
        connected=header.get("inter_connection", True) is not False,
    )


def _delays(value: Data) -> dict[str, int]:
    if value is None:
        return {}
    by_name = value if isinstance(value, dict) else {_DEFAULT: value}
    return {str(name): seconds(delay) for name, delay in by_name.items()}


def seconds(value: str | int) -> int:
    """Return a duration such as 30, "30s" or "5m" in seconds; 0 if it is invalid."""
    match = re.fullmatch(r"([0-9]+)([smhdw]?)", str(value).lower())
    return int(match[1]) * _UNITS[match[2] or "s"] if match else 0
