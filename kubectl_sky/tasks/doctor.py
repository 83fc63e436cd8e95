"""`doctor`: diagnose a task, or check a cluster."""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Annotated

from msgspec import Struct
from msgspec.structs import replace

from kubectl_sky.cluster import access, objects, parallel
from kubectl_sky.cluster.core import CoreManager
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import ClusterError, Forbidden, NotServed
from kubectl_sky.observe import masks, ownership, queues, volumes
from kubectl_sky.observe.deletion import is_terminating
from kubectl_sky.observe.findings import Cause
from kubectl_sky.observe.nodes import State
from kubectl_sky.observe.rights import list_served, role
from kubectl_sky.observe.signals import ALL_PODS, TaskSnapshot, select
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.observe.verdict import Diagnosis, find_bad_node, judge
from kubectl_sky.plan.devices import with_devices
from kubectl_sky.plan.resources import ACCELERATORS, list_requested
from kubectl_sky.tasks import devices, evidence, find, limits, ranks, room
from kubectl_sky.tasks.find import Item
from kubectl_sky.words import kinds, names
from kubectl_sky.words.core_objects import Pvc
from kubectl_sky.words.documents import Document, Note
from kubectl_sky.words.kinds import ReadKind
from kubectl_sky.words.objects import Object
from kubectl_sky.words.owners import User
from kubectl_sky.words.pod_objects import Pod
from kubectl_sky.workloads import registry

_LOG_LINES = 20  # log lines that a verdict may quote
_MAX_LOGS = 4  # number of nodes whose logs are read: the first that failed


Mask = Callable[[str], str]


def diagnose(session: Session, task: TaskStatus, mask: Mask | None = None) -> Diagnosis:
    """Diagnose a task from its objects, events, cluster nodes, last log lines and running nodes.

    The state and the causes are read from the same objects. `mask` changes each log and each
    message before a part of it is quoted.
    """
    state, unread = snapshot(session, task, mask)
    current = state.task or (masks.of_task(task, mask) if mask else task)
    predecessor = find.find_predecessor(session, current) if current.predecessor else None
    lost = _why_lost(current, predecessor)
    is_due = predecessor is not None and predecessor.state is State.COMPLETED
    activity = ranks.read(session, current)
    if mask:
        activity = tuple(replace(it, last_line=mask(it.last_line)) for it in activity)
    state = replace(state, now=session.now(), activity=activity, lost=lost, is_due=is_due)
    diagnosis = judge(current, state, unread)
    if diagnosis.task.state is not State.FAILED:
        return diagnosis
    recent = find.list_tasks(session, find.Scope(task.namespace, User(task.user)))
    bad = find_bad_node(diagnosis.task, recent)
    return replace(diagnosis, findings=(*diagnosis.findings, bad)) if bad else diagnosis


def _why_lost(task: TaskStatus, predecessor: find.Target | None) -> str:
    if not task.predecessor:
        return ""
    if predecessor is None:
        return f"{task.predecessor} was deleted"
    failed = predecessor.state is State.FAILED
    return f"{task.predecessor} has failed" if failed else ""


def why_pending(session: Session, task: TaskStatus, *, brief: bool = False) -> str:
    """Return the first cause of nodes that do not start; empty if none is found."""
    pending = {node.index for node in task.nodes if node.state is State.PENDING}
    for finding in diagnose(session, task).findings:
        if not finding.ranks or pending & set(finding.ranks):
            return finding.headline if brief else finding.what
    return ""


def why_failed(session: Session, task: TaskStatus) -> Cause | None:
    """Return the cause of the first failure, from its pod and last log lines; None if unknown.

    A cause that only repeats the exit code counts as unknown.
    """
    node = task.first_failure
    if node is None:
        return None
    pods: tuple[Pod, ...] = ()
    with suppress(ClusterError):  # deleted meanwhile; the log may say enough
        pods = (objects.get(session, kinds.POD, node.pod, task.namespace),) if node.pod else ()
    logs = _logs(session, replace(task, nodes=(node,)))
    state = TaskSnapshot(task.id, task.namespace, {kinds.POD.kind: pods}, logs, task)
    cause = judge(task, state).cause
    return None if cause is None or cause.mere else cause


