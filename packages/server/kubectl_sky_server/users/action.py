"""`users`: give users a namespace with rights and a quota."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress

from msgspec import Struct
from msgspec.structs import replace

from kubectl_sky.cluster import access, objects
from kubectl_sky.cluster.session import Json, Session
from kubectl_sky.errors import ClusterError, Conflict, Forbidden, NotFound, NotServed, UserError
from kubectl_sky.observe import rights
from kubectl_sky.observe.deletion import hold_of
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.render.manifests import Manifest, render_template
from kubectl_sky.tasks import deletion, find
from kubectl_sky.tasks.deletion import Remainder
from kubectl_sky.tasks.find import Scope
from kubectl_sky.tasks.limits import list_unlimited
from kubectl_sky.words import kinds, names, owners
from kubectl_sky.words.core_objects import ResourceQuota
from kubectl_sky.words.decoding import convert
from kubectl_sky.words.kinds import Kind
from kubectl_sky.words.objects import Metadata, Object
from kubectl_sky.words.owners import User
from kubectl_sky.words.scheduled_objects import KueueQueue
from kubectl_sky_server.assets import TEMPLATES
from kubectl_sky_server.users import model
from kubectl_sky_server.users.model import Account, QuotaFlags

_MANAGER = "kubectl-sky-users"  # field manager: fields that others set are not changed
# The kinds of a user's objects in the namespace; the binding is deleted first.
_KINDS = (
    kinds.ROLE_BINDING,
    kinds.ROLE,
    kinds.RESOURCE_QUOTA,
    kinds.LIMIT_RANGE,
    kinds.SERVICE_ACCOUNT,
)


class Request(Struct, frozen=True):
    """What `users add` is to create. Without a namespace it is the user's own.

    `policy` is whether the cluster is to get the admission policy of all users' own namespaces.
    """

    user: User
    kind: str
    namespace: str | None
    flags: QuotaFlags
    cluster_queue: str | None = None
    pod_security: str | None = None
    extras: Collection[str] | None = None  # as in rights.EXTRAS; None: those that it has
    policy: bool = False


class Change(Struct, frozen=True):
    """An object, and what becomes of it: created, configured, unchanged, (is being) deleted."""

    object: Json
    done: str

    @property
    def name(self) -> str:
        """Resource and name as kubectl prints them: `resourcequota/alice`."""
        kind = objects.kind_of_known(self.object)
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
    with one of the names belongs to somebody else, and Conflict for a field that somebody else set.
    """
    model.check_name(request.user, request.kind)
    user = request.user
    name = request.namespace or request.user.namespace
    namespace = _get_namespace(session, name)
    owns_namespace = _check_namespace(request, name, namespace)

    local_queue = _find_served_queue(session)
    live = _list_objects(session, name, local_queue) if namespace else []
    _check_objects(request, name, live)

    own = {item["kind"]: item["spec"] for item in live if _is_of(item, user) and "spec" in item}
    current = own.get(kinds.RESOURCE_QUOTA.kind, {}).get("hard") or {}
    hard = model.quota(request.flags, current, owns_namespace)
    queue = own.get(kinds.LOCAL_QUEUE.kind, {}).get("clusterQueue", "")
    cluster_queue, notes = _choose_queue(session, request.cluster_queue, queue, local_queue)

    labels = (namespace or {"metadata": {}})["metadata"].get("labels") or {}
    served = rights.list_served(access.groups(session))
    roles = [item for item in live if item["kind"] == kinds.ROLE.kind and _is_of(item, user)]
    extras = rights.list_extras(roles, served) if request.extras is None else request.extras
    queue_version = local_queue.api_version if local_queue else ""

    account = Account(
        user,
        request.kind,
        name,
        hard,
        rights.rules(rights.list_namespaced(served, extras)),
        cluster_queue,
        queue_version,
        request.pod_security or labels.get(model.POD_SECURITY_LABEL, "baseline"),
    )

    manifests = render(account, with_namespace=owns_namespace, with_policy=request.policy)
    items = [manifest.object for manifest in manifests]
    _check_others(request, items, live)
    policies = _list_policies(session) if request.policy else []
    existing = {_key(item): item for item in (*live, *policies, *filter(None, [namespace]))}
    if dry_run == "server" and not namespace:
        dry_run = "client"
        notes = (*notes, f'namespace "{name}" does not exist yet: its objects were not checked')

    changes = [_apply(session, item, existing.get(_key(item)), dry_run) for item in items]
    planned = set(map(_key, items))
    stale = [item for item in live if _is_of(item, user) and _key(item) not in planned]
    remaining: list[Remainder] = []
    if dry_run == "none":
        _delete(session, stale)
        remaining = _wait_until_gone(session, name, stale, deletion.REQUEST_SECONDS)
    return Added(account, (*changes, *list_deletions(stale, remaining)), notes)


