"""All rules that explain why a task does not run, in the order of its stages."""

from collections.abc import Mapping, Sequence

from kubectl_sky.observe.findings import Cause, Rule, diagnose, find_cause
from kubectl_sky.observe.nodes import NodeStatus
from kubectl_sky.observe.rules_admission import ADMISSION, QUEUE
from kubectl_sky.observe.rules_images import IMAGE
from kubectl_sky.observe.rules_run import RUN
from kubectl_sky.observe.rules_scheduling import SCHEDULING
from kubectl_sky.observe.rules_start import START
from kubectl_sky.observe.rules_volumes import VOLUMES
from kubectl_sky.observe.signals import Signal, SignalSource, TaskSnapshot
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.words import kinds
from kubectl_sky.words.core_objects import Event
from kubectl_sky.words.pod_objects import Pod

RULES: tuple[Rule, ...] = (*QUEUE, *ADMISSION, *SCHEDULING, *VOLUMES, *IMAGE, *START, *RUN)
_NOT_STARTED = (*SCHEDULING, *VOLUMES, *IMAGE, *START)  # what a pod says that has not started
_LOGGED = tuple(rule for rule in RUN if rule.source is SignalSource.LOG)


def explain_start(task: TaskStatus, pod: Pod) -> Cause | None:
    """Return why a pod has not started, by what it says itself; None if no rule knows it."""
    return _explain_pod(task, pod, {}, _NOT_STARTED)


def explain_end(task: TaskStatus, node: NodeStatus, pod: Pod) -> Cause | None:
    """Return why a pod has failed, by the end of its log in its termination message."""
    logs = {node.index: tuple(node.message.splitlines())}
    return _explain_pod(task, pod, logs, _LOGGED)


def _explain_pod(
    task: TaskStatus, pod: Pod, logs: Mapping[int, tuple[str, ...]], rules: Sequence[Rule]
) -> Cause | None:
    snapshot = TaskSnapshot(task.id, task.namespace, {kinds.POD.kind: (pod,)}, logs, task)
    return next(iter(diagnose(snapshot, rules)), None)


def explain_event(task: TaskStatus, node: NodeStatus, event: Event) -> Cause | None:
    """Return what a warning about a node's pod means, or about the object that creates it."""
    source = SignalSource.POD_EVENT if node.pod else SignalSource.WORKLOAD_EVENT
    signal = Signal(source, event.reason, event.message, (node.index,))
    return find_cause(TaskSnapshot(task.id, task.namespace, {}, task=task), signal, RULES)
