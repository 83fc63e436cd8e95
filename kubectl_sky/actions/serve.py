"""`serve`: run a service, update it, show it and delete it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from time import monotonic, sleep
from typing import Any

from kubectl_sky.actions import submit, taskfile
from kubectl_sky.actions.apply import (
    add_owners,
    admit,
    apply,
    owner_reference,
    shared_objects,
)
from kubectl_sky.actions.preflight import refuse_foreign
from kubectl_sky.actions.submit import Options, Prepared
from kubectl_sky.actions.ui import UI
from kubectl_sky.cluster import objects
from kubectl_sky.cluster.apply import apply_all
from kubectl_sky.cluster.core import CoreManager
from kubectl_sky.cluster.session import Json, Session
from kubectl_sky.errors import (
    Conflict,
    Forbidden,
    Interrupted,
    NameTaken,
    NotFound,
    NotServed,
    SkyError,
    TaskFailed,
    UnknownName,
)
from kubectl_sky.observe.difference import foreign_fields
from kubectl_sky.observe.ownership import controller
from kubectl_sky.observe.services import (
    ServiceObjects,
    ServiceStatus,
    State,
    own_pods,
    pod_labels,
    status_of,
)
from kubectl_sky.plan.serving import Serving
from kubectl_sky.render.manifests import Manifest
from kubectl_sky.words import kinds, names
from kubectl_sky.words.kinds import Kind
from kubectl_sky.words.owners import User

_ATTEMPTS = 5  # to replace an object whose status changes
_POLL_SECONDS = 1.0
_NOTE_SECONDS = 10.0  # between notes on what replicas wait for
_RUNNERS = {kinds.DEPLOYMENT: kinds.REPLICA_SET, kinds.RAY_SERVICE: kinds.RAY_CLUSTER}
_CLAIMED = (*_RUNNERS, kinds.SERVICE, kinds.HPA)  # kinds with the name of the service


def up(options: Options, ui: UI) -> ServiceStatus | None:
    """Create a service and wait until its replicas are ready; None for a dry run.

    Raises SkyError: NameTaken if the name is in use, TaskFailed if the replicas do not get ready.
    """
    prepared = _plan(options, ui)
    session, serving = prepared.session, _serving(prepared)
    wanted = [objects.known_kind(item.object) for item in reversed(_named(prepared))]
    for kind in dict.fromkeys((*wanted, *_RUNNERS)):  # the Deployment first
        live = _live(session, kind, serving.name)
        if live and (kind in wanted or _is_service(live)):
            raise _taken(live, prepared.facts.user)
    prepared = submit.check(prepared, ui)
    if options.dry_run == "server":
        apply(session, prepared.decision, prepared.existing, ui, dry_run=True)
    if options.dry_run != "none":
        ui.preview(prepared.shown)
        return None
    apply(session, prepared.decision, prepared.existing, ui)
    ui.note(f'service "{serving.name}" created')
    return _follow(session, serving, options, ui)


def update(options: Options, ui: UI) -> ServiceStatus | None:
    """Replace a service by the file's, replica by replica; None for a dry run.

    The old replicas serve until the new ones are ready. Raises SkyError like `up`.
    """
    prepared = _plan(options, ui)
    session, serving = prepared.session, _serving(prepared)
    live = find(session, prepared.facts.user, serving.name)
    if _is_unchanged(prepared, live):
        ui.note(f'service "{serving.name}" unchanged')
        return None if options.dry_run != "none" else _follow(session, serving, options, ui)
    current = _claimed(prepared, live)
    prepared = submit.check(prepared, ui)
    if options.dry_run == "server":
        admit(session, prepared.existing.manifests.workload)
    if options.dry_run != "none":
        ui.preview(prepared.shown)
        return None
    _replace(prepared, live, current)
    _prune(session, live, prepared.decision.id)
    ui.note(f'service "{serving.name}" updated')
    return _follow(session, serving, options, ui)


def _plan(options: Options, ui: UI) -> Prepared:
    task_file = taskfile.prepare(options.source, ui)
    # The id is that of a version, which is always new.
    return submit.plan(options, replace(task_file, given_id=False), Session.connect)


def _serving(prepared: Prepared) -> Serving:
    """Return the service of a file."""
    serving = prepared.decision.plans[0].serving
    assert serving
    return serving


def _named(prepared: Prepared) -> list[Manifest]:
    """Return the objects with the name of the service, which all versions share."""
    name, manifests = _serving(prepared).name, prepared.existing.manifests.own
    return [item for item in manifests if _is_named(item.object, name)]


def _is_named(item: Json, name: str) -> bool:
    return objects.known_kind(item) in _CLAIMED and item["metadata"]["name"] == name


def _live(session: Session, kind: Kind, name: str) -> Json | None:
    try:
        return objects.get(session, kind, name)
    except NotFound:
        return None
    except (NotServed, Forbidden):
        if kind == kinds.RAY_SERVICE:  # without KubeRay, or rights that few users have
            return None
        raise


def _is_service(item: Json) -> bool:
    metadata = item["metadata"]
    return bool((metadata.get("labels") or {}).get(names.SERVICE) == metadata["name"])


def _taken(live: Json, user: User) -> NameTaken:
    metadata, kind = live["metadata"], live["kind"]
    name, namespace = metadata["name"], metadata["namespace"]
    if not _is_service(live):
        message = f'{kind} "{name}" already exists in namespace "{namespace}"'
        return NameTaken(f"{message}, and is not part of a service", "choose another --name")
    if not user.owns(metadata):
        owner = (metadata.get("labels") or {}).get(names.USERNAME)
        return NameTaken(f'service "{name}" belongs to {owner}', "choose another --name")
    if kind not in {runner.kind for runner in _RUNNERS}:
        message = f'{kind} "{name}" remains of an interrupted `serve up`'
        return NameTaken(message, f"run `kubectl sky serve down {name}` first")
    message = f'service "{name}" already exists in namespace "{namespace}"'
    return NameTaken(message, "run `kubectl sky serve update` to change it")


def find(session: Session, user: User | None, name: str) -> Json:
    """Return the Deployment or RayService of a service; of any user if `user` is None.

    Raises UnknownName.
    """
    name = name.removeprefix("service/")
    items = (_live(session, kind, names.dns_label(name, "service")) for kind in _RUNNERS)
    existing = [item for item in items if item]
    live = next(filter(_is_service, existing), next(iter(existing), None))
    if live is None or not _is_service(live):
        message = f'service "{name}" not found in namespace "{session.namespace}"'
        hint = "run `kubectl sky serve status` to see your services"
        if live:
            message += ": the Deployment of this name was not created by `serve up`"
        raise UnknownName(message, hint)
    if user and not user.owns(live["metadata"]):
        owner = live["metadata"]["labels"].get(names.USERNAME)
        raise UnknownName(f'service "{name}" belongs to {owner}', f"add --user {owner}")
    return live


def find_all(session: Session, namespace: str | None, user: User | None) -> list[Json]:
    """List the Deployments of services, newest first."""
    items: list[Json] = []
    for kind in _RUNNERS:
        try:
            items += objects.list_all(session, kind, namespace, label_selector=names.SERVICE)
        except (NotServed, Forbidden):
            if kind == kinds.DEPLOYMENT:
                raise
    ours = [
        item for item in items if _is_service(item) and (not user or user.owns(item["metadata"]))
    ]
    return sorted(ours, key=lambda item: item["metadata"]["creationTimestamp"], reverse=True)


def _is_unchanged(prepared: Prepared, live: Json) -> bool:
    """Return whether the file gives the objects of the version that runs, under its id."""
    (entry,) = prepared.task_file.entries
    entry = replace(entry, task_id=live["metadata"]["labels"].get(names.TASK_ID, entry.task_id))
    task_file = replace(prepared.task_file, entries=(entry,))
    session, serving = prepared.session, _serving(prepared)
    same = submit.decided(prepared.options, task_file, session, prepared.facts)
    for manifest in same.existing.manifests.own:
        item, kind = manifest.object, objects.known_kind(manifest.object)
        current = _live(session, kind, item["metadata"]["name"])
        if current is None:
            return False
        if kind == kinds.DEPLOYMENT and serving.scaling:
            item = _with_replicas(item, current)
        if foreign_fields(item, current):
            return False
    surplus = None if serving.scaling else _live(session, kinds.HPA, serving.name)
    return surplus is None


def _with_replicas(item: Json, live: Json) -> Json:
    """Return a Deployment with the number of replicas that its autoscaler has chosen."""
    wanted = max(live["spec"].get("replicas") or 0, item["spec"]["replicas"])
    return item | {"spec": item["spec"] | {"replicas": wanted}}


def _claimed(prepared: Prepared, live: Json) -> dict[str, Json]:
    """Return the live Service and autoscaler of a service, by kind. Raises NameTaken."""
    current, name = {live["kind"]: live}, _serving(prepared).name
    (workload,) = prepared.existing.manifests.workload
    if workload.object["kind"] != live["kind"]:
        message = f'service "{name}" is a {live["kind"]}'
        raise NameTaken(message, "run `kubectl sky serve down` first to change its backend")
    for kind in (kinds.SERVICE, kinds.HPA):
        item = _live(prepared.session, kind, name)
        wanted = any(manifest.object["kind"] == kind.kind for manifest in _named(prepared))
        if item and _belongs(item, live):
            current[kind.kind] = item
        elif item and wanted:
            message = f'{kind.kind} "{name}" is not part of the service'
            raise NameTaken(message, "rename it, or run the service under another name")
    return current


def _belongs(item: Json, deployment: Json) -> bool:
    owners = item["metadata"].get("ownerReferences") or ()
    return any(owner["uid"] == deployment["metadata"]["uid"] for owner in owners)


def _replace(prepared: Prepared, live: Json, current: dict[str, Json]) -> None:
    """Send the objects of a version, then the Deployment; undo the former if that fails."""
    session, named, serving = prepared.session, _named(prepared), _serving(prepared)
    owner, manifests = owner_reference(live), prepared.existing.manifests
    admit(session, manifests.workload)
    versioned = [_owned(item.object, owner) for item in manifests.own if item not in named]
    existing = prepared.existing.shared or {}
    with shared_objects(session, manifests.shared, existing, False) as shared:
        applied = apply_all(session, [versioned], refuse_foreign)
        try:
            sharers = [
                owner_reference(done.object)
                for done in applied
                if done.object["kind"] == kinds.CONFIG_MAP.kind
            ]
            for item in shared:
                add_owners(session, item, sharers)
            for item in (manifest.object for manifest in named):
                before = current.get(item["kind"])
                if before is None:
                    objects.create(session, _owned(item, owner))
                else:
                    _replace_object(session, item, before, serving)
        except (SkyError, KeyboardInterrupt):
            unused = not _has_version(session, live, prepared.decision.id)
            for done in applied:
                if done.created and unused:
                    kind = objects.known_kind(done.object)
                    objects.delete_by_uid(session, kind, done.object["metadata"])
            raise
    if not serving.scaling and kinds.HPA.kind in current:
        objects.delete_by_uid(session, kinds.HPA, current[kinds.HPA.kind]["metadata"])


def _replace_object(session: Session, item: Json, live: Json, serving: Serving) -> None:
    """Replace an object, again if only a controller changed it, such as its status.

    Raises Conflict if another client changed it.
    """
    known, metadata = _fixed(live, serving), live["metadata"]
    for _ in range(_ATTEMPTS - 1):
        sent = _replacing(item, live, serving)
        try:
            objects.replace_object(session, sent)
        except Conflict:
            kind = objects.known_kind(live)
            live = objects.get(session, kind, metadata["name"], metadata["namespace"])
            sent["metadata"].pop("resourceVersion", None)
            if not foreign_fields(sent, live):  # the first attempt, whose answer was lost
                return
            if _fixed(live, serving) != known:
                raise
        else:
            return
    objects.replace_object(session, _replacing(item, live, serving))


def _fixed(live: Json, serving: Serving) -> Json:
    """Return what no controller changes in an object."""
    spec, metadata = dict(live.get("spec") or {}), live["metadata"]
    if serving.scaling and live["kind"] == kinds.DEPLOYMENT.kind:
        spec.pop("replicas", None)  # the autoscaler's
    return {"uid": metadata["uid"], "labels": metadata.get("labels"), "spec": spec}


def _has_version(session: Session, live: Json, version: str) -> bool:
    """Return whether a service may have a version: the answer to its update may be lost."""
    metadata = live["metadata"]
    try:
        kind = objects.known_kind(live)
        current = objects.get(session, kind, metadata["name"], metadata["namespace"])
    except SkyError:
        return True
    return pod_labels(current).get(names.TASK_ID) == version


def _owned(item: Json, owner: Json) -> Json:
    return item | {"metadata": item["metadata"] | {"ownerReferences": [owner]}}


def _replacing(item: Json, live: Json, serving: Serving) -> Json:
    """Return the manifest as the replacement of an object, with what others have added to it."""
    metadata, before = item["metadata"], live["metadata"]
    kept = {
        key: before[key]
        for key in ("uid", "resourceVersion", "ownerReferences", "finalizers")
        if key in before
    }
    for field in ("labels", "annotations"):
        others = {
            key: text for key, text in (before.get(field) or {}).items() if not names.is_ours(key)
        }
        kept[field] = others | (metadata.get(field) or {})
    if item["kind"] == kinds.DEPLOYMENT.kind and serving.scaling:
        item = _with_replicas(item, live)
    return item | {"metadata": metadata | kept}


def _prune(session: Session, deployment: Json, version: str) -> None:
    """Delete the ConfigMaps and Secrets of versions that no ReplicaSet can return to."""
    name, namespace = deployment["metadata"]["name"], deployment["metadata"]["namespace"]
    used = {version} | {pod_labels(item).get(names.TASK_ID) for item in _parts(session, deployment)}
    for item in _list_labelled(session, kinds.CONFIG_MAP, namespace, name):
        if item["metadata"]["labels"].get(names.TASK_ID) in used or not _belongs(item, deployment):
            continue
        base = item["metadata"]["name"]
        for secret in (base, f"{base}-files", f"{base}-registry"):
            with suppress(NotFound, Forbidden):
                live = objects.get(session, kinds.SECRET, secret, namespace)
                if _belongs(live, deployment):
                    objects.delete_by_uid(session, kinds.SECRET, live["metadata"])
        objects.delete_by_uid(session, kinds.CONFIG_MAP, item["metadata"])


def status(session: Session, live: Json) -> ServiceStatus:
    """Return the status of a service, and why replicas are not ready."""
    core, metadata = CoreManager(session), live["metadata"]
    (service,) = _read(session, [live], metadata["namespace"], metadata["name"])
    events = _allowed(lambda: core.list_events(metadata["namespace"]))
    return status_of(replace(service, events=events, cluster_nodes=_allowed(core.list_nodes)))


def statuses(session: Session, namespace: str | None, user: User | None) -> list[ServiceStatus]:
    """Return the status of all services, newest first, with one request per kind."""
    services = find_all(session, namespace, user)
    return [status_of(item) for item in _read(session, services, namespace)] if services else []


def _read(
    session: Session, services: Sequence[Json], namespace: str | None, name: str = ""
) -> list[ServiceObjects]:
    """Return the objects of services, or of the one with a name, with one request per kind."""
    runners = dict.fromkeys(map(objects.known_kind, services))
    parts = [item for kind in runners for item in _list_parts(session, kind, namespace, name)]
    pods = _list_labelled(session, kinds.POD, namespace, name)
    addresses = _allowed(lambda: _list_labelled(session, kinds.SERVICE, namespace, name))
    autoscalers = _allowed(lambda: _list_labelled(session, kinds.HPA, namespace, name))

    def owned(items: Iterable[Json], live: Json) -> Json | None:
        named = (item for item in items if item["metadata"]["name"] == live["metadata"]["name"])
        return next((item for item in named if _belongs(item, live)), None)

    return [
        ServiceObjects(live, parts, pods, owned(addresses, live), owned(autoscalers, live))
        for live in services
    ]


def _allowed(read: Callable[[], list[Json]]) -> list[Json]:
    try:
        return read()
    except Forbidden:
        return []


def _list_labelled(
    session: Session, kind: Kind, namespace: str | None, name: str = ""
) -> list[Json]:
    """List the objects of services, or of one by name."""
    selector = f"{names.SERVICE}={name}" if name else names.SERVICE
    return objects.list_all(session, kind, namespace, label_selector=selector)


def _parts(session: Session, live: Json) -> list[Json]:
    """Return the ReplicaSets of a Deployment, or the RayClusters of a RayService."""
    metadata = live["metadata"]
    items = _list_parts(session, objects.known_kind(live), metadata["namespace"], metadata["name"])
    return [item for item in items if controller(item) == metadata["uid"]]


def _list_parts(session: Session, kind: Kind, namespace: str | None, name: str = "") -> list[Json]:
    if kind == kinds.DEPLOYMENT:
        return _list_labelled(session, _RUNNERS[kind], namespace, name)
    return objects.list_all(session, _RUNNERS[kind], namespace)  # KubeRay copies no labels


def pods(session: Session, live: Json) -> Sequence[Mapping[str, Any]]:
    """Return the pods of a service, oldest first: a pod's position is the replica's number."""
    metadata = live["metadata"]
    labelled = _list_labelled(session, kinds.POD, metadata["namespace"], metadata["name"])
    return own_pods(live, _parts(session, live), labelled)


def _follow(session: Session, serving: Serving, options: Options, ui: UI) -> ServiceStatus:
    """Wait until the version is ready, and say what it waits for. Raises TaskFailed."""
    name, started, noted, text = serving.name, monotonic(), 0.0, ""
    limit = options.start_timeout or (serving.deadline if serving.ray else None)  # KubeRay has none
    while True:
        current = status(session, find(session, None, name))
        if not options.follow or current.state is State.READY:
            return current
        late = limit and monotonic() - started > limit
        if current.state is State.FAILED or late:
            reason = current.reason or "replicas are not ready in time"
            hint = f"see `kubectl sky serve logs {name}`"
            if current.ready:
                hint += f"; {current.ready} ready replicas keep serving"
            if current.version > 1:
                hint += f"; `kubectl rollout undo deployment/{name}` returns to the version before"
            raise TaskFailed(f'service "{name}", version {current.version}: {reason}', hint)
        waiting = f"waiting for {current.wanted} replicas, {current.ready} ready"
        waiting += f": {current.reason}" if current.reason else ""
        if waiting != text and monotonic() - noted > (_NOTE_SECONDS if text else 2 * _POLL_SECONDS):
            text, noted = waiting, monotonic()
            ui.note(waiting)
        try:
            sleep(_POLL_SECONDS)
        except KeyboardInterrupt:
            hint = f"the service keeps running; see `kubectl sky serve status {name}`"
            raise Interrupted("interrupted", hint) from None


def down(session: Session, user: User, references: Sequence[str]) -> list[str]:
    """Delete services by their uid; what they own is garbage-collected. Return their names.

    Also delete what an interrupted `up` left without a Deployment. Raises UnknownName.
    """
    items: list[Json] = []
    for reference in references:
        try:
            items.append(find(session, user, reference))
        except UnknownName:
            name = names.dns_label(reference.removeprefix("service/"), "service")
            remaining = leftovers(session, user, name)
            if not remaining:
                raise
            items += remaining
    return delete(session, items)


def delete(session: Session, items: Iterable[Json]) -> list[str]:
    """Delete objects of services by their uid; return the names of the services."""
    deleted = []
    for item in items:
        objects.delete_by_uid(session, objects.known_kind(item), item["metadata"])
        deleted.append(item["metadata"]["name"])
    return list(dict.fromkeys(deleted))


def leftovers(session: Session, user: User, name: str = "") -> list[Json]:
    """Return what interrupted calls of `up` left without a Deployment, of one service or of all."""
    namespace = session.namespace
    items = _allowed(lambda: _list_labelled(session, kinds.SERVICE, namespace, name))
    items += _allowed(lambda: _list_labelled(session, kinds.HPA, namespace, name))
    return [
        item
        for item in items
        if _is_service(item)
        and not item["metadata"].get("ownerReferences")
        and user.owns(item["metadata"])
    ]
