"""`users`: give users a namespace with rights and a quota."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

from msgspec import Struct
from msgspec.structs import replace

from kubectl_sky.cluster import access, objects
from kubectl_sky.cluster.apply import apply_all
from kubectl_sky.cluster.session import Json, Session
from kubectl_sky.errors import ClusterError, Forbidden, NotFound, NotServed, UserError
from kubectl_sky.observe import rights
from kubectl_sky.observe.difference import differences
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.render.manifests import Manifest, built_in
from kubectl_sky.tasks import find
from kubectl_sky.tasks.find import Scope
from kubectl_sky.users import model
from kubectl_sky.users.model import Account, AccountStatus, QuotaFlags
from kubectl_sky.words import kinds, names, owners
from kubectl_sky.words.kinds import Kind
from kubectl_sky.words.owners import User
from kubectl_sky.workloads.workload import field

# The kinds of a user's objects in the namespace; the binding is deleted first and created last.
_KINDS = (
    kinds.ROLE_BINDING,
    kinds.ROLE,
    kinds.RESOURCE_QUOTA,
    kinds.LIMIT_RANGE,
    kinds.SERVICE_ACCOUNT,
    kinds.LOCAL_QUEUE,
)
# Fields that have nothing but what is planned: an added subject would have the user's rights.
_EXACT = (("rules",), ("subjects",), ("spec", "hard"), ("spec", "limits"))
# Nobody gets rights before the quota exists.
_STAGES = {kinds.NAMESPACE.kind: 0, kinds.ROLE_BINDING.kind: 2}  # of other kinds: 1
_MAX_NAMES = 12  # maximum number of names in a message


class Request(Struct, frozen=True):
    """What `users add` is to create. An empty namespace is the user's own."""

    user: User
    kind: str
    namespace: str | None
    flags: QuotaFlags
    cluster_queue: str | None = None
    pod_security: str | None = None


class Change(Struct, frozen=True):
    """An object, and what becomes of it: created, configured, unchanged or deleted."""

    object: Json
    done: str

    @property
    def name(self) -> str:
        """Return resource and name as kubectl prints them: `resourcequota/alice`."""
        kind = objects.known_kind(self.object)
        resource = f"{kind.kind.lower()}.{kind.group}" if kind.group else kind.kind.lower()
        return f"{resource}/{self.object['metadata']['name']}"


class Added(Struct, frozen=True):
    """The result of `users add`: the changes, in order, and notes."""

    account: Account
    changes: tuple[Change, ...]
    notes: tuple[str, ...] = ()


def add(session: Session, request: Request, dry_run: str) -> Added:
    """Create or update a user; `dry_run` is none, client or server.

    Limits without a flag keep their value. Raises UserError before anything is sent if an object
    with one of the names belongs to somebody else.
    """
    model.check_name(request.user, request.kind)
    name = request.namespace or request.user.namespace
    namespace = _get(session, kinds.NAMESPACE, name)
    labels = (namespace or {"metadata": {}})["metadata"].get("labels") or {}
    level = request.pod_security or labels.get(model.POD_SECURITY_LABEL, "baseline")
    planned = Account(request.user, request.kind, name, pod_security=level)
    manages_namespace = _check_namespace(session, namespace, planned, request)
    live = _live(session, planned) if namespace else {}
    _check_kind(planned, live.get(kinds.ROLE))
    quota = live.get(kinds.RESOURCE_QUOTA, {})
    current = quota["spec"].get("hard") or {} if _is_of(quota, request.user) else {}
    hard = model.quota(request.flags, current, manages_namespace)
    if namespace and hard:
        _check_other_quotas(session, planned)
    cluster_queue, version, notes = _queue(session, request.cluster_queue, live)
    planned = replace(
        planned,
        hard=hard,
        rules=rights.rules(rights.namespaced(rights.served(tuple(access.groups(session))))),
        cluster_queue=cluster_queue,
        queue_version=version,
    )
    items = [manifest.object for manifest in render(planned, with_namespace=manages_namespace)]
    existing = live | ({kinds.NAMESPACE: namespace} if namespace else {})
    for item in items:
        _refuse_foreign(planned, item, existing.get(_kind(item)))
    changes = _apply(session, planned, items, existing, dry_run)
    if dry_run == "server" and not namespace:
        notes = (*notes, f'namespace "{name}" does not exist yet: its objects were not checked')
    wanted = set(map(_kind, items))
    stale = [
        item for kind, item in live.items() if kind not in wanted and _is_of(item, planned.user)
    ]
    if dry_run == "none":
        _delete(session, stale)
    deleted = [Change(item, "deleted") for item in stale]
    return Added(planned, (*changes, *deleted), notes)


