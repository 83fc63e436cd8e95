"""Objects that are held until somebody lets them begin, by the field that their backend has."""

from collections.abc import Mapping, Sequence
from typing import Any

from kubectl_sky.plan.plan import Plan
from kubectl_sky.workloads import registry
from kubectl_sky.workloads.workload import Object, Workload, field


def held(item: Object) -> bool:
    """Say whether an object is held."""
    return field(item, registry.of(item).hold) is True


def unfit(backend: Workload, plan: Plan) -> str:
    """Return why a backend cannot run a task in its place among others; empty where it can."""
    if plan.suspended and not backend.hold:
        return "it cannot hold a task until the one before it has succeeded"
    if plan.group and not backend.hosts:
        return "its pods cannot have the host names of a group's tasks"
    return ""


def copied(item: Mapping[str, Any], other: Object) -> dict[str, Any]:
    """Return an object, held or not as another is; one that cannot be held stays as it is."""
    if not held(item) or held(other):
        return dict(item)
    path = registry.of(item).hold
    return _with(item, path, field(other, path))


def released(backend: Workload, queueing: Mapping[str, str]) -> dict[str, Any]:
    """Return the merge patch that releases an object; empty where it cannot be held.

    Into a queue it gets by these labels, and the queue lets it begin.
    """
    if queueing:
        return {"metadata": {"labels": dict(queueing)}}
    body: Any = False
    for step in reversed(backend.hold):
        body = {step: body}
    return body if isinstance(body, dict) else {}


def _with(item: Mapping[str, Any], path: Sequence[str], value: object) -> dict[str, Any]:
    """Return an object with another value of a field, or without it: some say nothing for false."""
    first, *rest = path
    changed = _with(item[first], rest, value) if rest else value
    return {
        key: found for key, found in (dict(item) | {first: changed}).items() if found is not None
    }
