"""Query the cluster for the facts that decide how a task runs."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TypeVar

from kubectl_sky.actions import identity, volumes
from kubectl_sky.cluster import access, objects
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import Forbidden, Invalid, NotFound, NotServed, Outdated, UserError
from kubectl_sky.observe.nodes import State
from kubectl_sky.plan import queueing
from kubectl_sky.plan.devices import count_models
from kubectl_sky.plan.placement import needs_cluster_nodes
from kubectl_sky.spec.task import Task
from kubectl_sky.submitting.taskfile import TaskFile
from kubectl_sky.tasks import find, multikueue, room
from kubectl_sky.words import kinds
from kubectl_sky.words.decoding import convert
from kubectl_sky.words.facts import Access, ClusterNode, Facts, Gangs, Predecessor, Queues
from kubectl_sky.words.kinds import Kind, ReadKind
from kubectl_sky.words.objects import Object
from kubectl_sky.words.scheduled_objects import Gang, KueueQueue, QueueSpec
from kubectl_sky.workloads.decide import AUTO, list_needed_kinds

T = TypeVar("T")


def facts(session: Session, task_file: TaskFile, user: str | None) -> Facts:
    """Query everything that decides how the tasks run. Decides nothing.

    Cluster nodes, PVCs (None then), Secrets and queues are queried only if a task needs them.
    """
    current_user = identity.user(session, user)
    tasks = task_file.tasks
    settings = task_file.settings
    explicit: dict[Kind, bool] = {}
    for entry in task_file.entries:
        backend = entry.backend(settings)
        for kind in list_needed_kinds(backend, entry.task.num_nodes):
            explicit[kind] = explicit.get(kind, False) or backend != AUTO

    has_volumes = any(task.volumes for task in tasks)
    needs_nodes = any(map(needs_cluster_nodes, tasks))
    is_queued = any(entry.is_queued(settings) for entry in task_file.entries)
    has_several_pods = any(task.num_nodes > 1 or task.array for task in tasks)

    pvcs = volumes.claims(session, current_user) if has_volumes else None
    secret_keys = _secret_keys(session, tasks)
    nodes = cluster_nodes(session) if needs_nodes else ()
    access_by_kind = {
        kind: _access(session, kind, is_explicit) for kind, is_explicit in explicit.items()
    }
    queues = _queues(session, task_file) if is_queued else None
    gangs = _gangs(session, tasks) if has_several_pods else None

    return Facts(
        user=current_user,
        namespace=session.namespace,
        pvcs=pvcs,
        secret_keys=secret_keys,
        cluster_nodes=nodes,
        access=access_by_kind,
        context=session.context,
        queues=queues,
        gangs=gangs,
    )


def _gangs(session: Session, tasks: Sequence[Task]) -> Gangs:
    """Return what the scheduler supports; whether it knows topologies, only if a task needs it.

    That has a feature gate of its own: without it, the API server drops the field.
    """
    kind = access.find_gang(session)
    if not kind or not access.may(session, "create", kind):
        return Gangs()
    topologies = list(filter(None, (task.topology for task in tasks)))
    if not topologies:
        return Gangs(kind.api_version)
    constraints = {"topology": [{"key": topologies[0]}]}
    spec = {"schedulingPolicy": {"basic": {}}, "schedulingConstraints": constraints}
    metadata = {"generateName": "kubectl-sky-", "namespace": session.namespace}
    group = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": spec}
    with suppress(Invalid):
        answer = objects.create(session, group, dry_run=True)
        kept = convert(answer, Gang).spec.scheduling_constraints
        return Gangs(kind.api_version, bool(kept))
    return Gangs(kind.api_version)


def predecessor(session: Session, facts: Facts, reference: str) -> Predecessor:
    """Return the task that must have succeeded. Raises UserError if it is not found or failed."""
    target = find.get_of_anyone(session, find.Scope(facts.namespace, facts.user), reference)
    if target.state is State.FAILED:
        message = f"after {reference}: task {target.id} ({target.name}) has failed"
        raise UserError(message, "submit that again first, or start this one without it")
    return Predecessor(target.id, target.name, target.state is State.COMPLETED)


def _secret_keys(session: Session, tasks: Sequence[Task]) -> dict[str, tuple[str, ...]] | None:
    """Return the keys of each existing Secret; None if reading them is forbidden."""
    keys_by_name = {}
    for name in dict.fromkeys(
        reference.name for task in tasks for reference in task.existing_secrets
    ):
        try:
            secret = objects.get(session, kinds.SECRET, name)
        except NotFound:
            continue
        except Forbidden:
            return None
        keys_by_name[name] = tuple(sorted(secret.data or {}))
    return keys_by_name


def _queues(session: Session, task_file: TaskFile) -> Queues:
    try:
        queues = _list(session, kinds.LOCAL_QUEUE, session.namespace)
    except Outdated:
        raise
    except NotServed:
        return Queues(installed=False)

    names = None if queues is None else _names(queues)
    try:
        classes = _names(_list(session, kinds.QUEUE_PRIORITY) or ())
    except NotServed:  # older Kueue versions lack this kind
        classes = ()

    settings = task_file.settings
    requested = {queueing.queue(task.kubernetes, settings) for task in task_file.tasks}
    missing = requested - {None, *names} if names is not None else set()
    has_topology = any(task.topology for task in task_file.tasks)

    elsewhere = set[str]()
    if missing:
        with suppress(Forbidden):
            found = [item.metadata for item in access.list_kueue(session, kinds.LOCAL_QUEUE)]
            elsewhere = {item.namespace for item in found if item.name in missing}

    topologies = _topologies(session, queues or ()) if has_topology else {}
    return Queues(
        names=names,
        classes=classes,
        elsewhere=tuple(elsewhere),
        topologies=topologies,
        multikueue=any(
            multikueue.sends_away(session, name) for name in requested - missing if name
        ),
    )


def _list(session: Session, kind: ReadKind[T], namespace: str | None = None) -> list[T] | None:
    with suppress(Forbidden):
        return access.list_kueue(session, kind, namespace)
    return None


def _names(items: Iterable[Object]) -> tuple[str, ...]:
    return tuple(item.metadata.name for item in items)


def _topologies(session: Session, queues: Sequence[KueueQueue]) -> dict[str, tuple[str, ...]]:
    """Return the levels of the topologies of LocalQueues: labels of cluster nodes, by queue.

    Without permission to read what these consist of, the topologies stay unknown.
    """
    try:
        cluster_queues = access.list_kueue(session, kinds.CLUSTER_QUEUE)
        flavors = access.list_kueue(session, kinds.RESOURCE_FLAVOR)
        topologies = access.list_kueue(session, kinds.TOPOLOGY)
    except (Forbidden, NotServed):
        return {}
    queue_specs = {item.metadata.name: item.spec for item in cluster_queues}
    topology_of = {item.metadata.name: item.spec.topology_name for item in flavors}
    levels_of = {item.metadata.name: item.spec.levels for item in topologies}

    def levels(queue: KueueQueue) -> Iterator[str]:
        spec = queue_specs.get(queue.spec.cluster_queue, QueueSpec())
        for group in spec.resource_groups or ():
            for flavor in group.flavors or ():
                topology = topology_of.get(flavor.name, "")
                yield from (level.node_label for level in levels_of.get(topology, ()))

    return {queue.metadata.name: tuple(levels(queue)) for queue in queues}


def _access(session: Session, kind: Kind, named: bool) -> Access:
    """Return the access to a kind.

    Raises Outdated for a named backend if the cluster serves only other API versions.
    """
    if not access.serves(session, kind):
        versions = access.other_versions(session, kind) if named else ()
        if versions:
            hint = "update their controller, or choose another backend"
            raise Outdated(kind.plural, versions, kind.api_version, hint)
        return Access.ABSENT
    allowed = access.may(session, "create", kind)
    return Access.USABLE if allowed else Access.FORBIDDEN


def cluster_nodes(session: Session) -> tuple[ClusterNode, ...]:
    return tuple(
        ClusterNode(
            labels=node.metadata.labels,
            allocatable=node.status.allocatable,
            devices=count_models(node),
        )
        for node in room.list_cluster_nodes(session)
    )