def render(account: Account, *, with_namespace: bool) -> Iterator[Manifest]:
    """Yield the objects of a user, in the order of creation."""
    parts = {
        "namespace": with_namespace,
        "role": True,
        "rolebinding": True,
        "quota": account.hard,
        "limitrange": account.default_requests,
        "serviceaccount": account.kind == model.SERVICE_ACCOUNT,
        "queue": account.cluster_queue,
    }
    for part in filter(parts.get, parts):
        yield built_in(f"users/{part}.yaml.j2", account=account)


def candidates(session: Session) -> Iterator[tuple[str, str]]:
    """Yield the users of `users list` and their namespaces, to complete a command line."""
    for account in list_accounts(session, None):
        yield account.user, account.namespace


def _get(session: Session, kind: Kind, name: str, namespace: str | None = None) -> Json | None:
    with suppress(NotFound):
        return {"apiVersion": kind.api_version, "kind": kind.kind} | objects.get(
            session, kind, name, namespace
        )
    return None


def _check_namespace(
    session: Session, namespace: Json | None, planned: Account, request: Request
) -> bool:
    """Return whether the namespace is the user's, or is to be created for the user.

    Raises UserError for one that is being deleted, or that Kubernetes or our programs run in, and
    for one of somebody else that nobody chose, or whose Pod Security level is to change.
    """
    if planned.namespace.startswith("kube-"):
        raise UserError(
            f'namespace "{planned.namespace}" belongs to Kubernetes: a user who may create pods in'
            " it can take over the cluster",
            "choose another namespace with --namespace",
        )
    _refuse_programs(session, planned.namespace, namespace)
    if namespace is None:
        return True
    if namespace["metadata"].get("deletionTimestamp"):
        raise UserError(
            f'namespace "{planned.namespace}" is being deleted', "wait until it is gone"
        )
    if _is_of(namespace, planned.user):
        return True
    if not request.namespace:
        raise UserError(
            f'namespace "{planned.namespace}" already exists and was not created for'
            f' user "{planned.user.name}"',
            "choose a namespace with --namespace",
        )
    if request.pod_security:
        raise UserError(
            f'namespace "{planned.namespace}" was not created for user "{planned.user.name}", and'
            " its Pod Security level is not changed",
            "omit --pod-security",
        )
    return False


def _refuse_programs(session: Session, name: str, namespace: Json | None) -> None:
    """Refuse a namespace with our server or controllers: its users can act as their accounts."""
    accounts_of_pods = objects.list_all(session, kinds.SERVICE_ACCOUNT, name) if namespace else ()
    existing = {item["metadata"]["name"] for item in accounts_of_pods}
    programs = sorted(existing & {*names.CONTROLLERS.values(), names.SERVER})
    if programs or name == names.CONTROLLERS_NAMESPACE:
        what = " and ".join(programs) if programs else "the controllers"
        raise UserError(
            f'namespace "{name}" is that of {what}: a user who may create pods in it can'
            " take their place",
            "choose another namespace, or install the controllers elsewhere with --for",
        )


