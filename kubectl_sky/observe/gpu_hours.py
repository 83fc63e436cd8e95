"""Count the GPU-hours of tasks: from their pods, and from the records of failed pods.

A pod holds its GPUs from the time that its cluster node has accepted it until its containers have
ended. What was deleted before it was recorded is not known to the cluster, and so not counted.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import isfinite
from typing import TYPE_CHECKING

from kubectl_sky.observe.evidence import Evidence
from kubectl_sky.observe.nodes import Object
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.observe.usage import Gpus, gpus_of
from kubectl_sky.plan import accelerators
from kubectl_sky.words import age

if TYPE_CHECKING:
    from kubectl_sky.words import models

_HOUR = timedelta(hours=1)


@dataclass(frozen=True)
class Span:
    """The time in which a pod of a task held GPUs."""

    namespace: str
    task_id: str
    name: str
    user: str
    gpus: Gpus
    start: datetime
    end: datetime

    def hours(self, since: datetime | None = None) -> float:
        """Return the GPU-hours after a time."""
        start = max(self.start, since) if since else self.start
        return self.gpus.count * max((self.end - start) / _HOUR, 0)


def spans(
    task: TaskStatus,
    pods: Iterable[Object],
    cluster_nodes: Mapping[str, Mapping[str, str]],
    now: datetime,
) -> Iterator[Span]:
    """Yield the time of each pod of a task that has GPUs; `cluster_nodes` has labels by name."""
    for pod in pods:
        gpus = gpus_of(pod, cluster_nodes.get(pod.get("spec", {}).get("nodeName") or ""))
        start = _time(pod.get("status", {}).get("startTime"))
        if gpus and start:
            yield _span(task, gpus, start, _end(pod, start, now))


def _span(task: TaskStatus | Evidence, gpus: Gpus, start: datetime, end: datetime) -> Span:
    task_id = task.id if isinstance(task, TaskStatus) else task.task_id
    return Span(task.namespace, task_id, task.name, task.user, gpus, start, max(start, end))


def recorded_spans(record: Evidence, existing: Iterable[str]) -> Iterator[Span]:
    """Yield the time of each recorded failed pod, except for pods that still exist."""
    pods = frozenset(existing)
    for death in record.deaths:
        start, end = _time(death.started_at), _time(death.ended_at)
        if death.gpus and start and end and death.pod not in pods:
            yield _span(record, Gpus(death.gpus, death.gpu), start, end)


def _end(pod: Object, start: datetime, now: datetime) -> datetime:
    """Return when a pod ended, or the current time.

    An evicted pod may have no terminated container: then its last condition counts.
    """
    status = pod.get("status", {})
    if status.get("phase") not in ("Succeeded", "Failed"):
        return now
    states = [
        (container.get("state") or {}).get("terminated") or {}
        for container in status.get("containerStatuses") or ()
    ]
    ends = [_time(state.get("finishedAt")) for state in states]
    changes = [_time(item.get("lastTransitionTime")) for item in status.get("conditions") or ()]
    return max(filter(None, ends), default=max(filter(None, changes), default=start))


def _time(text: object) -> datetime | None:
    try:
        return age.parse(str(text)) if text else None
    except (ValueError, OverflowError):
        return None


@dataclass(frozen=True)
class Row:
    """The GPU-hours of a user, a task name or a GPU; `cost` is None without all prices."""

    key: str
    tasks: int
    hours: float
    cost: float | None

    def as_json(self) -> "models.GpuHours":
        """Return the row as JSON values."""
        cost = None if self.cost is None else round(self.cost, 2)
        return {
            "key": self.key,
            "tasks": self.tasks,
            "gpu_hours": round(self.hours, 2),
            "cost": cost,
        }


KEYS: Mapping[str, Callable[[Span], str]] = {
    "user": lambda span: span.user,
    "name": lambda span: span.name,
    "gpu": lambda span: span.gpus.model,
}


def rows(
    spans_: Iterable[Span], by: str, since: datetime, prices: Mapping[str, float]
) -> list[Row]:
    """Return a row for each user, task name or GPU, the largest first."""
    groups: dict[str, list[Span]] = defaultdict(list)
    for span in spans_:
        groups[KEYS[by](span)].append(span)
    result = [total(members, since, prices, key) for key, members in groups.items()]
    return sorted(result, key=lambda row: (-row.hours, row.key))


def total(
    spans_: Iterable[Span], since: datetime, prices: Mapping[str, float], key: str = "total"
) -> Row:
    """Return the sum of all times."""
    tasks, hours = set(), 0.0
    cost: float | None = 0.0 if prices else None
    for span in spans_:
        tasks.add((span.namespace, span.task_id))
        amount = span.hours(since)
        hours += amount
        price = price_of(span.gpus.model, prices)
        cost = None if cost is None or price is None else cost + amount * price
    return Row(key, len(tasks), hours, cost)


def price_of(model: str, prices: Mapping[str, float]) -> float | None:
    """Return the price of a model: its own, or that of the GPU that it is a variant of."""
    prices = {name: price for name, price in prices.items() if isfinite(price)}  # YAML has .nan
    for name, price in prices.items():
        if name.upper() == model.upper():
            return price
    variants = [name for name in prices if accelerators.matches(name, model)]
    return prices[max(variants, key=len)] if variants else None


def unpriced(spans_: Iterable[Span], prices: Mapping[str, float]) -> list[str]:
    """Return the models without a price; empty if there are no prices at all."""
    models = {span.gpus.model for span in spans_} if prices else set()
    return sorted(model for model in models if price_of(model, prices) is None)