def snapshot(
    session: Session, task: TaskStatus, mask: Mask | None = None
) -> tuple[TaskSnapshot, tuple[str, ...]]:
    """Return the objects related to a task, and the kinds that the user cannot read."""
    namespace = task.namespace
    reads = _reads(session, task)
    lists = parallel.map_parallel(_list_if_allowed, reads.values(), len(reads))
    results = dict(zip(reads, lists, strict=True))

    unread = tuple(kind for kind, items in results.items() if items is None)
    if unread:  # a kind that is not served may be reported as forbidden
        groups = ("", *access.groups(session))
        optional = {
            item.kind: item.group
            for item in (*registry.KINDS, *registry.COMPANION_KINDS)
            if "." in item.group
        }
        unread = tuple(kind for kind in unread if optional.get(kind, "") in groups)

    items = {kind: tuple(items) for kind, items in results.items() if items is not None}
    if mask:
        items = {kind: masks.of_messages(it, mask) for kind, it in items.items()}

    owned, current = _objects_of_task(session, task, items)
    items |= owned
    items |= _devices(session, namespace, items)
    items |= _gang(session, items)

    claims = select(items, kinds.PVC)
    pods = select(items, kinds.POD)
    named = volumes.volumes(item for item in claims if names.VOLUME in item.metadata.labels)
    own_volumes = {item.name: item.claim for item in named if item.user == task.user}
    names_of_claims = {name for pod in pods for name in pod.spec.claims}
    mounted = tuple(item for item in claims if item.metadata.name in names_of_claims)
    items[kinds.PVC.kind] = mounted

    logs = _logs(session, current or task)
    if mask:
        current = current and masks.of_task(current, mask)  # what evidence has added
        logs = {rank: masks.of_lines(lines, mask) for rank, lines in logs.items()}

    deletions = _deletions(session, namespace, mounted)
    now = session.now()
    state = TaskSnapshot(task.id, namespace, items, logs, current, deletions, own_volumes, now)
    return state, unread


def _devices(
    session: Session, namespace: str, items: Mapping[str, tuple[Object, ...]]
) -> dict[str, tuple[Object, ...]]:
    """Return the cluster nodes with their devices, and ResourceClaims, if a pod waits for some."""
    waiting = [pod for pod in select(items, kinds.POD) if not pod.spec.node_name]
    if not any(
        pod.spec.resource_claims or {*list_requested(pod.spec)} & {*ACCELERATORS} for pod in waiting
    ):
        return {}
    nodes = with_devices(select(items, kinds.NODE), devices.list_devices(session))
    found: dict[str, tuple[Object, ...]] = {kinds.NODE.kind: tuple(nodes)}
    claims = _list_if_allowed(lambda: objects.list_all(session, kinds.RESOURCE_CLAIM, namespace))
    return found if claims is None else {**found, kinds.RESOURCE_CLAIM.kind: tuple(claims)}


