"""The names, labels, annotations and selector of a task's objects."""

from collections.abc import Mapping

from msgspec import Struct

from kubectl_sky.plan import queueing, runtime
from kubectl_sky.plan.placement import Placement
from kubectl_sky.plan.plan import Node
from kubectl_sky.spec import resource_fields
from kubectl_sky.spec.task import Resources, Task
from kubectl_sky.words import names
from kubectl_sky.words.facts import Facts
from kubectl_sky.words.names import standard_labels


class ObjectMetadata(Struct, frozen=True):
    """The task ID, the name prefix, and the labels and annotations of all objects."""

    id: str
    stem: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]

    @property
    def object_name(self) -> str:
        """Name of the objects that exist once per task."""
        return names.task_object(self.stem, self.id)

    @property
    def selector(self) -> Mapping[str, str]:
        """The labels that match only the task's pods."""
        return {names.TASK: "true", names.TASK_ID: self.id}

    def nodes(self, count: int) -> tuple[Node, ...]:
        """Return one entry per node, each with its own Job."""
        return tuple(self._node(index, count) for index in range(count))

    def _node(self, index: int, count: int) -> Node:
        hostname = f"node-{index}" if count > 1 else None
        rank = str(index) if count > 1 else None
        return Node(
            index=index,
            job=names.node_object(self.stem, self.id, index, count),
            labels={**self.labels, names.NODE_IDX: str(index)},
            hostname=hostname,
            rank=rank,
        )


def build_metadata(
    task: Task, task_id: str, facts: Facts, placement: Placement, queue: str | None
) -> ObjectMetadata:
    """Return a task's identity; the default name contains the task ID."""
    resources = placement.resources
    title = task.name or f"task-{task_id}"

    user_labels = {**task.kubernetes.labels, **resource_fields.without_ours(resources.labels)}
    if queue:
        user_labels.pop(names.QUEUE, None)
    our_labels = {  # they override the user's, so no task can pose as another
        names.TASK: "true",
        names.TASK_ID: task_id,
        names.TASK_NAME: names.label_value(title),
        names.USERNAME: facts.user.label,
    }

    annotations = _annotations(task, title, facts, resources)
    if placement.accelerators:  # lists show it: the pods' affinity names many labels
        annotations[names.ACCELERATORS] = placement.accelerators

    stem = names.dns_label(title)
    standard = standard_labels(title, names.task_object(stem, task_id))
    return ObjectMetadata(task_id, stem, standard | user_labels | our_labels, annotations)


def array_annotations(task: Task) -> dict[str, str]:
    """Return the annotations with an array's numbers and values, for the Job and its pods."""
    if not task.array:
        return {}
    sweep = {names.SWEEP: task.array.sweep.text} if task.array.sweep else {}
    return {names.ARRAY: task.array.numbers, **sweep}


def _annotations(task: Task, title: str, facts: Facts, resources: Resources) -> dict[str, str]:
    """Return the values that labels cannot hold unchanged, and a non-default backend."""
    backend = task.backend or names.DEFAULT_BACKEND
    backend_annotation = {} if backend == names.DEFAULT_BACKEND else {names.BACKEND: backend}
    originals = {
        names.ORIGINAL_NAME: (title, names.label_value(title)),
        names.ORIGINAL_USER: (facts.user.name, facts.user.label),
    }
    ours = {key: original for key, (original, label) in originals.items() if original != label}
    ours |= {names.NUM_NODES: str(task.num_nodes), **runtime.interactive_annotations(task)}
    user_annotations = queueing.annotations(task.kubernetes)
    if resources.priority is not None:
        user_annotations[names.PRIORITY] = str(resources.priority)
    if task.setup:
        ours[names.SETUP] = "true"
    if task.on_hang:
        ours[names.ON_HANG] = str(task.on_hang)
    if task.step_regex:
        ours[names.STEP_REGEX] = task.step_regex
    if task.max_duration:
        ours[names.MAX_DURATION] = task.max_duration
    return user_annotations | ours | backend_annotation | array_annotations(task)
