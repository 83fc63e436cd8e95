"""Several tasks of one file: a pipeline, one after the other, or a group, all at once."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kubectl_sky.spec.document import Data, Document

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_DEFAULT = "default"  # in termination_delay: the tasks that are not named there


@dataclass(frozen=True)
class Pipeline:
    """What the tasks have in common. `parallel` makes them a group, which runs at once.

    `primary` are the tasks whose end ends a group; none means all. `delays` are the seconds for
    which the others go on after that, by their names.
    """

    name: str | None = None
    parallel: bool = False
    primary: tuple[str, ...] = ()
    delays: Mapping[str, int] = field(default_factory=dict)
    connected: bool = True

    def delay(self, task: str) -> int | None:
        """Return the seconds that a task has after the primary ones; None for a primary one."""
        if not self.primary or task in self.primary:
            return None
        return self.delays.get(task, self.delays.get(_DEFAULT, 0))


def pipeline_of(documents: Sequence[Document]) -> Pipeline | None:
    """Return what is said of the tasks together; None for one task.

    The documents are those of one file in which `validate` finds no error.
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
    """Return a time such as 30, "30s" or "5m" in seconds."""
    found = re.fullmatch(r"([0-9]+)([smhdw]?)", str(value).lower())
    return int(found[1]) * _UNITS[found[2] or "s"] if found else 0
