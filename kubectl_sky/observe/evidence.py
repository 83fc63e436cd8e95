"""Record how failed nodes of a task ended, with the last lines of their logs."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct
from msgspec.structs import asdict, replace

from kubectl_sky.observe.nodes import (
    JOB_NOT_FOUND,
    POD_DELETED,
    NodeStatus,
    Object,
    State,
    end_text,
    of_pod,
    was_deleted,
    with_runtime_reason,
)
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.plan.resources import gpus_of
from kubectl_sky.workloads.workload import STOPPED

if TYPE_CHECKING:
    from kubectl_sky.words import models

LINES = 50  # lines of each node's log
BYTES = 64 * 1024  # bytes of those lines
_MAX_GPUS = 1_000_000  # of a pod
LOGS = 16  # nodes whose log lines are kept: the first to fail
_TEXTS = ("name", "pod", "host", "reason", "message", "started_at", "ended_at", "gpu")


class Death(Struct, frozen=True):
    """A failed pod of a node, and its last log lines.

    `exit_code` is None if the container never ran. `gpus` is how many GPUs of the model `gpu` it
    held since `started_at`; None without GPUs.
    """

    rank: int
    name: str
    pod: str
    host: str = ""
    reason: str = ""
    message: str = ""
    ended_at: str = ""
    exit_code: int | None = None
    lines: tuple[str, ...] = ()
    started_at: str = ""
    gpus: int | None = None
    gpu: str = ""

    @property
    def end(self) -> str:
        """The reason, or the exit code and its meaning."""
        return end_text(self.reason, self.exit_code)

    def having(self, lines: Sequence[bytes]) -> "Death":
        """Return a copy with the last of these log lines."""
        return replace(self, lines=_last(lines))

    def as_json(self) -> "models.DeletedPod":
        """Return the death as JSON values; fields that are not set are left out."""
        values = asdict(self) | {"lines": list(self.lines)}
        fields = {name: value for name, value in values.items() if value not in ("", None)}
        return cast("models.DeletedPod", fields)


class Evidence(Struct, frozen=True):
    """The deaths of one task, oldest first, and the identity of the task and server.

    `user` is the owner, empty in records of earlier versions.
    """

    task_id: str
    name: str
    namespace: str
    server: str
    created_at: str
    deaths: tuple[Death, ...] = ()
    user: str = ""

    def of(self, task: TaskStatus) -> bool:
        """Return whether it belongs to this task, and not to an older one with its id."""
        return (self.task_id, self.created_at) == (task.id, task.created_at)

    def having(self, more: Iterable[Death]) -> "Evidence":
        """Return a copy with more deaths; a pod that is already recorded stays as it is."""
        by_pod = {death.pod: death for death in (*more, *self.deaths)}
        return replace(self, deaths=tuple(sorted(by_pod.values(), key=_order)))

    def settled(self, task: TaskStatus) -> "Evidence":
        """Return a copy in which the pods of stopped nodes did not fail by themselves."""
        deaths = (settled(death, task) for death in self.deaths)
        return replace(self, deaths=tuple(sorted(deaths, key=_order)))

    def gone(self, task: TaskStatus) -> "Evidence":
        """Return a copy without the pods that still exist.

        The cluster has the logs of those pods. If the remaining ones were only stopped because of
        another failure, the copy has no deaths.
        """
        existing = {name for node in task.nodes for name in (node.pod, node.previous)}
        remaining = tuple(death for death in self.deaths if death.pod not in existing)
        has_cause = any(death.reason != STOPPED for death in remaining)
        return replace(self, deaths=remaining if has_cause else ())

    def as_json(self) -> dict[str, object]:
        """Return the evidence as it is stored."""
        return asdict(self) | {"deaths": [death.as_json() for death in self.deaths]}


def deaths(task: TaskStatus, pods: Iterable[Object]) -> Iterator[Death]:
    """Yield the failed pods of a task, including replaced ones, without log lines."""
    for pod in pods:
        if pod.get("status", {}).get("phase") == "Failed":
            yield _death(task, pod)


def settled(death: Death, task: TaskStatus) -> Death:
    """Return the death as stopped if that is how its node ended.

    Pods and workloads are watched separately: a pod can be deleted before the change of the
    workload arrives that had it deleted.
    """
    stopped = (node.index for node in task.nodes if node.reason == STOPPED)
    is_stopped = death.reason == POD_DELETED and death.rank in stopped
    return replace(death, reason=STOPPED) if is_stopped else death


def restored(task: TaskStatus, record: Evidence) -> TaskStatus:
    """Return the task with the recorded causes of failed nodes that have no pod any more."""
    causes = {death.rank: death for death in record.gone(task).deaths if death.reason != STOPPED}

    known = (JOB_NOT_FOUND,) if task.workload.fail_fast else (JOB_NOT_FOUND, STOPPED)

    def restore(node: NodeStatus) -> NodeStatus:
        death = causes.get(node.index)
        if death is None or node.pod or node.state is not State.FAILED or node.reason in known:
            return node
        status = replace(
            node,
            reason=death.reason,
            message=death.message,
            exit_code=death.exit_code,
            host=death.host,
            started_at=death.started_at,
            ended_at=death.ended_at or node.ended_at,
        )
        return with_runtime_reason(status)

    return replace(task, nodes=tuple(map(restore, task.nodes)))


def read(value: Any) -> Evidence | None:  # noqa: ANN401 -- any JSON
    """Parse stored evidence; return None if it is invalid."""
    try:
        parsed = [_read(death) for death in value["deaths"]]
        texts = ("task_id", "name", "namespace", "server", "created_at")
        fields = {field: str(value[field]) for field in texts}
    except (KeyError, TypeError, ValueError, OverflowError):
        return None
    return Evidence(**fields, deaths=tuple(parsed), user=str(value.get("user") or ""))


def _last(lines: Sequence[bytes]) -> tuple[str, ...]:
    """Return the last lines within the limits.

    If the last line alone is too long, its end is returned.
    """
    texts: list[str] = []
    remaining = BYTES
    for line in reversed(lines[-LINES:]):
        if len(line) > remaining:
            break
        remaining -= len(line)
        texts.append(line.decode(errors="replace"))
    if lines and not texts:
        texts.append(lines[-1][-BYTES:].decode(errors="replace"))
    return tuple(reversed(texts))


def _death(task: TaskStatus, pod: Object) -> Death:
    rank = task.workload.rank(pod)
    status = of_pod(NodeStatus(rank, task.workload.title(rank), ""), pod)
    node = next((node for node in task.nodes if node.index == rank), None)
    # Stopped pods did not fail by themselves. The controllers of some backends delete them before
    # the object has failed.
    stopped = was_deleted(pod) and (
        task.workload.fail_fast or (node is not None and node.reason == STOPPED)
    )
    gpus = gpus_of(pod)
    return Death(
        rank=rank,
        name=status.name,
        pod=status.pod,
        host=status.host,
        reason=STOPPED if stopped else status.reason,
        message=status.message,
        ended_at=status.ended_at,
        exit_code=status.exit_code,
        started_at=pod.get("status", {}).get("startTime") or "",
        gpus=gpus.count if gpus else None,
        gpu=gpus.model if gpus else "",
    )


def _read(value: Mapping[str, Any]) -> Death:
    rank = int(value["rank"])
    code, gpus = value.get("exit_code"), value.get("gpus")
    if gpus is not None and not 0 < int(gpus) <= _MAX_GPUS:
        raise ValueError("invalid number of GPUs")
    return Death(
        rank=rank,
        gpus=None if gpus is None else int(gpus),
        exit_code=None if code is None else int(code),
        lines=tuple(str(line) for line in value.get("lines") or ())[-LINES:],
        **{name: str(value.get(name) or "") for name in _TEXTS},
    )


def _order(death: Death) -> tuple[bool, bool, str, int]:
    """Return the sort key, in the order of TaskStatus.first_failure.

    Deaths stopped for another failure, and those without a time, come last.
    """
    return (death.reason == STOPPED, not death.ended_at, death.ended_at, death.rank)
