"""Decide how a task runs: backend, plan and notes. A pure function."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kubectl_sky.errors import UserError
from kubectl_sky.facts import Facts
from kubectl_sky.plan.notes import notes
from kubectl_sky.plan.pipeline import Member, joined, queued_later
from kubectl_sky.plan.placement import Placement, place
from kubectl_sky.plan.plan import Plan
from kubectl_sky.plan.resolve import resolve
from kubectl_sky.settings import Settings
from kubectl_sky.spec.document import FieldError
from kubectl_sky.spec.task import Task
from kubectl_sky.workloads import hold
from kubectl_sky.workloads.choice import Choice, choices


@dataclass(frozen=True)
class Decision:
    """The plan of a task, the placement behind it, and notes for the user."""

    plan: Plan
    placement: Placement
    notes: tuple[str, ...]


def decide(
    task: Task, task_id: str, facts: Facts, settings: Settings, member: Member | None = None
) -> Decision:
    """Decide everything that the file leaves open.

    `member` is the position of the task in a pipeline or group. Raises UserError if no backend can
    run the task.
    """
    placement = place(task, facts)
    reason = ""
    for choice in choices(task.backend or settings.backend, task.num_nodes, facts.access):
        candidate = replace(task, backend=choice.backend.name)
        plan = resolve(candidate, task_id, placement, facts, settings)
        if member:
            plan = joined(plan, member)
        plan = queued_later(choice.backend.adapted(plan))
        reason = choice.backend.fits(plan, facts) or hold.unfit(choice.backend, plan)
        if not reason:
            messages = [*notes(candidate, placement, facts, settings), *_notes(choice, plan)]
            prefix = f"{task.name}: " if member else ""
            return Decision(plan, placement, tuple(f"{prefix}{note}" for note in messages))
    message = f'backend "{choice.backend.name}" cannot run task "{plan.title}": {reason}'
    if task.backend:
        raise FieldError(("config", "kubectl_sky", "backend"), message)
    raise UserError(message)


def _notes(choice: Choice, plan: Plan) -> Sequence[str]:
    """Return notes on the chosen backend and on how it runs the plan."""
    return [note for note in (choice.note, *choice.backend.notes(plan)) if note]
