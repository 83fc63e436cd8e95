"""Suspend and resume objects through the field of their backend."""

from collections.abc import Mapping, Sequence
from typing import Any

from kubectl_sky.plan.plan import Plan
from kubectl_sky.workloads import registry
from kubectl_sky.workloads.workload import Object, Workload, field


def held(item: Object) -> bool:
    """Return whether an object is suspended."""
    return field(item, registry.of(item).suspend_path) is True


def unfit(backend: Workload, plan: Plan) -> str:
    """Return why a backend cannot run a pipeline's or group's task; empty if it can."""
    if plan.suspended and not backend.suspend_path:
        return "it cannot suspend a task until the previous one has succeeded"
    if plan.group and not backend.stable_hostnames:
        return "its pods cannot have the host names of a group's tasks"
    return ""


def copied(item: Mapping[str, Any], other: Object) -> dict[str, Any]:
    """Return an object with the suspend field of another object.

    The object stays unchanged if it is not suspended, or if the other one is.
    """
    if not held(item) or held(other):
        return dict(item)
    path = registry.of(item).suspend_path
    return _with(item, path, field(other, path))


def released(backend: Workload, queueing: Mapping[str, str]) -> dict[str, Any]:
    """Return the merge patch that resumes an object; empty if it cannot be suspended.

    With `queueing` labels, the patch puts the object into the queue instead, and the queue resumes
    it.
    """
    if queueing:
        return {"metadata": {"labels": dict(queueing)}}
    body: Any = False
    for step in reversed(backend.suspend_path):
        body = {step: body}
    return body if isinstance(body, dict) else {}


def _with(item: Mapping[str, Any], path: Sequence[str], value: object) -> dict[str, Any]:
    """Return an object with a changed field; None removes the field."""
    name, *rest = path
    content = _with(item[name], rest, value) if rest else value
    return {
        key: entry for key, entry in (dict(item) | {name: content}).items() if entry is not None
    }
