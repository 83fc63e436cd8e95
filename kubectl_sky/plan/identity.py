"""What a task's objects are called, and by what they are found."""

from collections.abc import Mapping
from dataclasses import dataclass

from kubectl_sky import names
from kubectl_sky.facts import Facts
from kubectl_sky.plan import priority, queueing
from kubectl_sky.plan.plan import Node
from kubectl_sky.spec.task import Resources, Task


@dataclass(frozen=True)
class Identity:
    """The id, the beginning of all names, and the labels and annotations of all objects."""

    id: str
    stem: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]

    @property
    def whole(self) -> str:
        """Name of the objects that the task has once."""
        return names.task_object(self.stem, self.id)

    @property
    def selector(self) -> Mapping[str, str]:
        """The labels that only the task's pods have."""
        return {names.TASK: "true", names.TASK_ID: self.id}

    def nodes(self, count: int) -> tuple[Node, ...]:
        """Return the nodes as Jobs of their own."""
        return tuple(
            Node(
                index=index,
                job=names.node_object(self.stem, self.id, index, count),
                labels={**self.labels, names.NODE_IDX: str(index)},
                hostname=f"node-{index}" if count > 1 else None,
                rank=str(index),
            )
            for index in range(count)
        )


def identity(
    task: Task, task_id: str, facts: Facts, resources: Resources, queue: str | None
) -> Identity:
    """Return a task's identity; a task without a name has the seed's."""
    title = task.name or f"task-{task_id}"
    given = _given(task.kubernetes.labels, resources.labels, queue)
    return Identity(
        id=task_id,
        stem=names.dns_label(title),
        labels=given | _labels(title, task_id, facts),
        annotations=_annotations(task, title, facts, resources),
    )


def numbers(task: Task) -> dict[str, str]:
    """What tells an array's indexes which numbers they stand for, on the Job and on its pods."""
    return {names.ARRAY: task.array.numbers} if task.array else {}


def _given(
    everywhere: Mapping[str, str], here: Mapping[str, str], queue: str | None
) -> dict[str, str]:
    """The user's labels; where a queue is named, no other label names one."""
    found = dict(everywhere) | dict(here)
    return {key: value for key, value in found.items() if key != names.QUEUE or not queue}


def _labels(title: str, task_id: str, facts: Facts) -> dict[str, str]:
    """Our labels; they go over the user's, so that no task can pose as another."""
    return {
        names.TASK: "true",
        names.TASK_ID: task_id,
        names.TASK_NAME: names.label_value(title),
        names.USERNAME: facts.user.label,
    }


def _annotations(task: Task, title: str, facts: Facts, resources: Resources) -> dict[str, str]:
    """What labels cannot carry as it is, and the backend if it is not the default."""
    backend = task.backend or names.DEFAULT_BACKEND
    other = {} if backend == names.DEFAULT_BACKEND else {names.BACKEND: backend}
    ours = {
        names.ORIGINAL_NAME: title,
        names.ORIGINAL_USER: facts.user.name,
        names.NUM_NODES: str(task.num_nodes),
    }
    given = {**queueing.annotations(task.kubernetes), **priority.annotations(resources)}
    return given | ours | other | numbers(task)
