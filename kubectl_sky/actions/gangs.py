"""Preflight check that all nodes can run at once: quotas and Volcano queues."""

from collections.abc import Iterable
from contextlib import suppress

from kubectl_sky import kinds
from kubectl_sky.cluster import objects
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import Forbidden, NotServed, UserError
from kubectl_sky.plan import quota
from kubectl_sky.plan.plan import Plan

_MOST = 12  # maximum number of queues in a message


def check(session: Session, plans: Iterable[Plan]) -> None:
    """Refuse tasks that could never start: quota too small, queue missing or closed.

    Skipped without permission to list quotas and queues. Raises UserError, ClusterError.
    """
    plans = tuple(plans)
    if any(len(plan.nodes) > 1 for plan in plans):
        with suppress(Forbidden):
            quotas = objects.list_all(session, kinds.RESOURCE_QUOTA, session.namespace)
            for plan in plans:
                quota.check(plan, quotas)
    queues = {plan.gang.queue: plan for plan in plans if plan.gang and plan.gang.queue}
    if not queues:
        return
    try:
        items = objects.list_all(session, kinds.VOLCANO_QUEUE)
    except (Forbidden, NotServed):
        return
    states = {item["metadata"]["name"]: _state(item) for item in items}
    open_queues = ", ".join(
        sorted(name for name, state in states.items() if state == "Open")[:_MOST]
    )
    hint = f"the open ones are: {open_queues}" if open_queues else "no queue of Volcano is open"
    for name in queues:
        if name not in states:
            raise UserError(f"Volcano has no queue {name!r}", hint)
        if states[name] != "Open":
            raise UserError(f"Volcano's queue {name!r} is {states[name].lower()}", hint)


def _state(queue: dict[str, object]) -> str:
    """Return the state of a queue; a queue without status counts as open."""
    status = queue.get("status")
    return str((status.get("state") if isinstance(status, dict) else None) or "Open")