def _is_of(item: Json, user: User) -> bool:
    """Return whether `users add` created an object for a user."""
    metadata = item.get("metadata") or {}
    return names.ACCOUNT in (metadata.get("labels") or {}) and user.owns(metadata)


def _check_kind(planned: Account, role: Json | None) -> None:
    """Refuse another kind of subject: the current one would lose its rights."""
    if role is None or not _is_of(role, planned.user):
        return
    kind = role["metadata"]["labels"][names.ACCOUNT]
    if kind != planned.kind:
        raise UserError(
            f'"{planned.user.name}" was added as a {kind}',
            "use the same flag again, or remove it first",
        )


def _live(session: Session, planned: Account) -> dict[Kind, Json]:
    """Return the existing objects with the names of the user's objects."""
    by_kind = dict.fromkeys(_KINDS, planned.name)
    by_kind[kinds.SERVICE_ACCOUNT] = planned.user.name
    by_kind[kinds.LOCAL_QUEUE] = planned.queue
    if planned.kind != model.SERVICE_ACCOUNT:
        del by_kind[kinds.SERVICE_ACCOUNT]  # the name may have characters that no object can have
    live = {}
    for kind, name in by_kind.items():
        with suppress(NotServed):
            item = _get(session, _served(session, kind), name, planned.namespace)
            if item:
                live[kind] = item
    return live


def _served(session: Session, kind: Kind) -> Kind:
    """Return the kind in the version to use. Raises NotServed for a LocalQueue without Kueue."""
    return access.served_kueue(session, kind) if kind is kinds.LOCAL_QUEUE else kind


def _refuse_foreign(planned: Account, item: Json, live: Json | None) -> None:
    """Raise UserError for an object with our name that is not the user's."""
    if live and not _is_of(live, planned.user):
        name = f"{item['kind']}/{item['metadata']['name']}"
        raise UserError(
            f'{name} already exists in namespace "{planned.namespace}" and was not created for'
            f' user "{planned.user.name}"',
            "choose another namespace with --namespace, or delete it",
        )


def _check_other_quotas(session: Session, planned: Account) -> None:
    """Refuse a second quota of ours: both would count all pods of the namespace."""
    quotas = objects.list_all(
        session, kinds.RESOURCE_QUOTA, planned.namespace, label_selector=names.ACCOUNT
    )
    others = [model.name_of(item) for item in quotas if not _is_of(item, planned.user)]
    if others:
        raise UserError(
            f'namespace "{planned.namespace}" has the quota of user "{others[0]}", and a quota'
            " counts all pods of its namespace",
            "add this user without a quota, or in another namespace",
        )


def _queue(
    session: Session, requested: str | None, live: Mapping[Kind, Json]
) -> tuple[str, str, tuple[str, ...]]:
    """Return the ClusterQueue of the user, the apiVersion of its LocalQueue, and notes.

    Without a flag, it is the current one, then the only one. Raises UserError if it is not found
    or another one than the current, and ClusterError without Kueue.
    """
    try:
        kind = access.served_kueue(session, kinds.LOCAL_QUEUE)
    except NotServed:
        if requested:
            raise ClusterError(
                "Kueue is not installed in the cluster", "omit --cluster-queue"
            ) from None
        return "", "", ()
    current = live.get(kinds.LOCAL_QUEUE, {}).get("spec", {}).get("clusterQueue", "")
    if requested == model.NONE:
        return "", kind.api_version, ()
    if current and requested not in (None, current):
        raise UserError(
            f'LocalQueue uses ClusterQueue "{current}", which cannot change',
            "use --cluster-queue none first",
        )
    if current:
        return current, kind.api_version, ()
    name, notes = _cluster_queue(session, requested)
    return name, kind.api_version, notes


