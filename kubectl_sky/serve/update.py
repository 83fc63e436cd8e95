"""`serve update`: replace a service by another version."""

from collections.abc import Sequence
from contextlib import suppress

from msgspec.structs import replace

from kubectl_sky.cluster import objects
from kubectl_sky.cluster.apply import Applied, apply_all
from kubectl_sky.cluster.session import Json, Session
from kubectl_sky.errors import Conflict, Forbidden, NameTaken, NotFound, SkyError
from kubectl_sky.observe.difference import foreign_fields
from kubectl_sky.serve import action
from kubectl_sky.serve.model import ServiceStatus, version_id
from kubectl_sky.submitting import submit
from kubectl_sky.submitting.apply import add_owners, admit, owner_reference, shared_objects
from kubectl_sky.submitting.preflight import refuse_foreign
from kubectl_sky.submitting.submit import Connect, Options, Prepared
from kubectl_sky.tasks.ui import UI
from kubectl_sky.words import kinds, names
from kubectl_sky.words.decoding import convert
from kubectl_sky.words.kinds import Kind
from kubectl_sky.words.objects import Object

_ATTEMPTS = 5  # to replace an object whose status changes


def update(options: Options, ui: UI, connect: Connect | None = None) -> ServiceStatus | None:
    """Replace a service by the file's, replica by replica; None for a dry run.

    The old replicas serve until the new ones are ready. Raises SkyError like `up`.
    """
    prepared = action.plan(options, ui, connect)
    session = prepared.session
    replicas = action.plan_service(prepared)
    live = action.find_manifest(session, prepared.facts.user, replicas.name)
    if _is_unchanged(prepared, live):
        ui.note(f'service "{replicas.name}" unchanged')
        return None if options.dry_run != "none" else action.follow(session, replicas, options, ui)

    current = _current(prepared, live)
    prepared = submit.check(prepared, ui)
    if options.dry_run == "server":
        admit(session, prepared.existing.manifests.workload)
    if options.dry_run != "none":
        ui.preview(prepared.shown)
        return None

    _send(prepared, live, current)
    _prune(session, live, prepared.decision.id)
    ui.note(f'service "{replicas.name}" updated')
    return action.follow(session, replicas, options, ui)


def _is_unchanged(prepared: Prepared, live: Json) -> bool:
    """Return whether the file gives the objects of the version that runs, under its id."""
    (entry,) = prepared.task_file.entries
    entry = replace(entry, task_id=live["metadata"]["labels"].get(names.TASK_ID, entry.task_id))
    task_file = replace(prepared.task_file, entries=(entry,))
    session = prepared.session
    replicas = action.plan_service(prepared)
    same = submit.decided(prepared.options, task_file, session, prepared.facts)

    for item in (manifest.object for manifest in same.existing.manifests.own):
        kind = objects.kind_of_known(item)
        current = action.get_manifest(session, kind, item["metadata"]["name"])
        if current is None:
            return False
        if kind == kinds.DEPLOYMENT and replicas.scaling:
            item = _with_replicas(item, current)
        if foreign_fields(item, current):
            return False

    wanted = {manifest.object["kind"] for manifest in same.existing.manifests.own}
    unwanted = (kind for kind in action.OPTIONAL if kind.kind not in wanted)
    return all(action.get(session, kind, replicas.name) is None for kind in unwanted)


def _with_replicas(item: Json, live: Json) -> Json:
    wanted = max(live["spec"].get("replicas", 0), item["spec"]["replicas"])
    return item | {"spec": item["spec"] | {"replicas": wanted}}


def _current(prepared: Prepared, live: Json) -> dict[str, Json]:
    """Return the live objects with the name of the service, by kind. Raises NameTaken."""
    current = {live["kind"]: live}
    name = live["metadata"]["name"]
    wanted = {manifest.object["kind"] for manifest in action.find_named(prepared)}
    if live["kind"] not in wanted:
        message = f'service "{name}" is a {live["kind"]}'
        raise NameTaken(message, "run `kubectl sky serve down` first to change its backend")
    others: tuple[Kind, ...] = (kinds.SERVICE, *action.OPTIONAL)
    for kind in others:
        item = action.get_manifest(prepared.session, kind, name)
        if item and action.belongs(convert(item, Object), action.read(live)):
            current[kind.kind] = item
        elif item and kind.kind in wanted:
            message = f'{kind.kind} "{name}" is not part of the service'
            raise NameTaken(message, "rename it, or run the service under another name")
    return current


