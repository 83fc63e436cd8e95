"""`serve`: run a service, show it and delete it."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from time import monotonic, sleep
from typing import TypeVar

from msgspec.structs import replace

from kubectl_sky.cluster import access, objects
from kubectl_sky.cluster.core import CoreManager
from kubectl_sky.cluster.session import Json, Session
from kubectl_sky.errors import (
    ClusterError,
    Conflict,
    Forbidden,
    Interrupted,
    NameTaken,
    NotFound,
    NotServed,
    TaskFailed,
    UnknownName,
    UserError,
)
from kubectl_sky.observe.ownership import controller
from kubectl_sky.render.manifests import Manifest
from kubectl_sky.serve.model import (
    ServiceObjects,
    ServicesDeleted,
    ServiceState,
    ServiceStatus,
    own_pods,
    status_of,
    version_id,
)
from kubectl_sky.submitting import submit, taskfile
from kubectl_sky.submitting.apply import apply
from kubectl_sky.submitting.submit import Connect, Options, Prepared
from kubectl_sky.tasks import deletion
from kubectl_sky.tasks.deletion import Deleted, Remainder
from kubectl_sky.tasks.ui import UI
from kubectl_sky.words import kinds, names
from kubectl_sky.words.core_objects import ConfigMap
from kubectl_sky.words.decoding import convert
from kubectl_sky.words.kinds import Kind, ReadKind
from kubectl_sky.words.objects import Object
from kubectl_sky.words.owners import User
from kubectl_sky.words.pod_objects import Pod
from kubectl_sky.words.task_objects import ServiceObject
from kubectl_sky.workloads.service import Replicas, replicas_of

T = TypeVar("T")
Item = TypeVar("Item", bound=Object)

_POLL_SECONDS = 1.0
_NOTE_SECONDS = 10.0  # between notes on what replicas wait for
_DONE = (ServiceState.READY, ServiceState.STOPPED)
_RUNNERS: Mapping[ReadKind[ServiceObject], ReadKind[ServiceObject]] = {
    kinds.DEPLOYMENT: kinds.REPLICA_SET,
    kinds.RAY_SERVICE: kinds.RAY_CLUSTER,
}
OPTIONAL: tuple[ReadKind[Object], ...] = (kinds.HPA, kinds.INGRESS)  # kinds that some services have
_NAMED: tuple[ReadKind[Object], ...] = (
    *_RUNNERS,
    kinds.SERVICE,
    *OPTIONAL,
)  # kinds with the name of the service


def up(options: Options, ui: UI, connect: Connect | None = None) -> ServiceStatus | None:
    """Create a service and wait until its replicas are ready; None for a dry run.

    Raises SkyError: NameTaken if the name is in use, TaskFailed if the replicas do not get ready.
    """
    prepared = plan(options, ui, connect)
    session = prepared.session
    replicas = plan_service(prepared)

    wanted = [objects.kind_of_known(item.object) for item in reversed(find_named(prepared))]
    for kind in dict.fromkeys((*wanted, *_RUNNERS)):  # the Deployment first
        live = get(session, kind, replicas.name)
        if live and (kind in wanted or _is_service(live)):
            raise _name_taken(kind, live, prepared.facts.user)

    prepared = submit.check(prepared, ui)
    if options.dry_run != "none":
        submit.preview([prepared], ui)
        return None

    apply(session, prepared.decision, prepared.existing, ui)
    ui.note(f'service "{replicas.name}" created')
    return follow(session, replicas, options, ui)


def plan(options: Options, ui: UI, connect: Connect | None) -> Prepared:
    task_file = taskfile.prepare(options.source, ui)
    # The id is that of a version, which is always new.
    prepared = submit.plan(options, replace(task_file, given_id=False), connect or Session.connect)
    ingress = plan_service(prepared).ingress
    if ingress and not ingress.certificate:
        with suppress(Forbidden):
            if not objects.exists(prepared.session, kinds.SECRET, ingress.secret):
                name = f'Secret "{ingress.secret}" of service.tls'
                hint = f"use `kubectl create secret tls {ingress.secret} --cert=FILE --key=FILE`"
                raise UserError(f'{name} not found in namespace "{prepared.facts.namespace}"', hint)
    _look_at_metric(prepared.session, plan_service(prepared), ui)
    return prepared


def plan_service(prepared: Prepared) -> Replicas:
    return replicas_of(prepared.decision.plans[0])


def _look_at_metric(session: Session, replicas: Replicas, ui: UI) -> None:
    """Say what keeps a service from being scaled by the metric of its pods."""
    scaling = replicas.scaling
    if not scaling or scaling.cpu_percent is not None:
        return
    reason = ""
    try:
        metrics = access.list_pod_metrics(session)
    except Forbidden:
        return
    except ClusterError as error:
        reason = f"the cluster's metrics of pods cannot be read: {error}"
    else:
        if metrics is None:
            reason = "the cluster has no metrics of pods; install an adapter such as"
            reason += " prometheus-adapter, or use --cpu-target 80"
        elif scaling.metric not in metrics:
            reason = f'no pod has the metric "{scaling.metric}" yet; --qps-metric names another'
    if reason:
        ui.note(f"{replicas.replicas} of up to {replicas.most} replicas run: {reason}")


def find_named(prepared: Prepared) -> list[Manifest]:
    """Return the objects with the name of the service, which all versions share."""
    return [
        item
        for item in prepared.existing.manifests.own
        if objects.kind_of_known(item.object) in _NAMED
        and item.object["metadata"]["name"] == plan_service(prepared).name
    ]


def get(session: Session, kind: Kind, name: str) -> Object | None:
    """Return the metadata of an object; None if it has none: see `get_manifest`."""
    manifest = get_manifest(session, kind, name)
    return convert(manifest, Object) if manifest else None


def get_manifest(session: Session, kind: Kind, name: str) -> Json | None:
    """Return an object; None if not found, or if few users can read its kind and this one not."""
    try:
        return objects.get_manifest(session, kind, name)
    except NotFound:
        return None
    except (NotServed, Forbidden):
        if kind in (kinds.RAY_SERVICE, kinds.INGRESS):  # rights that few users have
            return None
        raise


def _is_service(item: Object) -> bool:
    return item.metadata.labels.get(names.SERVICE) == item.metadata.name


def _owns(user: User, item: Object) -> bool:
    return user.owns(item.metadata.labels, item.metadata.annotations)


def _name_taken(kind: Kind, live: Object, user: User) -> NameTaken:
    metadata = live.metadata
    name = metadata.name
    namespace = metadata.namespace

    if not _is_service(live):
        message = f'{kind.kind} "{name}" already exists in namespace "{namespace}"'
        return NameTaken(f"{message}, and is not part of a service", "choose another --name")
    if not _owns(user, live):
        owner = metadata.labels.get(names.USERNAME)
        return NameTaken(f'service "{name}" belongs to {owner}', "choose another --name")
    if kind not in _RUNNERS:
        message = f'{kind.kind} "{name}" remains of an interrupted `serve up`'
        return NameTaken(message, f"run `kubectl sky serve down {name}` first")
    message = f'service "{name}" already exists in namespace "{namespace}"'
    return NameTaken(message, "run `kubectl sky serve update` to change it")


def find(session: Session, user: User | None, name: str) -> ServiceObject:
    """Return the Deployment or RayService of a service; see `find_manifest`."""
    return read(find_manifest(session, user, name))


def read(manifest: Json) -> ServiceObject:
    """Return what is read of a Deployment or RayService."""
    kind = next(kind for kind in _RUNNERS if kind.kind == manifest["kind"])
    return convert(manifest, kind.shape)


def find_manifest(session: Session, user: User | None, name: str) -> Json:
    """Return the Deployment or RayService of a service; of any user if `user` is None.

    Raises UnknownName.
    """
    name = name.removeprefix("service/")
    items = (get_manifest(session, kind, names.dns_label(name, "service")) for kind in _RUNNERS)
    existing = [item for item in items if item]
    live = next((item for item in existing if _is_service(read(item))), None)

    if live is None:
        message = f'service "{name}" not found in namespace "{session.namespace}"'
        hint = "run `kubectl sky serve status` to see your services"
        if existing:
            message += ": the Deployment of this name was not created by `serve up`"
        access.check_namespace(session, session.namespace, access.ARGUMENT)
        raise UnknownName(message, hint)

    service = read(live)
    if user and not _owns(user, service):
        owner = service.metadata.labels.get(names.USERNAME)
        raise UnknownName(f'service "{name}" belongs to {owner}', f"add --user {owner}")
    return live


def find_all(session: Session, namespace: str | None, user: User | None) -> list[ServiceObject]:
    """List the Deployments and RayServices of services, newest first."""
    items: list[ServiceObject] = []
    for kind in _RUNNERS:
        try:
            items += _list_labelled(session, kind, namespace)
        except (NotServed, Forbidden):
            if kind == kinds.DEPLOYMENT:
                raise
    services = [item for item in items if _is_service(item) and (not user or _owns(user, item))]
    return sorted(services, key=lambda item: item.metadata.creation_timestamp, reverse=True)


def belongs(item: Object, live: Object) -> bool:
    """Return whether an object is owned by a service's Deployment or RayService."""
    return any(owner.uid == live.metadata.uid for owner in item.metadata.owner_references)


