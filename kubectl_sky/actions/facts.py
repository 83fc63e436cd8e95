"""What the cluster tells before anything is decided about a task."""

from collections.abc import Collection, Mapping

from kubectl_sky import kinds
from kubectl_sky.actions import kept, volumes, who
from kubectl_sky.actions.draft import Draft
from kubectl_sky.cluster import access, kueue
from kubectl_sky.cluster.core import CoreManager
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import Forbidden, NotServed, Outdated
from kubectl_sky.facts import Access, Facts, KnownClaim, Machine, Queues
from kubectl_sky.kinds import Kind
from kubectl_sky.plan import bundle, queueing
from kubectl_sky.plan.placement import wants_machines
from kubectl_sky.users import User
from kubectl_sky.workloads.choice import AUTO, questions


def gathered(session: Session, draft: Draft, user: str | None) -> Facts:
    """Ask the cluster who asks, what volume names stand for, and for its nodes if they matter."""
    found = who.user(session, user)
    nodes = machines(session) if any(map(wants_machines, draft.tasks)) else ()
    asked: dict[Kind, bool] = {}
    for part in draft.parts:
        wanted = part.backend(draft.settings)
        for kind in questions(wanted, part.task.num_nodes):
            asked[kind] = asked.get(kind, False) or wanted != AUTO
    return Facts(
        user=found,
        namespace=session.namespace,
        claims=_claims(session, draft, found),
        secret_keys=kept.secret_keys(session, draft.tasks),
        machines=nodes,
        access={kind: _access(session, kind, named) for kind, named in asked.items()},
        context=session.context,
        queues=_queues(session, draft) if _queued(draft) else None,
    )


def _claims(session: Session, draft: Draft, user: User) -> Mapping[str, KnownClaim] | None:
    """Return what volume names stand for, where a task has volumes, or files that need one."""
    mounted = any(task.volumes for task in draft.tasks)
    kept = draft.settings.code_volume and any(
        bundle.streamed(part.task.files, part.archives) for part in draft.parts
    )
    if not mounted and not kept:
        return None
    try:
        return volumes.claims(session, user)
    except Forbidden:
        if mounted:
            raise
        return {}  # files travel without a volume too


def _queued(draft: Draft) -> bool:
    return any(part.waits(draft.settings) for part in draft.parts)


def _queues(session: Session, draft: Draft) -> Queues:
    """Return the queues of the namespace, as far as the user may see them."""
    try:
        names = _names(session, kinds.LOCAL_QUEUE, session.namespace)
    except Outdated:
        raise
    except NotServed:
        return Queues(installed=False)
    try:
        classes = _names(session, kinds.QUEUE_PRIORITY)
    except NotServed:  # older versions have none
        classes = None
    wanted = {queueing.queue(task.kubernetes, draft.settings) for task in draft.tasks}
    missing = wanted - {None, *names} if names is not None else set()
    return Queues(names=names, classes=classes or (), elsewhere=_elsewhere(session, missing))


def _elsewhere(session: Session, missing: Collection[str | None]) -> tuple[str, ...]:
    """Return the namespaces that have a queue of one of these names."""
    if not missing:
        return ()
    try:
        found = [item["metadata"] for item in kueue.listed(session, kinds.LOCAL_QUEUE)]
    except Forbidden:
        return ()
    return tuple({item["namespace"] for item in found if item["name"] in missing})


def _names(session: Session, kind: Kind, namespace: str | None = None) -> tuple[str, ...] | None:
    try:
        found = kueue.listed(session, kind, namespace)
    except Forbidden:
        return None
    return tuple(item["metadata"]["name"] for item in found)


def _access(session: Session, kind: Kind, named: bool) -> Access:
    """What can be done with a kind. Raises Outdated where one that was named is too old."""
    if not access.serves(session, kind):
        others = access.others(session, kind) if named else ()
        if others:
            then = "have what serves them updated, or choose another backend"
            raise Outdated(kind.plural, others, kind.api_version, then)
        return Access.ABSENT
    allowed = access.may(session, "create", kind)
    return Access.USABLE if allowed else Access.FORBIDDEN


def machines(session: Session) -> tuple[Machine, ...]:
    """Return the cluster's nodes; none without the right to list them."""
    try:
        nodes = CoreManager(session).list_nodes()
    except Forbidden:
        return ()
    return tuple(
        Machine(
            labels=node["metadata"].get("labels") or {},
            allocatable=(node.get("status") or {}).get("allocatable") or {},
        )
        for node in nodes
    )