def _reads(session: Session, task: TaskStatus) -> dict[str, Callable[[], Sequence[Object]]]:
    core = CoreManager(session)
    namespace = task.namespace
    selector = names.selector({names.TASK_ID: task.id})

    def labelled(kind: ReadKind[Object]) -> Callable[[], Sequence[Object]]:
        return lambda: objects.list_all(session, kind, namespace, label_selector=selector)

    reads: dict[str, Callable[[], Sequence[Object]]] = {
        kinds.POD.kind: labelled(kinds.POD),
        kinds.EVENT.kind: lambda: core.list_events(namespace),
        kinds.NODE.kind: core.list_nodes,
        kinds.PVC.kind: lambda: objects.list_all(session, kinds.PVC, namespace),
        kinds.QUEUED_WORKLOAD.kind: lambda: access.list_kueue(
            session, kinds.QUEUED_WORKLOAD, namespace
        ),
    }
    reads |= {kind.kind: labelled(kind) for kind in (*registry.KINDS, *registry.COMPANION_KINDS)}
    if gang := access.find_gang(session):
        reads[gang.resource] = lambda: objects.list_all(session, gang, namespace)
    queue_kind = task.workload.queue_kind
    if queue_kind:
        reads[queue_kind.kind] = lambda: objects.list_all(session, queue_kind)
    return reads


def _gang(
    session: Session, items: Mapping[str, tuple[Object, ...]]
) -> dict[str, tuple[Object, ...]]:
    """Return the PodGroups of a task's pods, and the pods beside which a gang has to fit."""
    pods = select(items, kinds.POD)
    used = set(map(queues.group_name, pods))
    groups = select(items, kinds.GANG)
    gang: dict[str, tuple[Object, ...]] = {
        kinds.GANG.resource: tuple(it for it in groups if it.metadata.name in used)
    }
    is_gang = gang[kinds.GANG.resource] or items.get(kinds.POD_GROUP.kind)
    if not is_gang or all(pod.spec.node_name for pod in pods):
        return gang
    running = room.list_running(session, select(items, kinds.NODE))
    return gang if running is None else {**gang, ALL_PODS: tuple(running)}


def _objects_of_task(
    session: Session, task: TaskStatus, objects_by_kind: Mapping[str, tuple[Object, ...]]
) -> tuple[dict[str, tuple[Object, ...]], TaskStatus | None]:
    workloads = [item for kind in registry.KINDS for item in select(objects_by_kind, kind)]
    pods = select(objects_by_kind, kinds.POD)
    uids = set(task.uids.values())

    jobs = find.list_intermediate_jobs(session, task.namespace, workloads, pods)
    decided = ownership.decide(workloads, pods, jobs)
    owned = find.explain_missing(session, task.namespace, decided)

    statuses = evidence.fold(session, owned)
    current = next((item for item in statuses if uids & {*item.uids.values()}), None)
    owned_uids = {pod.metadata.uid for owned_task in owned for pod in owned_task.all_pods} | uids

    by_kind = {
        kind: tuple(
            item
            for item in objects_by_kind[kind]
            if item.metadata.uid in owned_uids
            or (kind != kinds.POD.kind and ownership.controller(item) in uids)
        )
        for kind in (kinds.POD.kind, *(kind.kind for kind in registry.KINDS))
        if kind in objects_by_kind
    }
    return by_kind, current


def _list_if_allowed(read: Callable[[], Sequence[Item]]) -> Sequence[Item] | None:
    try:
        return read()
    except Forbidden:
        return None
    except NotServed:
        return ()


def _deletions(session: Session, namespace: str, claims: Sequence[Pvc]) -> dict[str, str]:
    claims = [claim for claim in claims if is_terminating(claim)]
    if not claims:
        return {}
    pods = _list_if_allowed(lambda: objects.list_all(session, kinds.POD, namespace)) or ()
    return {claim.metadata.name: volumes.deletion(claim, pods) for claim in claims}


def _logs(session: Session, task: TaskStatus) -> dict[int, tuple[str, ...]]:
    """Return the last log lines of the nodes that failed first, by rank; kept ones without pods."""
    failed = [node for node in task.nodes if node.exit_code and node.pod]
    failed.sort(key=lambda node: (node.ended_at, node.index))
    core = CoreManager(session)
    logs: dict[int, tuple[str, ...]] = {}
    for node in failed[:_MAX_LOGS]:
        try:
            lines = core.last_lines(task.namespace, node.pod, names.CONTAINER, _LOG_LINES)
        except ClusterError:  # a log may be deleted or not started; the objects are enough
            continue
        logs[node.index] = tuple(line.decode(errors="replace") for line in lines)
    kept = evidence.of_deleted_pods(session, task)
    for death in kept.deaths[:_MAX_LOGS] if kept else ():
        logs.setdefault(death.rank, death.lines[-_LOG_LINES:])
    return logs


