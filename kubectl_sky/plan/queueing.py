"""A task's queue and priority, and node provisioning with GKE flex-start."""

from collections.abc import Iterator, Mapping

from kubectl_sky.errors import ClusterError, UserError
from kubectl_sky.spec.kubernetes import Kubernetes
from kubectl_sky.spec.task import Resources, Task
from kubectl_sky.words import names
from kubectl_sky.words.facts import Facts
from kubectl_sky.words.settings import Settings


def find_priority_class(resources: Resources, settings: Settings) -> str | None:
    """Return the PriorityClass of the file, or of the settings.

    Among the ranges in the settings that contain the priority, the narrowest wins.
    """
    if resources.priority_class or resources.priority is None:
        return resources.priority_class
    ranges = [(*_priority_range(text), name) for text, name in settings.priority_classes.items()]
    matching = [match for match in ranges if match[0] <= resources.priority <= match[1]]
    return min(matching, key=lambda match: match[1] - match[0])[2] if matching else None


def _priority_range(text: str) -> tuple[int, int]:
    first, _, last = text.partition("..")
    return int(first), int(last or first)


_FLEX_START = "cloud.google.com/gke-flex-start"
_MAX_QUEUES_LISTED = 12  # maximum number of queues named in a message
_LATER = 60  # seconds: Kueue suspends a Job for good, so the Job's own deadline comes first
_MAX_RUN_ANNOTATION = "provreq.kueue.x-k8s.io/maxRunDurationSeconds"


def queue(options: Kubernetes, settings: Settings) -> str | None:
    return (settings.queue if options.queue is None else options.queue) or None


def check(task: Task, facts: Facts, settings: Settings) -> None:
    """Reject a queue that could never admit the task.

    Raises ClusterError if Kueue is not installed, UserError if the namespace has no such queue.
    """
    name = queue(task.kubernetes, settings)
    queues = facts.queues
    if not name or queues is None:
        return

    if not queues.installed:
        raise ClusterError(
            f"the task is for the queue {name}, and Kueue is not installed in the cluster",
            'submit it without a queue: --queue "", or install Kueue: https://kueue.sigs.k8s.io',
        )

    if queues.names is not None and name not in queues.names:
        existing = ", ".join(sorted(queues.names)[:_MAX_QUEUES_LISTED])
        hint = f"existing queues: {existing}" if existing else "the namespace has no LocalQueue"
        if queues.elsewhere:
            namespaces = ", ".join(sorted(queues.elsewhere)[:_MAX_QUEUES_LISTED])
            hint += f"; one of this name is in {namespaces}, and is only for tasks there"
        raise UserError(f'queue "{name}" not found in namespace "{facts.namespace}"', hint)


def labels(task: Task, resources: Resources, facts: Facts, settings: Settings) -> Mapping[str, str]:
    """Return the Kueue labels for the queue, its priority class and the maximum execution time.

    That time also counts before a preemption, after which the clock of the Job starts again.
    """
    name = queue(task.kubernetes, settings)
    if not name:
        return {}
    labels = {names.QUEUE: name}
    priority_class = find_priority_class(resources, settings)
    if priority_class and facts.queues and priority_class in facts.queues.classes:
        labels[names.QUEUE_CLASS] = priority_class
    if task.max_seconds:
        labels[names.MAX_EXEC] = str(task.max_seconds + _LATER)
    return labels


def node_selector(options: Kubernetes, settings: Settings) -> Mapping[str, str]:
    """Return the flex-start node label; a queue provisions nodes itself."""
    selected = options.flex_start and not queue(options, settings)
    return {_FLEX_START: "true"} if selected else {}


def annotations(options: Kubernetes) -> dict[str, str]:
    """Return the user's annotations, and the run time limit for provisioned nodes."""
    provisioned = options.flex_start and options.queue and options.run_seconds
    return dict(options.annotations) | (
        {_MAX_RUN_ANNOTATION: str(options.run_seconds)} if provisioned else {}
    )


def notes(task: Task, settings: Settings) -> Iterator[str]:
    """Yield notes on a queue from the settings, and on its limits with several nodes."""
    name = queue(task.kubernetes, settings)
    if name and not task.kubernetes.queue:
        yield f"settings: the task is queued in {name}"
    if name and task.num_nodes > 1 and task.backend in (None, names.DEFAULT_BACKEND):
        yield (
            "queue: Kueue admits nodes one by one, and those admitted first hold quota while they"
            " wait for the others; --backend indexed admits all together"
        )
