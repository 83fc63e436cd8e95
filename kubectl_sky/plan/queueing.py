"""In which queue a task waits, and what machines made to order it asks for."""

from collections.abc import Iterator, Mapping

from kubectl_sky import names
from kubectl_sky.settings import Settings
from kubectl_sky.spec.kubernetes import Kubernetes
from kubectl_sky.spec.task import Task

_FLEX_START = "cloud.google.com/gke-flex-start"
_RUN_SECONDS = "provreq.kueue.x-k8s.io/maxRunDurationSeconds"


def queue(asked: Kubernetes, settings: Settings) -> str | None:
    """Return Kueue's queue: the task's, else the settings'."""
    return (settings.queue if asked.queue is None else asked.queue) or None


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