def status(session: Session, live: ServiceObject) -> ServiceStatus:
    """Return the status of a service, and why replicas are not ready."""
    core = CoreManager(session)
    metadata = live.metadata
    (service,) = _read(session, [live], metadata.namespace, metadata.name)
    events = _if_allowed(lambda: core.list_events(metadata.namespace))
    return status_of(replace(service, events=events, cluster_nodes=_if_allowed(core.list_nodes)))


def statuses(session: Session, namespace: str | None, user: User | None) -> list[ServiceStatus]:
    """Return the status of all services, newest first, with one request per kind."""
    services = find_all(session, namespace, user)
    return [status_of(item) for item in _read(session, services, namespace)] if services else []


def _read(
    session: Session, services: Sequence[ServiceObject], namespace: str | None, name: str = ""
) -> list[ServiceObjects]:
    """Return the objects of services, or of the one with a name, with one request per kind."""
    runners = dict.fromkeys(map(_runner_of, services))
    parts = [item for kind in runners for item in _list_parts(session, kind, namespace, name)]
    pods = _list_labelled(session, kinds.POD, namespace, name)
    addresses = _list_readable(session, kinds.SERVICE, namespace, name)
    autoscalers = _list_readable(session, kinds.HPA, namespace, name)
    ingresses = _list_readable(session, kinds.INGRESS, namespace, name)

    def owned(items: Iterable[Item], live: ServiceObject) -> Item | None:
        same_name = (item for item in items if item.metadata.name == live.metadata.name)
        return next((item for item in same_name if belongs(item, live)), None)

    return [
        ServiceObjects(
            live,
            parts,
            pods,
            owned(addresses, live),
            owned(autoscalers, live),
            owned(ingresses, live),
        )
        for live in services
    ]


