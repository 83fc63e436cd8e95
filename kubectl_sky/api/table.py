"""Lists that a notebook shows as tables: HTML with every text escaped."""

from collections.abc import Callable, Iterable, Mapping
from html import escape
from typing import Any, TypeVar

_MAX_ROWS = 200
# By the name of a class: a slice may be missing.
_COLUMNS: Mapping[str, Mapping[str, Callable[[Any], object]]] = {
    "TaskStatus": {
        "id": lambda task: task.id,
        "name": lambda task: task.name,
        "state": lambda task: task.state,
        "nodes": lambda task: f"{task.ready}/{task.num_nodes}",
        "created": lambda task: task.created_at,
        "note": lambda task: task.note,
    },
    "NodeStatus": {
        "node": lambda node: node.name,
        "state": lambda node: node.state,
        "exit code": lambda node: node.exit_code,
        "host": lambda node: node.host,
        "pod": lambda node: node.pod,
        "reason": lambda node: node.message or node.reason,
    },
    "Cause": {
        "stage": lambda finding: finding.stage,
        "cause": lambda finding: finding.what,
        "next": lambda finding: finding.then,
    },
    "VolumeStatus": {
        "id": lambda volume: volume.id,
        "name": lambda volume: volume.name,
        "size": lambda volume: volume.readable_size,
        "phase": lambda volume: volume.phase,
        "storage class": lambda volume: volume.storage_class,
        "created": lambda volume: volume.created_at,
    },
    "ServiceStatus": {
        "name": lambda service: service.name,
        "state": lambda service: service.status,
        "ready": lambda service: f"{service.replicas.ready}/{service.replicas.wanted}",
        "endpoint": lambda service: next(iter(service.endpoints), None),
        "message": lambda service: service.message,
    },
    "AcceleratorNode": {
        "cluster node": lambda node: node.name,
        "GPU": lambda node: node.model,
        "resource": lambda node: node.resource,
        "total": lambda node: node.total,
        "used": lambda node: node.used,
        "free": lambda node: node.free,
    },
    "GpuHours": {
        "key": lambda row: row.key,
        "tasks": lambda row: row.tasks,
        "GPU-hours": lambda row: f"{row.hours:.1f}",
    },
}
T_co = TypeVar("T_co", covariant=True)


class Table(tuple[T_co, ...]):
    """A tuple that a notebook shows as a table."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        if not self:
            return "<p>none</p>"
        columns = _COLUMNS[type(self[0]).__name__]
        rows = [_row("td", [show(item) for show in columns.values()]) for item in self[:_MAX_ROWS]]
        more = f"<p>and {len(self) - _MAX_ROWS} more</p>" if len(self) > _MAX_ROWS else ""
        return f"<table>{_row('th', columns)}{''.join(rows)}</table>{more}"


def _row(tag: str, cells: Iterable[object]) -> str:
    texts = ("" if cell is None else escape(str(cell)) for cell in cells)
    return f"<tr>{''.join(f'<{tag}>{text}</{tag}>' for text in texts)}</tr>"
