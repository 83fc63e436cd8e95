"""Tell what would happen to tasks: what is never admitted, and when and where the others start."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress

from kubectl_sky.actions import queues
from kubectl_sky.cluster import access, objects, parallel
from kubectl_sky.cluster.session import Json, Session
from kubectl_sky.errors import Forbidden, NotServed, Refused
from kubectl_sky.observe.admission import Outlook, admit_all
from kubectl_sky.observe.forecast import ClusterState, Demand, forecast
from kubectl_sky.plan.plan import Plan
from kubectl_sky.tasks import room
from kubectl_sky.words import kinds, names
from kubectl_sky.words.core_objects import LimitRange, PriorityClass
from kubectl_sky.workloads import registry
from kubectl_sky.workloads.demand import pods

Tasks = dict[tuple[str, str], list[Json]]  # their workloads, by id and queue


def check(
    session: Session, namespace: str, workloads: Sequence[Json], limit_ranges: Sequence[LimitRange]
) -> None:
    """Refuse tasks that their Kueue queue could never admit. Raises Refused.

    Nodes wait for each other, also where each is a workload of its own. Skipped without permission
    to list the queues.
    """
    tasks = {key: items for key, items in _by_task(workloads, later=True).items() if key[1]}
    states = queues.read_states(session, namespace) if tasks else {}
    lines = []
    for (_, name), items in tasks.items():
        if name not in states:
            continue
        admission = admit_all([list(pods(item)) for item in items], states[name], limit_ranges)
        if admission.outlook is Outlook.NEVER:
            lines.append(f'can never be admitted: queue "{name}": {admission.reason}')

    if lines:
        queue = next(iter(tasks))[1]
        hint = f"see `kubectl sky queues status {queue}`; request less, or use another queue"
        raise Refused("\n".join(dict.fromkeys(lines)), hint)


def describe(
    session: Session, namespace: str, workloads: Sequence[Json], plans: Sequence[Plan]
) -> Iterator[str]:
    """Yield for each task when and where it would start, as far as the user may read that.

    Tasks that wait for others, such as later stages, have no forecast.
    """
    tasks = _by_task(workloads)
    if not tasks:
        return
    cluster = _read_cluster(session)
    has_queue = any(queue for _, queue in tasks)
    known = queues.read_local_queues(session, namespace) if has_queue else {}
    limit_ranges: list[LimitRange] = []
    with suppress(Forbidden):
        limit_ranges = objects.list_all(session, kinds.LIMIT_RANGE, namespace)

    topologies = {plan.id: plan.gang.topology for plan in plans if plan.gang}
    for (task_id, queue), items in tasks.items():
        topology = topologies.get(task_id)
        levels = [topology] if topology else []
        demand = _demand(session, items, queue, levels)
        found = forecast(demand, cluster, known.get(queue), limit_ranges)
        prefix = f"{task_id}: " if len(tasks) > 1 else ""
        yield f"forecast: {prefix}{found}"


def _by_task(workloads: Sequence[Json], *, later: bool = False) -> Tasks:
    """Return the workloads of each task; those that are resumed later only if asked for."""
    tasks: Tasks = defaultdict(list)
    for item in workloads:
        metadata = item["metadata"]
        labels = metadata.get("labels") or {}
        annotations = metadata.get("annotations") or {}
        queue = labels.get(names.QUEUE, "")
        if later:
            queue = queue or annotations.get(names.LATER_QUEUE, "")
        elif registry.is_suspended(item) and not queue:
            continue
        tasks[labels[names.TASK_ID], queue].append(item)
    return tasks


def _read_cluster(session: Session) -> ClusterState:
    with parallel.pool(2) as pool:
        listed = pool.submit(room.list_cluster_nodes, session)
        priorities: list[PriorityClass] | None = None
        with suppress(Forbidden, NotServed):
            priorities = objects.list_all(session, kinds.PRIORITY_CLASS)
        nodes = listed.result()
    return ClusterState(nodes or None, room.list_running(session, nodes), priorities)


def _demand(session: Session, items: Sequence[Json], queue: str, levels: Sequence[str]) -> Demand:
    first = items[0]
    labels = first["metadata"].get("labels") or {}
    priority = None
    if queue_class := labels.get(names.QUEUE_CLASS):
        with suppress(Forbidden, NotServed):
            classes = access.list_kueue(session, kinds.QUEUE_PRIORITY)
            priority = next((it.value for it in classes if it.metadata.name == queue_class), None)
    return Demand(
        [list(pods(item)) for item in items],
        independent=registry.of_manifest(first).independent_nodes,
        levels=levels,
        queue=queue,
        queue_priority=priority,
        level=_read_level(items),
    )


def _read_level(items: Sequence[Json]) -> str | None:
    """Return the level of Kueue's topology that all pods require; None for other requests."""
    templates = [
        template for item in items for template in registry.of_manifest(item).templates(item)
    ]
    wanted = [
        {
            key: value
            for key, value in ((it.get("metadata") or {}).get("annotations") or {}).items()
            if key.startswith(names.POD_SET_PREFIX)
        }
        for it in templates
    ]
    if not any(wanted):
        return ""
    is_plain = len(wanted) == 1 and wanted[0].keys() == {names.REQUIRED_TOPOLOGY}
    return str(wanted[0][names.REQUIRED_TOPOLOGY]) if is_plain else None