def list_deletions(items: Iterable[Json], remaining: Iterable[Remainder] | None) -> list[Change]:
    """Return what became of deleted objects; `remaining` is None if nobody has waited."""
    kept = {item.id for item in remaining or ()}
    changes = [Change(item, "deleted") for item in items]
    return [
        replace(change, done="is being deleted")
        if remaining is None or change.name in kept
        else change
        for change in changes
    ]


def render(
    account: Account, *, with_namespace: bool, with_policy: bool = False
) -> Iterator[Manifest]:
    """Yield the objects of a user in the order of creation: no rights before the limits exist."""
    parts = {
        "policy": with_policy,
        "policybinding": with_policy,
        "namespace": with_namespace,
        "role": True,
        "quota": account.hard,
        "limitrange": account.default_requests,
        "serviceaccount": account.kind == model.SERVICE_ACCOUNT,
        "queue": account.cluster_queue,
        "rolebinding": True,
    }
    for part in filter(parts.get, parts):
        yield render_template(TEMPLATES, f"users/{part}.yaml.j2", account=account)


def candidates(session: Session) -> Iterator[tuple[str, str]]:
    """Yield the users of `users list` and their namespaces, to complete a command line."""
    for account in list_accounts(session, None):
        yield account.user, account.namespace


def _get_namespace(session: Session, name: str) -> Json | None:
    with suppress(NotFound):
        kind = kinds.NAMESPACE
        return objects.get_manifest(session, kind, name) | {"apiVersion": "v1", "kind": kind.kind}
    return None


def _list_policies(session: Session) -> list[Json]:
    """Return the admission policies of the cluster, and their bindings. Raises ClusterError."""
    try:
        return [
            item
            for kind in (kinds.VALIDATING_POLICY, kinds.VALIDATING_POLICY_BINDING)
            for item in objects.list_manifests(session, kind)
        ]
    except NotServed:
        raise ClusterError(
            "the cluster has no ValidatingAdmissionPolicies", "omit --policy"
        ) from None


def _find_served_queue(session: Session) -> Kind | None:
    """Return the kind of LocalQueues in the version to use; None without Kueue."""
    with suppress(NotServed):
        return access.find_kueue(session, kinds.LOCAL_QUEUE)
    return None


def _list_objects(session: Session, namespace: str, local_queue: Kind | None) -> list[Json]:
    """Return all objects in a namespace of the kinds of a user's, the bindings first."""
    served = (*_KINDS, *filter(None, [local_queue]))
    return [item for kind in served for item in objects.list_manifests(session, kind, namespace)]


def _key(item: Json) -> tuple[str, str]:
    return item["kind"], item["metadata"]["name"]


def _is_of(item: Json, user: User) -> bool:
    metadata = item["metadata"]
    labels = metadata.get("labels") or {}
    return _is_account(item) and user.owns(labels, metadata.get("annotations") or {})


def _is_account(item: Json) -> bool:
    """Return whether `users add` created an object."""
    return names.ACCOUNT in (item["metadata"].get("labels") or {})


