"""Compare tasks with their Kueue queues: what is never admitted, and when the others may be."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress

from kubectl_sky.actions import queues
from kubectl_sky.cluster import access, objects, parallel
from kubectl_sky.cluster.session import Json, Session
from kubectl_sky.errors import Forbidden, NotServed, Refused
from kubectl_sky.plan import quota
from kubectl_sky.words import kinds, names
from kubectl_sky.words.core_objects import LimitRange, PriorityClass
from kubectl_sky.workloads.demand import pods


def check(
    session: Session, namespace: str, workloads: Sequence[Json], limit_ranges: Sequence[LimitRange]
) -> None:
    """Refuse tasks that their Kueue queue could never admit. Raises Refused.

    Nodes wait for each other, also where each is a workload of its own. Skipped without permission
    to list the queues.
    """
    queued = [(item, queue) for item in workloads if (queue := _queue(item))]
    if not queued:
        return

    try:
        local_queues, cluster_queues = parallel.map_parallel(
            lambda query: access.list_kueue(session, *query),
            ((kinds.LOCAL_QUEUE, namespace), (kinds.CLUSTER_QUEUE, None)),
        )
    except (Forbidden, NotServed):
        return

    by_name = {item.metadata.name: item for item in cluster_queues}
    quotas = {item.metadata.name: by_name.get(item.spec.cluster_queue) for item in local_queues}
    tasks: dict[tuple[str, str], list[quota.Pods]] = defaultdict(list)
    for item, queue in queued:
        tasks[item["metadata"]["labels"][names.TASK_ID], queue] += pods(item)

    lines = [
        f'can never be admitted: queue "{queue}": {line}'
        for (_, queue), nodes in tasks.items()
        if (cluster_queue := quotas.get(queue))
        for line in quota.queue_exceeded(nodes, cluster_queue, limit_ranges)
    ]

    if lines:
        hint = f"see `kubectl sky queues status {queued[0][1]}`; request less, or use another queue"
        raise Refused("\n".join(dict.fromkeys(lines)), hint)


def forecasts(session: Session, namespace: str, workloads: Sequence[Json]) -> Iterator[str]:
    """Yield when each task would be admitted, as far as the user may read the queues.

    Tasks that no queue admits yet, such as later stages, have no forecast.
    """
    tasks: dict[tuple[str, str], list[Json]] = defaultdict(list)
    for item in workloads:
        labels = item["metadata"]["labels"]
        if names.QUEUE in labels:
            tasks[labels[names.TASK_ID], labels[names.QUEUE]].append(item)

    if not tasks:
        return

    limit_ranges: list[LimitRange] = []
    with suppress(Forbidden):
        limit_ranges = objects.list_all(session, kinds.LIMIT_RANGE, namespace)
    by_name = {}
    with suppress(Forbidden):
        by_name = {queue.name: queue for queue in queues.list_queues(session)}

    for (task_id, name), items in tasks.items():
        if name not in by_name:
            continue

        queue = by_name[name]
        nodes = [group for item in items for group in pods(item)]
        fits = quota.fits_unused(nodes, queue.unused, limit_ranges) if queue.unused else None
        priority = _priority(session, items[0]) if queue.waiting else 0
        prefix = f"{task_id}: " if len(tasks) > 1 else ""
        yield f'{prefix}queue "{name}": {queue.forecast(fits=fits, priority=priority)}'


def _queue(item: Json) -> str:
    """Return the queue of a workload, or the one it gets when it is resumed; empty for none."""
    labels, annotations = (item["metadata"].get(part) or {} for part in ("labels", "annotations"))
    return str(labels.get(names.QUEUE) or annotations.get(names.LATER_QUEUE) or "")


def _priority(session: Session, item: Json) -> int:
    """Return the priority of a workload in its queue; 0 if its class is not readable."""
    queue_class = item["metadata"]["labels"].get(names.QUEUE_CLASS)
    name = queue_class or next(iter(pods(item))).spec.priority_class_name
    classes: list[PriorityClass] = []
    with suppress(Forbidden, NotServed):
        if queue_class:
            classes = access.list_kueue(session, kinds.QUEUE_PRIORITY)
        elif name:
            classes = objects.list_all(session, kinds.PRIORITY_CLASS)
    return next((it.value for it in classes if it.metadata.name == name), 0)
