"""Whether all nodes of a task can ever run at once: quotas, and the queues of gang schedulers."""

from collections.abc import Iterable
from contextlib import suppress

from kubectl_sky import kinds
from kubectl_sky.cluster import objects
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import Forbidden, NotServed, UserError
from kubectl_sky.plan import quota
from kubectl_sky.plan.plan import Plan

_MOST = 12  # that a message names


def check(session: Session, plans: Iterable[Plan]) -> None:
    """Refuse what would wait for ever: too many nodes for a quota, a queue that is not there.

    Users who may not see quotas and queues go without this. Raises UserError, ClusterError.
    """
    plans = tuple(plans)
    if any(len(plan.nodes) > 1 for plan in plans):
        with suppress(Forbidden):
            quotas = objects.list_all(session, kinds.RESOURCE_QUOTA, session.namespace)
            for plan in plans:
                quota.check(plan, quotas)
    wanted = {plan.gang.queue: plan for plan in plans if plan.gang and plan.gang.queue}
    if not wanted:
        return
    try:
        found = objects.list_all(session, kinds.VOLCANO_QUEUE)
    except (Forbidden, NotServed):
        return
    states = {item["metadata"]["name"]: _state(item) for item in found}
    there = ", ".join(sorted(name for name, state in states.items() if state == "Open")[:_MOST])
    hint = f"the open ones are: {there}" if there else "no queue of Volcano is open"
    for name in wanted:
        if name not in states:
            raise UserError(f"Volcano has no queue {name!r}", hint)
        if states[name] != "Open":
            raise UserError(f"Volcano's queue {name!r} is {states[name].lower()}", hint)


def _state(queue: dict[str, object]) -> str:
    """Return what a queue says of itself; one that nobody has looked at is open."""
    status = queue.get("status")
    return str((status.get("state") if isinstance(status, dict) else None) or "Open")