def _check_namespace(request: Request, name: str, namespace: Json | None) -> bool:
    """Return whether the namespace is the user's, or is to be created for the user.

    Raises UserError for one that is being deleted, or that Kubernetes or our programs run in, and
    for one of somebody else that nobody chose, or that is to change.
    """
    if name.startswith("kube-"):
        raise UserError(
            f'namespace "{name}" belongs to Kubernetes: a user who may create pods in'
            " it can take over the cluster",
            "choose another namespace with --namespace",
        )

    if namespace is None:
        return True
    if namespace["metadata"].get("deletionTimestamp"):
        raise UserError(f'namespace "{name}" is being deleted', "wait until it is gone")
    if _is_of(namespace, request.user):
        return True

    if not request.namespace:
        raise UserError(
            f'namespace "{name}" already exists and was not created for user "{request.user.name}"',
            "choose a namespace with --namespace",
        )
    if request.pod_security:
        raise UserError(
            f'namespace "{name}" was not created for user "{request.user.name}", and'
            " its Pod Security level is not changed",
            "omit --pod-security",
        )
    if request.policy:
        raise UserError(
            f'namespace "{name}" was not created for user "{request.user.name}", and'
            " the policy is only for namespaces that `users add` has created",
            "omit --policy",
        )
    return False


def _check_objects(request: Request, namespace: str, live: Sequence[Json]) -> None:
    """Refuse a namespace with our server or controllers, and another kind of subject."""
    accounts = {name for kind, name in map(_key, live) if kind == kinds.SERVICE_ACCOUNT.kind}
    programs = sorted(accounts & {*names.CONTROLLERS.values(), names.SERVER})
    if programs or namespace == names.CONTROLLERS_NAMESPACE:
        what = " and ".join(programs) if programs else "the controllers"
        raise UserError(
            f'namespace "{namespace}" is that of {what}: a user who may create pods in it can'
            " take their place",
            "choose another namespace, or install the controllers elsewhere with --for",
        )

    for item in live:
        kind = (item["metadata"].get("labels") or {}).get(names.ACCOUNT)
        if _is_of(item, request.user) and kind != request.kind:
            raise UserError(
                f'"{request.user.name}" was added as a {kind}',
                "use the same flag again, or remove it first",
            )


def _check_others(request: Request, items: Iterable[Json], live: Sequence[Json]) -> None:
    """Refuse to change objects that are not the user's, and a second quota in the namespace."""
    others = {_key(item): item for item in live if not _is_of(item, request.user)}
    quota = kinds.RESOURCE_QUOTA.kind
    owners_of_quotas = [
        model.name_of(item)
        for item in others.values()
        if item["kind"] == quota and _is_account(item)
    ]

    for item in items:
        if _key(item) in others:
            raise UserError(
                f"{'/'.join(_key(item))} already exists in the namespace and was not created for"
                f' user "{request.user.name}"',
                "choose another namespace with --namespace, or delete it",
            )
        if item["kind"] == quota and owners_of_quotas:
            raise UserError(
                f'the namespace has the quota of user "{owners_of_quotas[0]}", and a quota counts'
                " all pods of its namespace",
                "add this user without a quota, or in another namespace",
            )


def _choose_queue(
    session: Session, requested: str | None, current: str, local_queue: Kind | None
) -> tuple[str, tuple[str, ...]]:
    """Return the ClusterQueue of the user, and notes.

    Without a flag, it is the current one, then the only one. Raises UserError if it is not found
    or another one than the current, and ClusterError without Kueue.
    """
    if local_queue is None and requested:
        raise ClusterError("Kueue is not installed in the cluster", "omit --cluster-queue")
    if local_queue is None or requested == model.NONE:
        return "", ()

    if current and requested not in (None, current):
        raise UserError(
            f'LocalQueue uses ClusterQueue "{current}", which cannot change',
            "use --cluster-queue none first",
        )
    if current:
        return current, ()

    try:
        items = access.list_kueue(session, kinds.CLUSTER_QUEUE)
    except (Forbidden, NotServed):
        return requested or "", ()

    existing = sorted(item.metadata.name for item in items)
    listed = ", ".join(existing[:12])
    if requested and requested not in existing:
        hint = f"existing: {listed}" if existing else "the cluster has none"
        raise UserError(f'ClusterQueue "{requested}" not found', hint)
    if requested or len(existing) <= 1:
        return requested or "".join(existing), ()
    return "", (f"no LocalQueue: choose one of the ClusterQueues with --cluster-queue: {listed}",)