def _send(prepared: Prepared, live: Json, current: dict[str, Json]) -> None:
    """Send the objects of a version, then the Deployment; undo the former if that fails."""
    session = prepared.session
    named = action.find_named(prepared)
    owner = owner_reference(live)
    manifests = prepared.existing.manifests
    admit(session, manifests.workload)

    versioned = [_with_owner(item.object, owner) for item in manifests.own if item not in named]
    existing = prepared.existing.shared or {}
    is_scaled = bool(action.plan_service(prepared).scaling)

    with shared_objects(session, manifests.shared, existing, False) as shared:
        applied = apply_all(session, [versioned], refuse_foreign)
        try:
            kind = kinds.CONFIG_MAP.kind
            config_maps = [item.object for item in applied if item.object["kind"] == kind]
            for item in shared:
                add_owners(session, item, list(map(owner_reference, config_maps)))
            for item in (manifest.object for manifest in named):
                before = current.get(item["kind"])
                if before is None:
                    owned = _with_owner(item, owner)
                    objects.create_or_accept(session, owned, refuse_foreign)
                else:
                    _replace(session, item, before, is_scaled)
        except (SkyError, KeyboardInterrupt):
            _undo(session, live, prepared.decision.id, applied)
            raise

    wanted = {manifest.object["kind"] for manifest in named}
    for other in action.OPTIONAL:
        if other.kind in current and other.kind not in wanted:
            objects.delete_by_uid(session, other, current[other.kind]["metadata"])


def _with_owner(item: Json, owner: Json) -> Json:
    return item | {"metadata": item["metadata"] | {"ownerReferences": [owner]}}


def _undo(session: Session, live: Json, version: str, applied: Sequence[Applied]) -> None:
    """Delete the new objects of a version, unless the service may run it: an answer may be lost."""
    with suppress(SkyError):
        if version_id(action.read(_read_again(session, live))) != version:
            for item in applied:
                if item.created:
                    kind = objects.kind_of_known(item.object)
                    objects.delete_by_uid(session, kind, item.object["metadata"])


def _read_again(session: Session, live: Json) -> Json:
    metadata = live["metadata"]
    kind = objects.kind_of_known(live)
    return objects.get_manifest(session, kind, metadata["name"], metadata["namespace"])


def _replace(session: Session, item: Json, live: Json, is_scaled: bool) -> None:
    """Replace an object, again if it changed meanwhile, such as its status or its replicas."""
    for _ in range(_ATTEMPTS - 1):
        try:
            objects.replace_object(session, _replacement(item, live, is_scaled))
        except Conflict:
            live = _read_again(session, live)
        else:
            return
    objects.replace_object(session, _replacement(item, live, is_scaled))


def _replacement(item: Json, live: Json, is_scaled: bool) -> Json:
    metadata = item["metadata"]
    before = live["metadata"]
    kept = {
        key: before[key]
        for key in ("uid", "resourceVersion", "ownerReferences", "finalizers")
        if key in before
    }
    for field in ("labels", "annotations"):
        texts = before.get(field, {})
        others = {key: text for key, text in texts.items() if not names.is_ours(key)}
        kept[field] = others | metadata.get(field, {})
    if item["kind"] == kinds.DEPLOYMENT.kind and is_scaled:
        item = _with_replicas(item, live)
    return item | {"metadata": metadata | kept}


def _prune(session: Session, live: Json, version: str) -> None:
    """Delete the ConfigMaps and Secrets of versions that no ReplicaSet can return to."""
    service = action.read(live)
    used = {version, *map(version_id, action.parts(session, service))}
    for config_map in action.version_objects(session, service):
        metadata = config_map.metadata
        if metadata.labels.get(names.TASK_ID) in used:
            continue
        for suffix in ("", "-files", "-registry", "-tls"):
            with suppress(NotFound, Forbidden):
                name = f"{metadata.name}{suffix}"
                secret = objects.get(session, kinds.SECRET, name, metadata.namespace)
                if action.belongs(secret, service):
                    objects.delete_by_uid(session, kinds.SECRET, secret.metadata.identity)
        objects.delete_by_uid(session, kinds.CONFIG_MAP, metadata.identity)
