"""What dead nodes of a task leave behind: how they ended, and the last lines of their logs."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from kubectl_sky.observe.nodes import NodeStatus, Object, of_pod
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.workloads.workload import STOPPED

LINES = 50  # of each node's log
BYTES = 64 * 1024  # of these
LOGS = 16  # nodes of which lines are kept, those that died first
_TEXTS = ("name", "pod", "host", "reason", "message", "ended_at")


@dataclass(frozen=True)
class Death:
    """A node's pod that failed, and its last lines; `exit_code` is None where it never ran."""

    rank: int
    name: str
    pod: str
    host: str = ""
    reason: str = ""
    message: str = ""
    ended_at: str = ""
    exit_code: int | None = None
    lines: tuple[str, ...] = ()

    @property
    def end(self) -> str:
        """`Error (exit code 3)`."""
        code = "" if self.exit_code is None else f" (exit code {self.exit_code})"
        return f"{self.reason or 'Failed'}{code}"

    def having(self, lines: Sequence[bytes]) -> "Death":
        """Return it with the last of the lines of its log."""
        return replace(self, lines=_last(lines))

    def as_json(self) -> dict[str, object]:
        """The death for programs; what is unknown is left out."""
        found = asdict(self) | {"lines": list(self.lines)}
        return {name: value for name, value in found.items() if value not in ("", None)}


@dataclass(frozen=True)
class Evidence:
    """The deaths of one task, the first one first; which task it is, and of which server."""

    task_id: str
    name: str
    namespace: str
    server: str
    created_at: str
    deaths: tuple[Death, ...] = ()

    def of(self, task: TaskStatus) -> bool:
        """Say whether it is of this very task, and not of an older one with its id."""
        return (self.task_id, self.created_at) == (task.id, task.created_at)

    def having(self, more: Iterable[Death]) -> "Evidence":
        """Return it with more deaths, each pod's once; what was known of a pod stays."""
        found = {death.pod: death for death in (*more, *self.deaths)}
        return replace(self, deaths=tuple(sorted(found.values(), key=_order)))

    def gone(self, task: TaskStatus) -> "Evidence":
        """Return it without the pods that the cluster still has, with their logs.

        Those that were stopped for another one are no news while that is there.
        """
        there = {name for node in task.nodes for name in (node.pod, node.previous)}
        found = tuple(one for one in self.deaths if one.pod not in there)
        telling = any(one.reason != STOPPED for one in found)
        return replace(self, deaths=found if telling else ())

    def as_json(self) -> dict[str, object]:
        """As it is kept."""
        return asdict(self) | {"deaths": [death.as_json() for death in self.deaths]}


def deaths(task: TaskStatus, pods: Iterable[Object]) -> Iterator[Death]:
    """Yield the pods of a task that have failed, those that others follow too; without lines."""
    for pod in pods:
        if pod.get("status", {}).get("phase") == "Failed":
            yield _death(task, pod)


def read(value: Any) -> Evidence | None:  # noqa: ANN401 -- whatever a file holds
    """Return what was kept; None where the file is no such thing."""
    try:
        found = [_read(one) for one in value["deaths"]]
        texts = ("task_id", "name", "namespace", "server", "created_at")
        own = {field: str(value[field]) for field in texts}
    except (KeyError, TypeError, ValueError, OverflowError):
        return None
    return Evidence(**own, deaths=tuple(found))


def _last(lines: Sequence[bytes]) -> tuple[str, ...]:
    """Return the last of these lines, within the bounds; of one that is too long its end."""
    kept: list[str] = []
    left = BYTES
    for line in reversed(lines[-LINES:]):
        if len(line) > left:
            break
        left -= len(line)
        kept.append(line.decode(errors="replace"))
    if lines and not kept:
        kept.append(lines[-1][-BYTES:].decode(errors="replace"))
    return tuple(reversed(kept))


def _death(task: TaskStatus, pod: Object) -> Death:
    rank = task.workload.rank(pod)
    seen = of_pod(NodeStatus(rank, task.workload.title(rank), ""), pod)
    told = "deletionTimestamp" in pod["metadata"]  # to end; it did not by itself
    return Death(
        rank=rank,
        name=seen.name,
        pod=seen.pod,
        host=seen.host,
        reason=STOPPED if told else seen.reason,
        message=seen.message,
        ended_at=seen.ended_at,
        exit_code=seen.exit_code,
    )


def _read(value: Mapping[str, Any]) -> Death:
    rank = int(value["rank"])
    code = value.get("exit_code")
    return Death(
        rank=rank,
        exit_code=None if code is None else int(code),
        lines=tuple(str(line) for line in value.get("lines") or ())[-LINES:],
        **{name: str(value.get(name) or "") for name in _TEXTS},
    )


def _order(death: Death) -> tuple[bool, bool, str, int]:
    """As TaskStatus orders failures: those stopped for another, and without a time, come last."""
    return (death.reason == STOPPED, not death.ended_at, death.ended_at, death.rank)