def _if_allowed(read: Callable[[], list[T]]) -> list[T]:
    try:
        return read()
    except Forbidden:
        return []


def _list_labelled(
    session: Session, kind: ReadKind[T], namespace: str | None, name: str = ""
) -> list[T]:
    selector = f"{names.SERVICE}={name}" if name else names.SERVICE
    return objects.list_all(session, kind, namespace, label_selector=selector)


def _list_readable(
    session: Session, kind: ReadKind[T], namespace: str | None, name: str
) -> list[T]:
    return _if_allowed(lambda: _list_labelled(session, kind, namespace, name))


def _list_parts(
    session: Session, kind: ReadKind[ServiceObject], namespace: str | None, name: str
) -> list[ServiceObject]:
    if kind == kinds.DEPLOYMENT:
        return _list_labelled(session, _RUNNERS[kind], namespace, name)
    return objects.list_all(session, _RUNNERS[kind], namespace)  # KubeRay copies no labels


def _runner_of(live: ServiceObject) -> ReadKind[ServiceObject]:
    return next(kind for kind in _RUNNERS if isinstance(live, kind.shape))


def parts(session: Session, live: ServiceObject) -> list[ServiceObject]:
    """Return the ReplicaSets of a Deployment, or the RayClusters of a RayService."""
    metadata = live.metadata
    items = _list_parts(session, _runner_of(live), metadata.namespace, metadata.name)
    return [item for item in items if controller(item) == metadata.uid]


def version_objects(session: Session, live: ServiceObject) -> list[ConfigMap]:
    metadata = live.metadata
    items = _list_labelled(session, kinds.CONFIG_MAP, metadata.namespace, metadata.name)
    return [item for item in items if belongs(item, live)]


def task_file(session: Session, live: ServiceObject) -> str | None:
    """Return the YAML of the version that runs; None if it is too long to be kept."""
    version = version_id(live)
    texts = (
        (item.data or {}).get(names.TASK_FILE, "")
        for item in version_objects(session, live)
        if item.metadata.labels.get(names.TASK_ID) == version
    )
    return next((text for text in texts if 0 < len(text) <= names.MAX_TASK_FILE), None)


def pods(session: Session, live: ServiceObject) -> Sequence[Pod]:
    """Return the pods of a service, oldest first: a pod's position is the replica's number."""
    metadata = live.metadata
    labelled = _list_labelled(session, kinds.POD, metadata.namespace, metadata.name)
    return own_pods(live, parts(session, live), labelled)