def _cluster_queue(session: Session, requested: str | None) -> tuple[str, tuple[str, ...]]:
    """Return the requested ClusterQueue, or the only one, and notes. Raises UserError."""
    try:
        items = access.list_kueue(session, kinds.CLUSTER_QUEUE)
    except (Forbidden, NotServed):
        return requested or "", ()
    existing = sorted(item["metadata"]["name"] for item in items)
    listed = ", ".join(existing[:_MAX_NAMES])
    if requested and requested not in existing:
        hint = f"existing: {listed}" if existing else "the cluster has none"
        raise UserError(f'ClusterQueue "{requested}" not found', hint)
    if requested or len(existing) == 1:
        return requested or existing[0], ()
    if not existing:
        return "", ()
    several = f"no LocalQueue: choose one of the ClusterQueues with --cluster-queue: {listed}"
    return "", (several,)


def _apply(
    session: Session,
    planned: Account,
    items: Sequence[Json],
    existing: Mapping[Kind, Json],
    dry_run: str,
) -> list[Change]:
    """Update the existing objects, and create the others in order.

    What was created is deleted if one fails.
    """
    changes, missing = [], []
    for item in items:
        live = existing.get(_kind(item))
        patch = _patch(item, live) if live else None
        if live is None:
            missing.append(item)
        elif patch is not None and dry_run != "client":
            kind, is_dry = objects.known_kind(item), dry_run == "server"
            objects.patch_by_uid(session, kind, live["metadata"], patch, dry_run=is_dry)
        done = "created" if live is None else "unchanged" if patch is None else "configured"
        changes.append(Change(item, done))
    if dry_run != "client":
        stages: list[list[Json]] = [[], [], []]
        for item in missing:
            stages[_STAGES.get(item["kind"], 1)].append(item)
        if dry_run == "server" and kinds.NAMESPACE not in existing:
            del stages[1:]  # nothing can be checked in a namespace that does not exist

        def accept(manifest: Json, live: Json) -> None:
            _refuse_foreign(planned, manifest, live)

        apply_all(session, stages, accept, dry_run=dry_run == "server")
    return changes


def _kind(item: Json) -> Kind:
    """Return the kind of an object, whatever version of Kueue the cluster serves."""
    kind = objects.known_kind(item)
    return kinds.LOCAL_QUEUE if kind.kind == kinds.LOCAL_QUEUE.kind else kind


def _patch(item: Json, live: Json) -> Json | None:
    """Return the merge patch of an existing object; None if nothing changes."""
    exact = all(field(item, path) in (None, field(live, path)) for path in _EXACT)
    if exact and not differences(item, live):
        return None
    hard, current = (field(entry, ("spec", "hard")) for entry in (item, live))
    if not hard:
        return item
    return item | {"spec": {"hard": dict.fromkeys(current or ()) | hard}}


def list_accounts(session: Session, namespace: str | None) -> list[AccountStatus]:
    """Return the users of a namespace, or of all, by name."""
    roles = objects.list_all(session, kinds.ROLE, namespace, label_selector=names.ACCOUNT)
    quotas: dict[str, list[Json]] = {}
    for item in objects.list_all(session, kinds.RESOURCE_QUOTA, namespace):
        quotas.setdefault(item["metadata"]["namespace"], []).append(item)
    statuses = [
        model.account(where, role, quotas.get(where, ()))
        for role in roles
        for where in [role["metadata"]["namespace"]]
    ]
    return sorted(statuses, key=lambda status: (status.user, status.namespace))


def get_account(session: Session, name: str | None, namespace: str | None) -> AccountStatus:
    """Return a user with the use of its quota; without a name, the quotas of the namespace.

    Raises UserError if the user is not found.
    """
    role = _role(session, name, namespace) if name else None
    where = role["metadata"]["namespace"] if role else session.namespace
    queues: list[Json] = []
    with suppress(NotServed, Forbidden):
        queues = access.list_kueue(session, kinds.LOCAL_QUEUE, where) if role else []
    quotas = objects.list_all(session, kinds.RESOURCE_QUOTA, where)
    return model.account(where, role, quotas, queues)


