"""Query the cluster for the facts that decide how a task runs."""

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
    """Query the user, the PVCs by volume name, and the cluster nodes if needed."""
    current_user = who.user(session, user)
    nodes = machines(session) if any(map(wants_machines, draft.tasks)) else ()
    explicit: dict[Kind, bool] = {}
    for part in draft.parts:
        backend = part.backend(draft.settings)
        for kind in questions(backend, part.task.num_nodes):
            explicit[kind] = explicit.get(kind, False) or backend != AUTO
    return Facts(
        user=current_user,
        namespace=session.namespace,
        claims=_claims(session, draft, current_user),
        secret_keys=kept.secret_keys(session, draft.tasks),
        machines=nodes,
        access={
            kind: _access(session, kind, is_explicit) for kind, is_explicit in explicit.items()
        },
        context=session.context,
        queues=_queues(session, draft) if _queued(draft) else None,
    )


def _claims(session: Session, draft: Draft, user: User) -> Mapping[str, KnownClaim] | None:
    """Return the PVCs by volume name; None if no task needs a volume."""
    mounted = any(task.volumes for task in draft.tasks)
    uses_code_volume = draft.settings.code_volume and any(
        bundle.streamed(part.task.files, part.archives) for part in draft.parts
    )
    if not mounted and not uses_code_volume:
        return None
    try:
        return volumes.claims(session, user)
    except Forbidden:
        if mounted:
            raise
        return {}  # files can be uploaded without a volume


def _queued(draft: Draft) -> bool:
    return any(part.waits(draft.settings) for part in draft.parts)


def _queues(session: Session, draft: Draft) -> Queues:
    """Return the LocalQueues of the namespace that the user can see."""
    try:
        names = _names(session, kinds.LOCAL_QUEUE, session.namespace)
    except Outdated:
        raise
    except NotServed:
        return Queues(installed=False)
    try:
        classes = _names(session, kinds.QUEUE_PRIORITY)
    except NotServed:  # older Kueue versions lack this kind
        classes = None
    requested = {queueing.queue(task.kubernetes, draft.settings) for task in draft.tasks}
    missing = requested - {None, *names} if names is not None else set()
    return Queues(names=names, classes=classes or (), elsewhere=_elsewhere(session, missing))


def _elsewhere(session: Session, missing: Collection[str | None]) -> tuple[str, ...]:
    """Return the other namespaces that have a LocalQueue with one of these names."""
    if not missing:
        return ()
    try:
        queues = [item["metadata"] for item in kueue.listed(session, kinds.LOCAL_QUEUE)]
    except Forbidden:
        return ()
    return tuple({item["namespace"] for item in queues if item["name"] in missing})


def _names(session: Session, kind: Kind, namespace: str | None = None) -> tuple[str, ...] | None:
    try:
        items = kueue.listed(session, kind, namespace)
    except Forbidden:
        return None
    return tuple(item["metadata"]["name"] for item in items)


def _access(session: Session, kind: Kind, named: bool) -> Access:
    """Return the access to a kind.

    Raises Outdated for a named backend if the cluster serves only other API versions.
    """
    if not access.serves(session, kind):
        versions = access.others(session, kind) if named else ()
        if versions:
            hint = "have what serves them updated, or choose another backend"
            raise Outdated(kind.plural, versions, kind.api_version, hint)
        return Access.ABSENT
    allowed = access.may(session, "create", kind)
    return Access.USABLE if allowed else Access.FORBIDDEN


def machines(session: Session) -> tuple[Machine, ...]:
    """Return the cluster nodes; empty without permission to list them."""
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