def follow(session: Session, replicas: Replicas, options: Options, ui: UI) -> ServiceStatus:
    """Wait until the version is ready, and say what it waits for. Raises TaskFailed."""
    name = replicas.name
    started = monotonic()
    noted = 0.0
    text = ""
    limit = options.start_timeout
    if replicas.ray_config:  # KubeRay has no limit of its own
        limit = limit or replicas.deadline

    while True:
        current = status(session, find(session, None, name))
        if not options.follow or current.status in _DONE:
            return current
        if current.status == ServiceState.FAILED or (limit and monotonic() - started > limit):
            raise _list_failed(current)

        waiting = f"waiting for {current.replicas.wanted} replicas, {current.replicas.ready} ready"
        waiting += f": {current.message}" if current.message else ""
        if waiting != text and monotonic() - noted > (_NOTE_SECONDS if text else 2 * _POLL_SECONDS):
            text = waiting
            noted = monotonic()
            ui.note(waiting)

        try:
            sleep(_POLL_SECONDS)
        except KeyboardInterrupt:
            hint = f"the service keeps running; see `kubectl sky serve status {name}`"
            raise Interrupted("interrupted", hint) from None


def _list_failed(service: ServiceStatus) -> TaskFailed:
    name = service.name
    reason = service.message or "replicas are not ready in time"
    hint = f"see `kubectl sky serve logs {name}`"
    if service.replicas.ready:
        hint += f"; {service.replicas.ready} ready replicas keep serving"
    if service.version > 1:
        hint += f"; `kubectl rollout undo deployment/{name}` returns to the version before"
    return TaskFailed(f'service "{name}", version {service.version}: {reason}', hint)


def scale(session: Session, user: User, name: str, replicas: int) -> None:
    """Set the number of a service's replicas. Raises UserError if something else sets it."""
    for is_last in (False, False, True):
        live = find_manifest(session, user, name)
        by = "Ray Serve" if live["kind"] != kinds.DEPLOYMENT.kind else ""
        by = by or ("its autoscaler" if get(session, kinds.HPA, live["metadata"]["name"]) else "")
        if by:
            hint = "change its file and run `kubectl sky serve update`"
            raise UserError(f'{by} sets the number of replicas of service "{name}"', hint)
        try:
            objects.replace_object(session, live | {"spec": live["spec"] | {"replicas": replicas}})
        except Conflict:  # such as by its status
            if is_last:
                raise
        else:
            return


def find_to_delete(session: Session, user: User, references: Sequence[str]) -> list[Object]:
    """Return what to delete of services: what they own is garbage-collected.

    Without a Deployment, that is what an interrupted `up` left. Raises UnknownName.
    """
    items: list[Object] = []
    for reference in references:
        try:
            items.append(find(session, user, reference))
        except UnknownName:
            name = names.dns_label(reference.removeprefix("service/"), "service")
            remaining = leftovers(session, user, name)
            if not remaining:
                raise
            items += remaining
    return items


def _kind_of(item: Object) -> Kind:
    return next(kind for kind in _NAMED if isinstance(item, kind.shape))


def delete(session: Session, items: Sequence[Object]) -> list[str]:
    """Delete objects of services by their uid; return the names of the services."""
    for item in items:
        objects.delete_with_dependents(session, _kind_of(item), item.metadata.identity)
    return list(dict.fromkeys(item.metadata.name for item in items))


def wait_until_gone(
    session: Session, items: Iterable[Object], seconds: float | None = None
) -> list[Remainder]:
    """Wait until deleted services and their pods are gone, or return what remains."""
    uids: dict[tuple[str, str], dict[str, Kind]] = defaultdict(dict)
    for item in items:
        metadata = item.metadata
        uids[metadata.namespace, metadata.name][metadata.uid] = _kind_of(item)
    deleted = [
        Deleted(f"service/{name}", namespace, names.SERVICE, name, of_service, _title_of_pod)
        for (namespace, name), of_service in uids.items()
    ]
    return deletion.wait_until_gone(session, deleted, seconds)


def _title_of_pod(pod: Pod) -> str:
    return f"pod {pod.metadata.name}"


def describe_deleted(
    services: Sequence[str], remaining: Sequence[Remainder] | None
) -> ServicesDeleted:
    """Return the document of deleted services; `remaining` is None if nobody has waited."""
    status = "deleting" if remaining or remaining is None else "deleted"
    texts = list(map(str, remaining or ()))
    return ServicesDeleted(services=services, status=status, remaining=texts)


def leftovers(session: Session, user: User, name: str = "") -> list[Object]:
    """Return what interrupted calls of `up` left without a Deployment, of one service or of all."""
    left_kinds: tuple[ReadKind[Object], ...] = (kinds.SERVICE, *OPTIONAL)
    return [
        item
        for kind in left_kinds
        for item in _list_readable(session, kind, session.namespace, name)
        if _is_service(item) and not item.metadata.owner_references and _owns(user, item)
    ]
