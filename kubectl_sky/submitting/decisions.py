"""Log why the tasks of a file run as they do, for `-v=4`."""

from collections.abc import Iterator

from kubectl_sky.observe.escapes import plain
from kubectl_sky.plan import queueing
from kubectl_sky.plan.placement import Placement
from kubectl_sky.plan.plan import Plan
from kubectl_sky.plan.provenance import Origins
from kubectl_sky.submitting.taskfile import TaskFile
from kubectl_sky.words import decisions
from kubectl_sky.words.settings import Settings
from kubectl_sky.workloads import gangs, registry
from kubectl_sky.workloads.arrays import ArrayJob
from kubectl_sky.workloads.decide import AUTO, Decision, TaskEntry

_DEFAULT = "the default"
_BACKEND = ("config", "kubectl_sky", "backend")
_GANG = ("config", "kubectl_sky", "gang")
_QUEUE = ("config", "kubernetes", "quota", "queue")


def log_decisions(task_file: TaskFile, decision: Decision) -> None:
    """Log the backend, queue, gang, image and resources of each task, with their reasons."""
    if not decisions.are_logged():
        return
    tasks = zip(task_file.entries, decision.plans, decision.placements, strict=True)
    for entry, plan, placement in tasks:
        prefix = f"{plan.title}: " if decision.together else ""
        for what, why in _explain(entry, plan, placement, task_file.settings):
            decisions.log_decision(plain(f"{prefix}{what}"), plain(why))


def _explain(
    entry: TaskEntry, plan: Plan, placement: Placement, settings: Settings
) -> Iterator[tuple[str, str]]:
    """Yield what was decided for a task, and why."""
    origins = Origins(entry.document, placement.resources, settings)
    yield f"backend {plan.backend}", _explain_backend(entry, plan, origins)
    yield _explain_queue(entry, plan, origins)
    if len(plan.nodes) > 1:
        yield _explain_gang(entry, plan, origins)

    yield f"image {plan.image}", origins.image(default=_DEFAULT)

    sizes = ", ".join(f"{name} {size}" for name, size in plan.requests.items())
    fields = ("cpus", "memory", "accelerators", "instance_type", "disk_size")
    why = dict.fromkeys(filter(None, map(origins.resource, fields)))
    yield f"requests {sizes or 'nothing'}", ", ".join(why) or "no field of resources is set"

    if len(entry.task.candidates) > 1:
        chosen = placement.accelerators or "resources without GPUs"
        yield chosen, "; ".join(placement.notes) or "the first candidate that fits"


def _explain_backend(entry: TaskEntry, plan: Plan, origins: Origins) -> str:
    if plan.backend == ArrayJob.name:
        return "the task is an array"
    requested = entry.backend(origins.settings)
    setting = "settings: backend" if origins.settings.backend else _DEFAULT
    origin = origins.field(*_BACKEND, default=setting)
    if requested == AUTO:
        merit = registry.find(plan.backend).merit
        return f"{origin} is auto; {merit if len(plan.nodes) > 1 else 'the task has one node'}"
    if requested and requested != plan.backend:
        return f"{origin} asks for {requested}, which this task cannot use as it is"
    return origin


def _explain_queue(entry: TaskEntry, plan: Plan, origins: Origins) -> tuple[str, str]:
    queue = queueing.queue(entry.task.kubernetes, origins.settings)
    setting = "settings: queue" if origins.settings.queue else "neither the file nor the settings"
    origin = origins.field(*_QUEUE, default=setting)
    if queue:
        return f"queue {queue}", origin
    return "no queue", origin


def _explain_gang(entry: TaskEntry, plan: Plan, origins: Origins) -> tuple[str, str]:
    setting = f"settings: gang: {origins.settings.gang}"
    origin = origins.field(*_GANG, default=setting)
    if plan.gang and plan.gang.members:
        return "all nodes start together or none", f"a PodGroup of {plan.gang.api_version}"
    if registry.find(plan.backend).is_gang(plan):
        return "all nodes start together or none", f"backend {plan.backend}"
    if gangs.mode(entry.task, origins.settings) in gangs.OFF:
        return "nodes may start one by one", origin
    return "nodes may start one by one", f"nothing starts those of backend {plan.backend} together"