def _apply(session: Session, item: Json, live: Json | None, dry_run: str) -> Change:
    """Apply an object as the field manager of `users`. Raises Conflict."""
    if dry_run == "client":
        done = "configured" if live else "created"
        return Change(item, done)

    try:
        applied = objects.apply(
            session, item, manager=_MANAGER, force=False, dry_run=dry_run == "server"
        )
    except Conflict as error:
        raise Conflict(
            f"{Change(item, '').name} was changed by somebody else: {error.what}",
            "undo that change with `kubectl edit`, or delete the object and try again",
        ) from None

    if live is None:
        return Change(item, "created")
    done = "unchanged" if _content(live) == _content(applied) else "configured"
    return Change(item, done)


def _content(item: Json) -> Json:
    """Return what an apply can change; a dry run returns the resourceVersion of before."""
    metadata = item["metadata"]
    return item | {"metadata": [metadata.get("labels"), metadata.get("annotations")], "status": {}}


def list_accounts(session: Session, namespace: str | None) -> list[model.User]:
    roles = objects.list_metadata(session, kinds.ROLE, namespace, label_selector=names.ACCOUNT)
    quotas: dict[str, list[ResourceQuota]] = {}
    for item in objects.list_all(session, kinds.RESOURCE_QUOTA, namespace):
        quotas.setdefault(item.metadata.namespace, []).append(item)
    spaces = [(role.metadata.namespace, role) for role in roles]
    statuses = (model.account(where, role, quotas.get(where, ())) for where, role in spaces)
    return sorted(statuses, key=lambda status: (status.user, status.namespace))


def get_account(session: Session, name: str | None, namespace: str | None) -> model.User:
    """Return a user with its quota and what is not limited; without a name, those of the namespace.

    Raises UserError if the user is not found.
    """
    role = _get_role(session, name, namespace) if name else None
    where = role.metadata.namespace if role else session.namespace
    queues: list[KueueQueue] = []
    with suppress(NotServed, Forbidden):
        queues = access.list_kueue(session, kinds.LOCAL_QUEUE, where) if role else []
    quotas = objects.list_all(session, kinds.RESOURCE_QUOTA, where)
    unlimited = list_unlimited(session, where, quotas)
    status = model.account(where, role, quotas, queues, unlimited)
    return replace(status, without_rights=role is not None and not _is_bound(session, role))


def _is_bound(session: Session, role: Object) -> bool:
    """Return whether the Role of a user has the binding that gives its rights, as far as known."""
    kind = kinds.ROLE_BINDING
    with suppress(Forbidden):
        return objects.exists(session, kind, role.metadata.name, role.metadata.namespace)
    return True


def _get_role(session: Session, name: str, namespace: str | None) -> Object:
    """Return the Role of a user, which is deleted last. Raises UserError unless there is one."""
    user = owners.name_owner(name)
    items = objects.list_metadata(session, kinds.ROLE, namespace, label_selector=names.ACCOUNT)
    roles = [item for item in items if user.owns(item.metadata.labels, item.metadata.annotations)]
    if len(roles) == 1:
        return roles[0]
    if roles:
        namespaces = ", ".join(sorted(item.metadata.namespace for item in roles))
        raise UserError(
            f'user "{name}" has several namespaces: {namespaces}', "choose one with --namespace"
        )
    where = f' in namespace "{namespace}"' if namespace else ""
    raise UserError(f'user "{name}" not found{where}', "run `kubectl sky users list`")


