"""Show the evidence of failed nodes whose pods, or whose task, are deleted."""

from typing import TYPE_CHECKING

from kubectl_sky.cli import output
from kubectl_sky.observe.evidence import last_lines

if TYPE_CHECKING:
    from kubectl_sky.actions.find import Scope, Target
    from kubectl_sky.cluster.session import Session
    from kubectl_sky.observe.evidence import Evidence

_MAX_OTHERS = 5  # nodes shown that failed after the first


def get_or_show_evidence(session: "Session", scope: "Scope", reference: str) -> "Target":
    """Return the matching task or pipeline; if it is deleted, show its evidence.

    Raises UserError unless exactly one matches.
    """
    from kubectl_sky.actions import evidence
    from kubectl_sky.actions.find import TaskNotFound, get

    try:
        return get(session, scope, reference)
    except TaskNotFound:
        record = evidence.of_deleted_task(session, scope.namespace, reference)
        if record:
            output.note(
                f"task {record.task_id} ({record.name}) was deleted\n{format_evidence(record)}"
            )
        raise


def format_evidence(evidence: "Evidence") -> str:
    """Describe deleted pods: how they ended, and the last log lines of the first."""
    first, *others = evidence.deaths
    lines = last_lines(first)
    when = f" at {first.ended_at}" if first.ended_at else ""
    head = f"first failed {first.name}: {first.end}{when}, pod {first.pod}"
    more = [f"then {death.name}: {death.end}, pod {death.pod}" for death in others[:_MAX_OTHERS]]
    if others[_MAX_OTHERS:]:
        more.append(f"and {len(others) - _MAX_OTHERS} more")
    if lines:
        head += "; its last lines:"
    return "\n".join(["Kept on this machine:", head, *(f"  {line}" for line in lines), *more])
