"""Say what the deletion of objects waits for: finalizers, grace periods, lost cluster nodes."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from kubectl_sky.observe.nodes import is_silent
from kubectl_sky.words import age, bounded
from kubectl_sky.words.objects import Metadata, Object
from kubectl_sky.words.pod_objects import Pod
from kubectl_sky.words.task_objects import TaskObject

_DEPENDENTS = "foregroundDeletion"  # a finalizer of Kubernetes
# Finalizers that Kubernetes removes when the pod of a Job has ended, or the dependents are gone.
_PASSING = (_DEPENDENTS, "orphan", "batch.kubernetes.io/job-tracking")
_LISTED = 4
_LONGEST = 2**31  # seconds of a grace period


class Hold(Struct, frozen=True):
    """Why an object that is deleted still exists, and the next step.

    `seconds_left` are those of a pod's grace period, if the object only waits for that.
    """

    name: str
    why: str
    step: str
    seconds_left: float | None = None

    def __str__(self) -> str:
        """Return `Job train-kqf7x2wm waits for finalizer example.com/stuck`."""
        return f"{self.name} {self.why}"


class Deletion(Struct, frozen=True):
    """Since when the objects of a task are being deleted, what that waits for, and what to do.

    `passes` is whether nothing but grace periods keeps its pods.
    """

    since: str = ""
    why: str = ""
    step: str = ""
    passes: bool = False

    def __str__(self) -> str:
        """Return `deleting since TIME: waits for finalizer example.com/stuck`; empty if it is not.

        A note has no age: it would be another one each second.
        """
        if not self.since:
            return ""
        return f"deleting since {self.since}" + (f": {self.why}" if self.why else "")


NOT_DELETED = Deletion()


def is_terminating(item: Object) -> bool:
    """Return whether an object is being deleted."""
    return bool(item.metadata.deletion_timestamp)


def finalizers(metadata: Metadata) -> list[str]:
    """Return the finalizers that others than Kubernetes have to remove."""
    return [name for name in metadata.finalizers if name not in _PASSING]


def hold_of(kind: str, metadata: Metadata) -> Hold:
    """Return why an object other than a pod still exists."""
    described = f"`kubectl describe {kind.lower()} {metadata.name}`"
    title = f"{kind} {metadata.name}"
    left = None
    if waits := _waits_for_finalizers(metadata):
        step = f"its controller, or a cluster admin, has to remove the finalizer: see {described}"
    else:
        has_dependents = _DEPENDENTS in metadata.finalizers
        waits = "waits for its pods to be deleted" if has_dependents else "is not deleted yet"
        step = f"see {described}"
        left = 0.0  # a moment after its pods
    return Hold(title, waits, step, left)


def hold_of_pod(pod: Pod, title: str, now: datetime | None = None) -> Hold:
    """Return why a pod still exists; `title` names its node.

    With the server's time, this says how much of a grace period is left, otherwise when it ends.
    """
    metadata = pod.metadata
    host = pod.spec.node_name
    described = f"see `kubectl describe pod {metadata.name}`"
    if not is_terminating(pod):
        return Hold(title, f"has a pod that is not being deleted: {metadata.name}", described)
    has_ended = not host or pod.status.has_ended
    if (waits := _waits_for_finalizers(metadata)) and has_ended:
        return Hold(title, waits, f"its controller has to remove the finalizer: {described}")
    if is_silent(pod):
        return Hold(title, f"is on cluster node {host}, which does not respond", repair(host))

    ends = age.parse(metadata.deletion_timestamp)
    step = f"wait until then; `kubectl get pod {metadata.name}` shows whether it has stopped"
    if not now or not ends:
        return Hold(title, f"is stopping until {metadata.deletion_timestamp} (grace period)", step)
    left = ends - now
    if left <= timedelta():
        late = f"has not stopped within its grace period, on cluster node {host}"
        return Hold(title, waits or late, described, left.total_seconds())
    why = f"is stopping: up to {age.duration(left)} more (grace period)"
    return Hold(title, why, step, left.total_seconds())


def repair(host: str) -> str:
    """Return how pods of a cluster node that does not respond come to an end."""
    return f"ask a cluster admin to repair cluster node {host}, or to delete it if it is lost"


def _waits_for_finalizers(metadata: Metadata) -> str:
    names = finalizers(metadata)
    return f"waits for finalizer{'s' if names[1:] else ''} {', '.join(names)}" if names else ""


def deletion_of(
    items: Iterable[TaskObject], pods: Sequence[Pod], title: Callable[[Pod], str]
) -> Deletion:
    """Return what the deletion of a task waits for; `title` names the node of a pod.

    A finalizer of its objects counts first, then the pods.
    """
    deleting = list(filter(is_terminating, items))
    if not deleting:
        return NOT_DELETED

    since = min(_requested_at(item) for item in deleting)
    holds = [hold_of(item.kind, item.metadata) for item in deleting]
    stuck = [bool(finalizers(item.metadata)) for item in deleting]
    if any(stuck):
        holds = [hold for hold, is_stuck in zip(holds, stuck, strict=True) if is_stuck]
        return Deletion(since, "; ".join(dict.fromkeys(hold.why for hold in holds)), holds[0].step)

    stopping = list(filter(is_terminating, pods))
    if not stopping:
        return Deletion(since, holds[0].why, holds[0].step, passes=True)

    first, *others = [hold_of_pod(pod, title(pod)) for pod in stopping]
    more = f" and {len(others)} more" if others else ""
    passes = not any(is_silent(pod) or finalizers(pod.metadata) for pod in stopping)
    return Deletion(since, f"{first}{more}", first.step, passes)


def _requested_at(item: Object) -> str:
    """Return when the deletion began: the timestamp of an object is the end of its grace period."""
    text = item.metadata.deletion_timestamp
    seconds = bounded.integer(item.metadata.deletion_grace_period_seconds, _LONGEST)
    ends = age.parse(text)
    return age.timestamp(ends - timedelta(seconds=seconds)) if ends and seconds else text


def summarize(holds: Sequence[Hold]) -> list[str]:
    """Return a text for each of the first objects, and how many more there are."""
    more = [f"and {len(holds) - _LISTED} more"] if holds[_LISTED:] else []
    return [*map(str, holds[:_LISTED]), *more]
