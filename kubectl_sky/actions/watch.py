"""Watch a task: its status each time that something changed."""

from collections.abc import Iterator
from dataclasses import dataclass
from threading import Event
from time import monotonic

from kubectl_sky import kinds, names
from kubectl_sky.cluster import objects
from kubectl_sky.cluster.session import Json, Session
from kubectl_sky.cluster.watch import Change, watch_kinds
from kubectl_sky.errors import SkyError, TaskFailed
from kubectl_sky.observe import status
from kubectl_sky.observe.status import TaskStatus


@dataclass(frozen=True)
class Glimpse:
    """A task as it was at one moment, with the pods that it had."""

    task: TaskStatus
    pods: tuple[Json, ...]


def glimpses(
    session: Session, seen: TaskStatus, stop: Event | None = None
) -> Iterator[Glimpse | None]:
    """Yield the task at each change, beginning with how it is; None when nothing happens.

    Raises TaskFailed when its objects are deleted: somebody has stopped it.
    """
    items: dict[str, Json] = {}
    watched = (seen.workload.kind, kinds.POD)
    unsynced = len(watched)
    selector = names.selector(task_id=seen.id)
    for change in watch_kinds(session, watched, seen.namespace, selector, stop=stop):
        if change is None:
            yield None
            continue
        if change.type is Change.SYNCED:
            unsynced -= 1
        elif change.type is Change.DELETED:
            items.pop(change.object["metadata"]["uid"], None)
        else:
            items[change.object["metadata"]["uid"]] = change.object
        if unsynced > 0:
            continue
        glimpse = _glimpse(seen, list(items.values()))
        if glimpse.task.over and not _settled(glimpse):
            # They are told of apart, and a Job may come before the pod that it failed by.
            pods = objects.list_all(session, kinds.POD, seen.namespace, label_selector=selector)
            items |= {pod["metadata"]["uid"]: pod for pod in pods}
            glimpse = _glimpse(seen, list(items.values()))
        yield glimpse


def _settled(glimpse: Glimpse) -> bool:
    phases = [pod.get("status", {}).get("phase") for pod in glimpse.pods]
    ended = [phase for phase in phases if phase in ("Succeeded", "Failed")]
    return len(ended) >= glimpse.task.num_nodes + glimpse.task.restarts


def _glimpse(seen: TaskStatus, items: list[Json]) -> Glimpse:
    pods = [item for item in items if item["kind"] == kinds.POD.kind]
    folded = status.tasks((item for item in items if item["kind"] != kinds.POD.kind), pods)
    if not folded:
        what = f"its {seen.workload.kind.kind}s have been deleted"
        raise TaskFailed(f"task {seen.id} ({seen.name}) was stopped: {what}")
    return Glimpse(folded[0], tuple(pods))


def ended(session: Session, seen: TaskStatus, end: float | None) -> TaskStatus:
    """Wait until a task has completed or failed; `end` is on the monotonic clock."""
    if seen.state.ended:
        return seen
    latest = seen
    for glimpse in glimpses(session, seen):
        if glimpse:
            latest = glimpse.task
        if latest.state.ended:
            return latest
        if end is not None and monotonic() >= end:
            break
    note = f": {latest.note}" if latest.note else ""
    raise SkyError(
        f"gave up waiting for task {seen.id} ({seen.name}), which is {latest.state}{note}",
        f"see `kubectl sky status {seen.id}`",
    )