class MissingRight(Struct, frozen=True, rename={"commands": "for"}):
    """A right that you lack."""

    right: str
    optional: bool
    extra: str
    commands: Annotated[str, Note("commands")]

    def __str__(self) -> str:
        return self.right


class ClusterCheck(
    Document,
    frozen=True,
    kw_only=True,
    rename={
        "storage": "default_storage_class",
        "groups": "api_groups",
        "missing": "missing_rights",
    },
):
    """The cluster and your rights: `doctor`."""

    context: str
    server: str
    version: str
    namespace: str
    cluster_nodes: Annotated[int | None, Note("null if you may not list them")]
    storage: Annotated[str | None, Note("null if you may not list them")]
    groups: Sequence[str]
    gang_scheduling: Annotated[str, Note("the API version of Kubernetes' PodGroups; may be empty")]
    missing: list[MissingRight]
    unlimited: Annotated[
        tuple[str, ...], Note("of a namespace with a quota: what no quota or policy limits")
    ] = ()

    def __repr__(self) -> str:
        """Return what a Python shell shows, on one line."""
        required = sum(not right.optional for right in self.missing)
        rights = f"{required} rights are missing" if required else "all rights"
        return f"<ClusterCheck {self.context}, namespace {self.namespace}: {rights}>"

    @property
    def ok(self) -> bool:
        return all(right.optional for right in self.missing)


def check_cluster(session: Session) -> ClusterCheck:
    """Check the user's permissions and the features of the cluster; read-only."""
    groups = access.groups(session)
    rights = list_served(groups)

    with parallel.pool() as pool:
        allowed = pool.map(
            lambda right: access.may(session, right.verb, right.kind, right.subresource), rights
        )
        version = pool.submit(session.send, "GET", "/version")
        classes = pool.submit(
            _list_if_allowed, lambda: objects.list_all(session, kinds.STORAGE_CLASS)
        )
        nodes = pool.submit(_list_if_allowed, CoreManager(session).list_nodes)
        unlimited = pool.submit(_list_unlimited, session)
        missing = [
            MissingRight(str(right), right.optional, right.extra, right.commands)
            for right, may in zip(rights, allowed, strict=True)
            if not may
        ]
        cluster_nodes = nodes.result()
        storage = classes.result()

    git_version = str(version.result().body.get("gitVersion", ""))
    default_class = None if storage is None else volumes.default_class(storage)
    node_count = None if cluster_nodes is None else len(cluster_nodes)
    gang = access.find_gang(session)
    gang_scheduling = gang.api_version if gang else ""

    return ClusterCheck(
        context=session.context,
        server=session.server,
        namespace=session.namespace,
        version=git_version,
        missing=missing,
        storage=default_class,
        cluster_nodes=node_count,
        groups=tuple(groups),
        gang_scheduling=gang_scheduling,
        unlimited=unlimited.result(),
    )


def _list_unlimited(session: Session) -> tuple[str, ...]:
    """Name what is not limited if an admin limits something; nobody asks for it without a quota."""
    namespace = session.namespace
    quotas = _list_if_allowed(lambda: objects.list_all(session, kinds.RESOURCE_QUOTA, namespace))
    return limits.list_unlimited(session, namespace, quotas) if quotas else ()


def make_role(session: Session, extras: Collection[str] = ()) -> list[dict[str, object]]:
    """Return a Role with the required permissions for served kinds, and its binding."""
    rights = list_served(access.groups(session))
    return role(session.namespace, CoreManager(session).whoami(), rights, extras)