def _role(session: Session, name: str, namespace: str | None) -> Json:
    """Return the Role of a user, which is deleted last. Raises UserError unless there is one."""
    user = owners.named(name)
    items = objects.list_all(session, kinds.ROLE, namespace, label_selector=names.ACCOUNT)
    roles = [item for item in items if _is_of(item, user)]
    if len(roles) == 1:
        return roles[0]
    if roles:
        namespaces = ", ".join(sorted(item["metadata"]["namespace"] for item in roles))
        raise UserError(
            f'user "{name}" has several namespaces: {namespaces}', "choose one with --namespace"
        )
    where = f' in namespace "{namespace}"' if namespace else ""
    raise UserError(f'user "{name}" not found{where}', "run `kubectl sky users list`")


class Removal(Struct, frozen=True):
    """What `users remove` would delete.

    `objects` are the user's in the namespace. `deletes_namespace` is whether that was created for
    the user and no other user added by `users add` has it. `others` are these users.
    """

    user: User
    namespace: str
    objects: tuple[Json, ...]
    namespace_object: Json | None
    others: tuple[str, ...]
    running: tuple[TaskStatus, ...]
    volumes: int

    @property
    def deletes_namespace(self) -> bool:
        """Whether the namespace is deleted with the user."""
        return self.namespace_object is not None


def removal(
    session: Session, name: str, namespace: str | None, *, keeps_namespace: bool = False
) -> Removal:
    """Return what to remove of a user. Raises UserError if the user is not found."""
    user, role = owners.named(name), _role(session, name, namespace)
    where = role["metadata"]["namespace"]
    roles = objects.list_all(session, kinds.ROLE, where, label_selector=names.ACCOUNT)
    others = tuple(model.name_of(item) for item in roles if not _is_of(item, user))
    namespace_object = _get(session, kinds.NAMESPACE, where)
    ours = namespace_object is not None and _is_of(namespace_object, user)
    deletes = ours and not others and not keeps_namespace
    scope = Scope(where, None if deletes else _owner(role, user))
    tasks = [task for task in find.list_tasks(session, scope) if not task.over]
    claims = objects.list_all(session, kinds.PVC, where) if deletes else []
    return Removal(
        user=user,
        namespace=where,
        objects=tuple(_objects_of(session, where, user)),
        namespace_object=namespace_object if deletes else None,
        others=others if ours else (),
        running=tuple(tasks),
        volumes=len(claims),
    )


def _owner(role: Json, user: User) -> User | None:
    """Return the owner of the user's tasks; None for a group, whose members are not known."""
    metadata = role["metadata"]
    kind = metadata["labels"][names.ACCOUNT]
    if kind == model.SERVICE_ACCOUNT:
        return owners.named(f"system:serviceaccount:{metadata['namespace']}:{user.name}")
    return None if kind == model.GROUP else user


def _objects_of(session: Session, namespace: str, user: User) -> Iterable[Json]:
    """Yield the user's objects in a namespace, the binding first."""
    for kind in _KINDS:
        try:
            served = _served(session, kind)
            items = objects.list_all(session, served, namespace, label_selector=names.ACCOUNT)
        except NotServed:
            continue
        yield from (item for item in items if _is_of(item, user))


def remove(session: Session, removal: Removal, dry_run: str) -> list[Change]:
    """Delete a user's objects, and the namespace if it was created for the user.

    The Role is last: as long as it exists, a second `remove` finds the user.
    """
    items = [*removal.objects, *filter(None, [removal.namespace_object])]
    items.sort(key=lambda item: item["kind"] == kinds.ROLE.kind)
    if dry_run == "none":
        _delete(session, items)
    return [Change(item, "deleted") for item in items]


def _delete(session: Session, items: Iterable[Json]) -> None:
    for item in items:
        objects.delete_by_uid(session, objects.known_kind(item), item["metadata"])
