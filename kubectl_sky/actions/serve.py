"""`serve`: run a service, update it, show it and delete it."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from time import monotonic, sleep
from typing import Any

from kubectl_sky import kinds, names
from kubectl_sky.actions import contexts, gather, preflight, taskfile
from kubectl_sky.actions.apply import (
    add_owners,
    admit,
    apply,
    owner_reference,
    shared_objects,
)
from kubectl_sky.actions.preflight import Existing, refuse_foreign
from kubectl_sky.actions.submit import Options
from kubectl_sky.actions.taskfile import TaskFile
from kubectl_sky.actions.ui import UI
from kubectl_sky.cluster import objects
from kubectl_sky.cluster.apply import apply_all
from kubectl_sky.cluster.core import CoreManager
from kubectl_sky.cluster.session import Json, Session
from kubectl_sky.errors import (
    Forbidden,
    Interrupted,
    NameTaken,
    NotFound,
    NotServed,
    SkyError,
    TaskFailed,
    UnknownName,
)
from kubectl_sky.kinds import Kind
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
from kubectl_sky.render.manifests import Manifest, Manifests, redacted
from kubectl_sky.users import User
from kubectl_sky.workloads.decide import Decision, decide

_POLL_SECONDS = 1.0
_NOTE_SECONDS = 10.0  # between notes on what replicas wait for
_RUNNERS = {kinds.DEPLOYMENT: kinds.REPLICA_SET, kinds.RAY_SERVICE: kinds.RAY_CLUSTER}
_CLAIMED = (*_RUNNERS, kinds.SERVICE, kinds.HPA)  # kinds with the name of the service


@dataclass(frozen=True)
class _Prepared:
    """A decided service, before anything is sent."""

    session: Session
    task_file: TaskFile
    decision: Decision
    manifests: Manifests
    user: User

    @property
    def serving(self) -> Serving:
        """The service."""
        serving = self.decision.plans[0].serving
        assert serving
        return serving

    def named(self) -> list[Manifest]:
        """Return the objects with the name of the service, which all versions share."""
        return [item for item in self.manifests.own if _is_named(item.object, self.serving.name)]


def up(options: Options, ui: UI) -> ServiceStatus | None:
    """Create a service and wait until its replicas are ready; None for a dry run.

    Raises SkyError: NameTaken if the name is in use, TaskFailed if the replicas do not get ready.
    """
    prepared = _prepare(options, ui)
    session, name = prepared.session, prepared.serving.name
    wanted = [objects.known_kind(item.object) for item in reversed(prepared.named())]
    for kind in dict.fromkeys((*wanted, *_RUNNERS)):  # the Deployment first
        live = _live(session, kind, name)
        if live and (kind in wanted or _is_service(live)):
            raise _taken(live, prepared.user)
    existing = _check(prepared, ui)
    if options.dry_run == "server":
        apply(session, prepared.decision, existing, ui, dry_run=True)
    if _preview(options, prepared, ui):
        return None
    apply(session, prepared.decision, existing, ui)
    ui.note(f'service "{name}" created')
    return _follow(session, prepared.serving, options, ui)


def update(options: Options, ui: UI) -> ServiceStatus | None:
    """Replace a service by the file's, replica by replica; None for a dry run.

    The old replicas serve until the new ones are ready. Raises SkyError like `up`.
    """
    prepared = _prepare(options, ui)
    session, name = prepared.session, prepared.serving.name
    live = find(session, prepared.user, name)
    if _is_unchanged(prepared, live):
        ui.note(f'service "{name}" unchanged')
        return status(session, live)
    current = _claimed(prepared, live)
    existing = _check(prepared, ui)
    if options.dry_run == "server":
        admit(session, prepared.manifests.workload)
    if _preview(options, prepared, ui):
        return None
    _replace(prepared, existing, live, current)
    _prune(session, live, prepared.decision.id)
    ui.note(f'service "{name}" updated')
    return _follow(session, prepared.serving, options, ui)


def _prepare(options: Options, ui: UI) -> _Prepared:
    task_file = taskfile.load(options.source, ui)
    task_file, connection = contexts.choose(task_file, options.connection)
    task_file = replace(task_file, given_id=False)  # the id of a version, not of a task
    session = Session.connect(connection)
    facts = gather.facts(session, task_file, options.user)
    decision = decide(task_file.entries, facts, task_file.settings)
    manifests = task_file.render(decision.plans)
    return _Prepared(session, task_file, decision, manifests, facts.user)


def _check(prepared: _Prepared, ui: UI) -> Existing:
    task_file, decision = prepared.task_file, prepared.decision
    existing = preflight.check(prepared.session, task_file, decision, prepared.manifests)
    ui.notes((*task_file.remarks, *decision.notes, *existing.notes))
    return existing


def _preview(options: Options, prepared: _Prepared, ui: UI) -> bool:
    """Show the manifests of a dry run; return whether this is one."""
    if options.dry_run == "none":
        return False
    plans = prepared.decision.plans
    show = options.show_secrets
    ui.preview(prepared.manifests if show else prepared.task_file.render(map(redacted, plans)))
    return True


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
    found = (_live(session, kind, names.dns_label(name, "service")) for kind in _RUNNERS)
    existing = [item for item in found if item]
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


def _is_unchanged(prepared: _Prepared, live: Json) -> bool:
    """Return whether the file gives the objects of the version that runs, under its id."""
    entry = prepared.task_file.entries[0]
    entry = replace(entry, task_id=live["metadata"]["labels"].get(names.TASK_ID, entry.task_id))
    task_file = replace(prepared.task_file, entries=(entry,))
    facts = gather.facts(prepared.session, task_file, prepared.user.name)
    (plan,) = decide(task_file.entries, facts, task_file.settings).plans
    for manifest in task_file.render([plan]).own:
        item, kind = manifest.object, objects.known_kind(manifest.object)
        current = _live(prepared.session, kind, item["metadata"]["name"])
        if current is None:
            return False
        if kind == kinds.DEPLOYMENT and prepared.serving.scaling:
            item = _with_replicas(item, current)
        if foreign_fields(item, current):
            return False
    surplus = None if prepared.serving.scaling else _live(prepared.session, kinds.HPA, plan.name)
    return surplus is None


def _with_replicas(item: Json, live: Json) -> Json:
    """Return a Deployment with the number of replicas that its autoscaler has chosen."""
    wanted = max(live["spec"].get("replicas") or 0, item["spec"]["replicas"])
    return item | {"spec": item["spec"] | {"replicas": wanted}}


def _claimed(prepared: _Prepared, live: Json) -> dict[str, Json]:
    """Return the live Service and autoscaler of a service, by kind. Raises NameTaken."""
    found = {live["kind"]: live}
    (workload,) = prepared.manifests.workload
    if workload.object["kind"] != live["kind"]:
        message = f'service "{prepared.serving.name}" is a {live["kind"]}'
        raise NameTaken(message, "run `kubectl sky serve down` first to change its backend")
    for kind in (kinds.SERVICE, kinds.HPA):
        item = _live(prepared.session, kind, prepared.serving.name)
        wanted = any(manifest.object["kind"] == kind.kind for manifest in prepared.named())
        if item and _belongs(item, live):
            found[kind.kind] = item
        elif item and wanted:
            message = f'{kind.kind} "{prepared.serving.name}" is not part of the service'
            raise NameTaken(message, "rename it, or run the service under another name")
    return found


def _belongs(item: Json, deployment: Json) -> bool:
    owners = item["metadata"].get("ownerReferences") or ()
    return any(owner["uid"] == deployment["metadata"]["uid"] for owner in owners)


def _replace(prepared: _Prepared, existing: Existing, live: Json, current: dict[str, Json]) -> None:
    """Send the objects of a version, then the Deployment; undo the former if that fails."""
    session, named = prepared.session, prepared.named()
    owner = owner_reference(live)
    admit(session, prepared.manifests.workload)
    versioned = [_owned(item.object, owner) for item in prepared.manifests.own if item not in named]
    with shared_objects(session, prepared.manifests.shared, existing.shared or {}, False) as shared:
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
                    objects.replace_object(session, _replacing(item, before, prepared.serving))
        except (SkyError, KeyboardInterrupt):
            unused = not _has_version(session, live, prepared.decision.id)
            for done in applied:
                if done.created and unused:
                    kind = objects.known_kind(done.object)
                    objects.delete_by_uid(session, kind, done.object["metadata"])
            raise
    if not prepared.serving.scaling and kinds.HPA.kind in current:
        objects.delete_by_uid(session, kinds.HPA, current[kinds.HPA.kind]["metadata"])


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
    selector = f"{names.SERVICE}={name}"
    used = {version} | {pod_labels(item).get(names.TASK_ID) for item in _parts(session, deployment)}
    for item in objects.list_all(session, kinds.CONFIG_MAP, namespace, label_selector=selector):
        if item["metadata"]["labels"].get(names.TASK_ID) in used or not _belongs(item, deployment):
            continue
        base = item["metadata"]["name"]
        for secret in (base, f"{base}-files", f"{base}-registry"):
            with suppress(NotFound, Forbidden):
                live = objects.get(session, kinds.SECRET, secret, namespace)
                if _belongs(live, deployment):
                    objects.delete_by_uid(session, kinds.SECRET, live["metadata"])
        objects.delete_by_uid(session, kinds.CONFIG_MAP, item["metadata"])


def status(session: Session, deployment: Json, explain: bool = True) -> ServiceStatus:
    """Return the status of a service; `explain` reads why replicas are not ready."""
    return status_of(_read(session, deployment, explain))


def _read(session: Session, deployment: Json, explain: bool) -> ServiceObjects:
    metadata = deployment["metadata"]
    name, namespace = metadata["name"], metadata["namespace"]
    selector, core = f"{names.SERVICE}={name}", CoreManager(session)

    def optional(read: Callable[[], Any]) -> Any:  # noqa: ANN401 -- JSON
        try:
            return read()
        except (Forbidden, NotFound):
            return None

    def mine(kind: Kind) -> Json | None:
        item = optional(lambda: objects.get(session, kind, name, namespace))
        return item if item and _belongs(item, deployment) else None

    return ServiceObjects(
        deployment,
        _parts(session, deployment),
        core.list_pods(namespace, selector),
        mine(kinds.SERVICE),
        mine(kinds.HPA),
        (optional(lambda: core.list_events(namespace)) or ()) if explain else (),
        (optional(core.list_nodes) or ()) if explain else (),
    )


def _parts(session: Session, live: Json) -> list[Json]:
    """Return the ReplicaSets of a Deployment, or the RayClusters of a RayService."""
    kind, metadata = _RUNNERS[objects.known_kind(live)], live["metadata"]
    selector = f"{names.SERVICE}={metadata['name']}" if kind == kinds.REPLICA_SET else ""
    items = objects.list_all(session, kind, metadata["namespace"], label_selector=selector)
    return [item for item in items if controller(item) == live["metadata"]["uid"]]


def pods(session: Session, live: Json) -> Sequence[Mapping[str, Any]]:
    """Return the pods of a service, oldest first: a pod's position is the replica's number."""
    metadata = live["metadata"]
    labelled = CoreManager(session).list_pods(
        metadata["namespace"], f"{names.SERVICE}={metadata['name']}"
    )
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
    found: list[Json] = []
    for reference in references:
        try:
            found.append(find(session, user, reference))
        except UnknownName:
            leftovers = list(_leftovers(session, user, reference))
            if not leftovers:
                raise
            found += leftovers
    return delete(session, found)


def delete(session: Session, items: Iterable[Json]) -> list[str]:
    """Delete objects of services by their uid; return the names of the services."""
    deleted = []
    for item in items:
        objects.delete_by_uid(session, objects.known_kind(item), item["metadata"])
        deleted.append(item["metadata"]["name"])
    return list(dict.fromkeys(deleted))


def _leftovers(session: Session, user: User, reference: str) -> Iterator[Json]:
    name = names.dns_label(reference.removeprefix("service/"), "service")
    for kind in (kinds.SERVICE, kinds.HPA):
        item = _live(session, kind, name)
        owned = item and (item["metadata"].get("ownerReferences") or not _is_service(item))
        if item and not owned and user.owns(item["metadata"]):
            yield {"apiVersion": kind.api_version, "kind": kind.kind} | item