class Removal(Struct, frozen=True):
    """What `users remove` would delete.

    `objects` are the user's, the Role last: as long as it exists, a second `remove` finds the user.
    They include the namespace if it was created for the user and no other user added by `users add`
    has it. `others` are these users. `running` and `services` are tasks and services of the user.
    """

    namespace: str
    objects: tuple[Json, ...]
    deletes_namespace: bool
    others: tuple[str, ...]
    running: tuple[TaskStatus, ...]
    services: tuple[str, ...]
    volumes: int


def plan_removal(
    session: Session, name: str, namespace: str | None, *, keeps_namespace: bool = False
) -> Removal:
    """Return what to remove of a user. Raises UserError if the user is not found."""
    user = owners.name_owner(name)
    role = _get_role(session, name, namespace)
    where = role.metadata.namespace
    kind = role.metadata.labels[names.ACCOUNT]

    live = _list_objects(session, where, _find_served_queue(session))
    own = [item for item in live if _is_of(item, user)]
    roles = [item for item in live if item["kind"] == kinds.ROLE.kind and _is_account(item)]
    others = tuple(model.name_of(item) for item in roles if not _is_of(item, user))

    home = _get_namespace(session, where)
    is_own = home is not None and _is_of(home, user)
    others = others if is_own else ()
    if home and is_own and not others and not keeps_namespace:
        own.append(home)
    deletes_namespace = home in own

    owner: User | None = user
    if kind == model.SERVICE_ACCOUNT:
        owner = owners.name_owner(f"system:serviceaccount:{where}:{user.name}")
    if kind == model.GROUP or deletes_namespace:  # the members of a group are not known
        owner = None

    tasks = find.list_tasks(session, Scope(where, owner))
    volumes = objects.list_all(session, kinds.PVC, where) if deletes_namespace else []
    return Removal(
        where,
        tuple(sorted(own, key=lambda item: item["kind"] == kinds.ROLE.kind)),
        deletes_namespace,
        others,
        tuple(task for task in tasks if not task.over),
        tuple(_list_services(session, where, owner)),
        len(volumes),
    )


def _list_services(session: Session, namespace: str, owner: User | None) -> Iterator[str]:
    """Yield the names of the services of a user; None means of all users."""
    for kind in (kinds.DEPLOYMENT, kinds.RAY_SERVICE):
        with suppress(NotServed):
            items = objects.list_metadata(session, kind, namespace, label_selector=names.SERVICE)
            for item in items:
                metadata = item.metadata
                if owner is None or owner.owns(metadata.labels, metadata.annotations):
                    yield metadata.name


def remove(session: Session, removal: Removal, *, waits: bool = True) -> list[Remainder] | None:
    """Delete the objects of a user; return what still exists then, or None if nobody waits."""
    _delete(session, removal.objects)
    return _wait_until_gone(session, removal.namespace, removal.objects) if waits else None


def _delete(session: Session, items: Iterable[Json]) -> None:
    for item in items:
        objects.delete_by_uid(session, objects.kind_of_known(item), item["metadata"])


def _wait_until_gone(
    session: Session, namespace: str, items: Sequence[Json], seconds: float | None = None
) -> list[Remainder]:
    """Wait until deleted objects are gone; return what still exists, and what that waits for.

    The id of each is its name in a `Change`.
    """
    uids = {item["metadata"]["uid"] for item in items}
    local_queue = _find_served_queue(session)

    def read() -> list[Remainder]:
        live = _list_objects(session, namespace, local_queue)
        live += filter(None, [_get_namespace(session, namespace)])
        return [_describe_remaining(item) for item in live if item["metadata"]["uid"] in uids]

    return deletion.poll(read, seconds) if items else []


def _describe_remaining(item: Json) -> Remainder:
    hold = hold_of(item["kind"], convert(item["metadata"], Metadata))
    if waits := model.list_holds(item):
        hold = replace(hold, why=f"waits: {'; '.join(waits)}")
    return Remainder(Change(item, "").name, f"user/{model.name_of(item)}", [hold])
