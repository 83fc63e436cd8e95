"""In which queue a task waits, and what machines made to order it asks for."""

from collections.abc import Iterator, Mapping

from kubectl_sky import names
from kubectl_sky.errors import ClusterError, UserError
from kubectl_sky.facts import Facts
from kubectl_sky.plan import priority
from kubectl_sky.settings import Settings
from kubectl_sky.spec.kubernetes import Kubernetes
from kubectl_sky.spec.task import Resources, Task

_FLEX_START = "cloud.google.com/gke-flex-start"
_MOST = 12  # queues that a message names
_RUN_SECONDS = "provreq.kueue.x-k8s.io/maxRunDurationSeconds"


def queue(asked: Kubernetes, settings: Settings) -> str | None:
    """Return Kueue's queue: the task's, else the settings'."""
    return (settings.queue if asked.queue is None else asked.queue) or None


def check(task: Task, facts: Facts, settings: Settings) -> None:
    """Refuse a queue in which a task would wait for ever.

    Raises ClusterError without Kueue, UserError where the namespace has no such queue.
    """
    name, found = queue(task.kubernetes, settings), facts.queues
    if not name or found is None:
        return
    if not found.installed:
        raise ClusterError(
            f"the task is for the queue {name}, and Kueue is not installed in the cluster",
            'submit it without a queue: --queue "", or install Kueue: https://kueue.sigs.k8s.io',
        )
    if found.names is not None and name not in found.names:
        there = ", ".join(sorted(found.names)[:_MOST])
        hint = f"the queues there are: {there}" if there else "the namespace has no LocalQueue"
        if found.elsewhere:
            where = ", ".join(sorted(found.elsewhere)[:_MOST])
            hint += f"; one of this name is in {where}, and is for tasks there alone"
        raise UserError(f"there is no queue {name!r} in namespace {facts.namespace}", hint)


def labels(task: Task, resources: Resources, facts: Facts, settings: Settings) -> Mapping[str, str]:
    """Return the labels by which Kueue knows the queue, and the class that orders what waits."""
    name, urgency = queue(task.kubernetes, settings), priority.class_of(resources, settings)
    if not name:
        return {}
    ordered = urgency and facts.queues and urgency in facts.queues.classes
    return {names.QUEUE: name} | ({names.QUEUE_CLASS: urgency} if ordered and urgency else {})


def node_selector(asked: Kubernetes, settings: Settings) -> Mapping[str, str]:
    """Return the label of machines that GKE makes for a pod; a queue orders them itself."""
    made = asked.flex_start and not queue(asked, settings)
    return {_FLEX_START: "true"} if made else {}


def annotations(asked: Kubernetes) -> dict[str, str]:
    """Return the user's annotations, and for how long a queue is to order machines."""
    ordered = asked.flex_start and asked.queue and asked.run_seconds
    return dict(asked.annotations) | ({_RUN_SECONDS: str(asked.run_seconds)} if ordered else {})


def notes(task: Task, settings: Settings) -> Iterator[str]:
    """Yield what the settings add, and what a queue does not do."""
    name = queue(task.kubernetes, settings)
    if name and not task.kubernetes.queue:
        yield f"settings: the task waits in the queue {name}"
    if name and task.num_nodes > 1 and task.backend in (None, names.DEFAULT_BACKEND):
        yield (
            "queue: each node is let in by itself, and waits for the others;"
            " with --backend indexed they are let in together"
        )
