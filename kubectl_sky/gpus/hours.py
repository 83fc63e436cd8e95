"""Count the GPU-hours of tasks: from the objects that run them, and their pods while they exist.

While all pods of an object exist, each holds its GPUs from the time that its cluster node accepted
it until its containers have ended. If some are deleted, the object holds the GPUs of all its pods
from its start to its end, which are in its status. That includes the time in which they waited for
cluster nodes, unless a queue admitted the object. Deleted objects are not known to the cluster.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Annotated

from msgspec import Struct

from kubectl_sky.observe import status
from kubectl_sky.observe.ownership import TaskObjects
from kubectl_sky.plan.resources import Gpus, gpus_of
from kubectl_sky.words import age, bounded, names
from kubectl_sky.words.documents import Document, Note, Part
from kubectl_sky.words.pod_objects import Pod
from kubectl_sky.words.task_objects import TaskObject
from kubectl_sky.workloads import registry

Labels = Mapping[str, Mapping[str, str]]  # of cluster nodes, by name
Hours = Mapping[tuple[str, str], float]  # of tasks, by namespace and id

_HOUR = timedelta(hours=1)


class Span(Struct, frozen=True):
    """The time in which a pod of a task, or an object with deleted pods, held GPUs.

    It is not exact if pods may have waited for a cluster node for a part of it, or if the start is
    not known, or if other objects of the task are deleted.
    """

    namespace: str
    task_id: str
    name: str
    user: str
    gpus: Gpus
    start: datetime
    end: datetime
    is_exact: bool = True

    def hours(self, since: datetime | None = None) -> float:
        start = max(self.start, since) if since else self.start
        return self.gpus.count * max((self.end - start) / _HOUR, 0)


def of_tasks(tasks: Iterable[TaskObjects], now: datetime) -> Hours:
    """Return the GPU-hours of tasks until now; a task that never held GPUs has none."""
    hours: dict[tuple[str, str], float] = defaultdict(float)
    for span in spans(tasks, now):
        hours[span.namespace, span.task_id] += span.hours()
    return hours


def spans(
    tasks: Iterable[TaskObjects], now: datetime, cluster_nodes: Labels | None = None
) -> Iterator[Span]:
    """Yield the times of the objects that held GPUs; `cluster_nodes` tell their models."""
    for task in tasks:
        for item in task.items:
            pods = task.pods.get(item.metadata.uid, ())
            for gpus, start, end, is_exact in _times(item, pods, now, cluster_nodes or {}):
                yield Span(
                    *task.key,
                    status.name_of(item),
                    status.user_of(item),
                    gpus,
                    start,
                    max(start, end),
                    is_exact and not task.lacks,
                )


def _times(
    item: TaskObject, pods: Sequence[Pod], now: datetime, cluster_nodes: Labels
) -> Iterator[tuple[Gpus, datetime, datetime, bool]]:
    """Yield GPUs, start and end of each pod of an object, or of all if some are deleted.

    The last value is whether the GPUs were held all that time. An object that has not started, or
    is suspended, yields nothing.
    """
    backend = registry.of(item)
    ended = backend.ended_at(item)
    start = age.parse(backend.started_at(item))
    end = age.parse(ended) if ended else now

    if start and end and len(pods) >= _pods_made(item):
        for pod in pods:
            gpus = gpus_of(pod.spec, cluster_nodes.get(pod.spec.node_name))
            pod_start = age.parse(pod.status.start_time)
            if gpus and pod_start:
                yield gpus, pod_start, _pod_end(pod, pod_start, end), True
    elif end and (start or ended):
        gpus = _read_request(item)
        is_exact = bool(start) and names.QUEUE in item.metadata.labels
        if gpus:
            yield gpus, start or end, end, is_exact and not backend.independent_nodes


def _pods_made(item: TaskObject) -> int:
    """Return how many pods an object has created, including deleted ones; at least 1."""
    backend = registry.of(item)
    state = item.status
    counted = state.active + state.failed + state.succeeded
    return max(backend.attempts(item) * len(backend.ranks(item)), counted, 1)


def _pod_end(pod: Pod, start: datetime, end: datetime) -> datetime:
    """Return when a pod ended, or `end` if it has not.

    An evicted pod may have no terminated container: then its last condition counts.
    """
    state = pod.status
    if not state.has_ended:
        return end
    ended = (status.state.terminated for status in state.container_statuses)
    ends = [age.parse(end.finished_at) for end in ended if end]
    changes = [age.parse(item.last_transition_time) for item in state.conditions]
    return max(filter(None, ends), default=max(filter(None, changes), default=start))


def _read_request(item: TaskObject) -> Gpus | None:
    """Return the GPUs of all pods that an object runs at a time; None if it has none."""
    backend = registry.of(item)
    count = 0
    model = ""

    templates = backend.pod_templates(item)
    for template, number in zip(templates, backend.pod_counts(item), strict=True):
        gpus = gpus_of(template.spec)
        if gpus:
            count = count + gpus.count * number
            model = gpus.model

    if backend.independent_nodes:  # its controller creates as many pods as it may
        count *= bounded.integer(item.spec.parallelism)
    return Gpus(count, model) if count > 0 else None


class GpuHours(Struct, frozen=True, rename={"hours": "gpu_hours"}):
    """The GPU-hours of a user, a task name or a GPU."""

    key: Annotated[str, Note("the user, the task name or the GPU, as `by`")]
    tasks: int
    hours: float

    @property
    def rounded(self) -> "GpuHours":
        return GpuHours(self.key, self.tasks, round(self.hours, 2))


class GpuHoursGoodput(Part, frozen=True):
    """How much of the GPU-hours of finished tasks went into new steps, as far as recorded."""

    percent: Annotated[float, Note("of the GPU-hours of the `known` tasks")]
    known: Annotated[int, Note("finished tasks of which it was recorded")]
    finished: Annotated[int, Note("finished tasks")]


class GpuHoursList(Document, frozen=True, kw_only=True, rename={"inexact": "inexact_tasks"}):
    """GPU-hours of the tasks that exist, also if their pods are deleted: `usage`, `GET /usage`."""

    since: datetime
    by: Annotated[str, Note("`user`, `name` or `gpu`")]
    rows: list[GpuHours]
    total: GpuHours
    inexact: Annotated[int, Note("tasks of which pods or Jobs are deleted")]
    goodput: GpuHoursGoodput | None = None

    def __repr__(self) -> str:
        """Return what a Python shell shows, on one line."""
        return f"<Usage since {self.since:%Y-%m-%d}: {self.total.hours:.1f} GPU-hours>"


Usage = GpuHoursList  # its name in the Python API


KEYS: Mapping[str, Callable[[Span], str]] = {
    "user": lambda span: span.user,
    "name": lambda span: span.name,
    "gpu": lambda span: span.gpus.model,
}


def rows(spans_: Iterable[Span], by: str, since: datetime) -> list[GpuHours]:
    groups: dict[str, list[Span]] = defaultdict(list)
    for span in spans_:
        groups[KEYS[by](span)].append(span)
    result = [total(members, since, key) for key, members in groups.items()]
    return sorted(result, key=lambda row: (-row.hours, row.key))


def total(spans_: Iterable[Span], since: datetime, key: str = "total") -> GpuHours:
    tasks = set()
    hours = 0.0
    for span in spans_:
        tasks.add((span.namespace, span.task_id))
        hours += span.hours(since)
    return GpuHours(key, len(tasks), hours)


def goodput(
    spans_: Iterable[Span], tasks: Iterable[TaskObjects], since: datetime
) -> GpuHoursGoodput | None:
    """Return how much of the GPU-hours of finished tasks went into new steps; None if unknown."""
    hours: dict[tuple[str, str], float] = defaultdict(float)
    for span in spans_:
        hours[span.namespace, span.task_id] += span.hours(since)

    finished = [task for task in map(status.of, tasks) if task.state.ended]
    finished = [task for task in finished if (task.namespace, task.id) in hours]
    known = [task for task in finished if task.goodput]
    total = sum(hours[task.namespace, task.id] for task in known)
    if not total:
        return None
    of_steps = sum(
        hours[task.namespace, task.id] * task.goodput.share_of_gpu_time
        for task in known
        if task.goodput
    )
    return GpuHoursGoodput(round(100 * of_steps / total, 1), len(known), len(finished))


def inexact(spans_: Iterable[Span]) -> int:
    return len({(span.namespace, span.task_id) for span in spans_ if not span.is_exact})
