"""What leaves of a finished task: names, states, reasons and exit codes, without words of programs.

Lists of deleted tasks, webhooks and tickets have readers who may not be allowed to read logs.
"""

import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from kubectl_sky.observe.nodes import NodeStatus, State
from kubectl_sky.observe.ownership import Missing
from kubectl_sky.observe.pipelines import PipelineStatus
from kubectl_sky.observe.requested import Requested
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.observe.uses import UsesRecord
from kubectl_sky.plan.pipeline import MAX_STAGES, PipelineMember
from kubectl_sky.words import names
from kubectl_sky.words.documents import Part
from kubectl_sky.words.notice import Notice
from kubectl_sky.workloads import registry

_REASON = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,99}")


class NodeRecord(Part, frozen=True):
    """A node of a TaskRecord: a NodeStatus without its message."""

    index: int
    name: str
    job: str
    state: State = State.PENDING
    pod: str = ""
    host: str = ""
    reason: str = ""
    exit_code: int | None = None
    started_at: str = ""
    ended_at: str = ""
    restarts: int = 0
    previous: str = ""
    phase: str = ""
    stopped_for: str = ""
    kept_by: str = ""
    held_until: str = ""


class TaskRecord(Part, frozen=True):
    """A task without words of programs. `causes` are those of doctor's rules."""

    id: str
    name: str
    namespace: str
    user: str
    created_at: str
    updated_at: str
    nodes: tuple[NodeRecord, ...]
    num_nodes: int
    labels: Mapping[str, str] = {}
    backend: str = names.DEFAULT_BACKEND
    member: PipelineMember | None = None
    missing: Missing = Missing.UNKNOWN
    interactive: bool = False
    logs: str = ""
    requested: Requested = Requested()
    after: str = ""
    notices: Mapping[str, Notice] = {}
    goodput: UsesRecord | None = None

    @property
    def status(self) -> TaskStatus:
        nodes = tuple(NodeStatus(**_fields(node)) for node in self.nodes)
        return TaskStatus(**{**_fields(self), "nodes": nodes, "causes": self.notices})


def of(task: TaskStatus) -> TaskRecord:
    """Return what may leave of a task."""
    nodes = tuple(map(_node, task.nodes))
    fields = {name: getattr(task, name) for name in TaskRecord.__struct_fields__}
    return TaskRecord(**{**fields, "nodes": nodes})


def check(record: TaskRecord) -> TaskRecord:
    """Return a record that was read. Raises ValueError if no task can be like it."""
    member = record.member
    if not record.nodes or record.backend not in registry.BACKENDS:
        raise ValueError("a task has nodes and a known backend")
    if member and not 1 <= member.stage <= member.stages <= MAX_STAGES:
        raise ValueError("a task is one of the stages of its pipeline")
    return record


def note(target: TaskStatus | PipelineStatus) -> Notice:
    """Return the note of a task or pipeline for those who may not read logs."""
    if isinstance(target, TaskStatus):
        return Notice(of(target).status.note)
    return Notice(replace(target, tasks=tuple(of(task).status for task in target.tasks)).note)


def _node(node: NodeStatus) -> NodeRecord:
    fields = {name: getattr(node, name) for name in NodeRecord.__struct_fields__}
    is_word = _REASON.fullmatch(node.reason)  # as in Kubernetes
    return NodeRecord(**{**fields, "reason": node.reason if is_word else ""})


def _fields(value: Struct) -> dict[str, Any]:
    return {name: getattr(value, name) for name in value.__struct_fields__}
