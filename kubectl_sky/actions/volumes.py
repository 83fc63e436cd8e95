"""`volumes`: manage PVCs with a name and an owner."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from typing import BinaryIO

from msgspec import Struct
from msgspec.structs import replace

from kubectl_sky.actions.documents import read_documents
from kubectl_sky.cluster import objects
from kubectl_sky.cluster.session import Json, Session
from kubectl_sky.errors import (
    Conflict,
    Forbidden,
    InUse,
    InvalidFiles,
    NameTaken,
    Problem,
    SkyError,
    UnknownName,
    UserError,
    did_you_mean,
)
from kubectl_sky.observe import volumes
from kubectl_sky.observe.deletion import is_terminating
from kubectl_sky.observe.difference import Difference, differences
from kubectl_sky.observe.volumes import VolumeStatus
from kubectl_sky.plan.pvc import new_pvc
from kubectl_sky.render import manifests
from kubectl_sky.spec import quantity
from kubectl_sky.spec.document import Document
from kubectl_sky.spec.validate import validate
from kubectl_sky.spec.volumes import Storage, VolumeFile, volume_of
from kubectl_sky.tasks import deletion
from kubectl_sky.tasks.choice import Choice
from kubectl_sky.tasks.deletion import Remainder
from kubectl_sky.tasks.find import MIN_PREFIX, Scope, is_glob
from kubectl_sky.words import kinds, names
from kubectl_sky.words.core_objects import Pvc
from kubectl_sky.words.decoding import convert, read_manifest
from kubectl_sky.words.facts import ExistingPvc
from kubectl_sky.words.owners import User
from kubectl_sky.words.pod_objects import Pod

_UNCHANGED = "unchanged"
_CHANGEABLE = ("spec.resources", "metadata.labels")  # fields that can change in an existing PVC
_UNSUPPORTED_TYPES = {
    "k8s-hostpath": "use host_path in a task to mount a directory of the cluster node",
    "runpod-network-volume": "only RunPod supports it",
}
_KUBERNETES = ("", "k8s", "kubernetes")


def create(
    session: Session,
    user: User,
    name: str,
    volume_id: str,
    storage: Storage,
    object_name: str | None = None,
) -> VolumeStatus:
    """Create a volume, by default with the PVC `NAME-ID`.

    Raises UserError for an invalid or existing name, before anything is sent.
    """
    pvc = new_pvc(user, session.namespace, name, volume_id, storage, object_name)
    manifest = manifests.pvc(pvc)
    existing = [
        volume
        for volume in list_volumes(session, Scope(session.namespace, user))
        if volume.name == name
    ]
    if existing:
        _refuse_terminating(existing[0])
        raise NameTaken(
            f'volume "{name}" already exists: {existing[0].id}, {existing[0].readable_size}',
            "choose another name, or delete that volume",
        )
    return volumes.volume(_describe_created(session, manifest.object))


@contextmanager
def created(
    session: Session, user: User, volume_names: Sequence[str], storage: Storage
) -> Iterator[None]:
    """Create volumes whose PVCs have their names; delete them again if the block fails."""
    new: list[VolumeStatus] = []
    try:
        for name in volume_names:
            with suppress(NameTaken):  # another file of the same submit has created it
                new.append(create(session, user, name, names.new_id(), storage, name))
        yield
    except BaseException as error:
        for volume in new:
            try:
                delete(session, volume)
            except SkyError:
                if isinstance(error, SkyError):
                    error.what += f"; volume {volume.id} ({volume.name}) could not be deleted"
        raise


def check_new(session: Session, user: User, volume_names: Sequence[str], storage: Storage) -> None:
    """Let the API server check volumes as `created` would create them. Raises SkyError."""
    for name in volume_names:
        pvc = new_pvc(user, session.namespace, name, names.new_id(), storage, name)
        objects.create(session, manifests.pvc(pvc).object, dry_run=True)


def _describe_created(session: Session, manifest: Json) -> Pvc:
    """Create a PVC; if the answer is lost, its random id shows whether it was created."""

    def refuse_other(manifest: Json, live: Json) -> None:
        labels = live["metadata"].get("labels") or {}
        if labels.get(names.VOLUME_ID) != manifest["metadata"]["labels"][names.VOLUME_ID]:
            raise Conflict(
                f"PVC {live['metadata']['name']} already exists in namespace {session.namespace}",
                "choose another name, or delete it first",
            )

    created = objects.create_or_accept(session, manifest, refuse_other).body
    return convert(created, Pvc)


def _refuse_terminating(volume: VolumeStatus) -> None:
    if volume.reason:
        raise NameTaken(
            f'volume "{volume.name}" ({volume.id}) is being deleted: {volume.reason}',
            "choose another name, or wait until it is deleted",
        )


class AppliedVolume(Struct, frozen=True):
    """A volume after apply; `done` is created, configured or unchanged."""

    volume: VolumeStatus
    done: str


def apply(
    session: Session, user: User, volume_file: VolumeFile, volume_id: str, dry_run: str
) -> AppliedVolume:
    """Create or update a volume from its file; `dry_run` is none, client or server.

    Raises UserError for fields that cannot change in an existing volume.
    """
    existing = objects.list_manifests(session, kinds.PVC, session.namespace)
    claims = [convert(item, Pvc) for item in existing]
    if volume_file.storage is None:
        match = volumes.known(claims, user).get(volume_file.name)
        if not match:
            raise UserError(
                f'PVC "{volume_file.name}" not found in namespace "{session.namespace}"',
                "remove use_existing to create it",
            )
        pvc = next(pvc for pvc in claims if pvc.metadata.name == match.name)
        return AppliedVolume(volumes.volume(pvc), _UNCHANGED)

    matches = [
        pvc
        for pvc in Scope(session.namespace, user).filter_owned(claims)
        if pvc.metadata.labels.get(names.VOLUME) == "true"
        and volumes.volume(pvc).name == volume_file.name
    ]

    if not matches:
        planned = new_pvc(user, session.namespace, volume_file.name, volume_id, volume_file.storage)
        manifest = manifests.pvc(planned).object
        if dry_run == "server":
            live = convert(objects.create(session, manifest, dry_run=True), Pvc)
        elif dry_run == "client":
            live = read_manifest(manifest, Pvc)
        else:
            live = _describe_created(session, manifest)
        return AppliedVolume(volumes.volume(live), "created")

    pods = _pods_if_terminating(session, session.namespace, matches)
    _refuse_terminating(volumes.volume(matches[0], pods))
    name = matches[0].metadata.name
    manifest = next(item for item in existing if item["metadata"]["name"] == name)
    return _update(session, user, volume_file, manifest, dry_run)


def _update(
    session: Session, user: User, volume_file: VolumeFile, live: Json, dry_run: str
) -> AppliedVolume:
    assert volume_file.storage
    metadata = convert(live, Pvc).metadata
    volume_id = metadata.labels[names.VOLUME_ID]
    planned = new_pvc(user, metadata.namespace, volume_file.name, volume_id, volume_file.storage)
    manifest = manifests.pvc(replace(planned, name=metadata.name)).object

    changes = differences(manifest, live)
    refused = [
        change for change in changes if not change.path.startswith(_CHANGEABLE) or _shrinks(change)
    ]
    if refused:
        raise UserError(
            f'volume "{volume_file.name}" already exists ({volume_id}), and these fields cannot'
            f" change: {'; '.join(map(str, refused))}",
            "choose another name, or delete that volume",
        )

    if not changes:
        return AppliedVolume(volumes.volume(convert(live, Pvc)), _UNCHANGED)
    if dry_run != "client":
        live = objects.apply(session, manifest, dry_run=dry_run == "server")
    return AppliedVolume(volumes.volume(convert(live, Pvc)), "configured")


def _shrinks(change: Difference) -> bool:
    """Return whether a volume would become smaller; PVCs cannot shrink."""
    has_sizes = change.path.endswith(".storage") and change.live and change.desired
    return bool(has_sizes and quantity.quantity(change.desired) < quantity.quantity(change.live))


def list_volumes(session: Session, scope: Scope) -> list[VolumeStatus]:
    labels = names.selector({names.VOLUME: "true"} | scope.labels)
    claims = objects.list_all(session, kinds.PVC, scope.namespace, label_selector=labels)
    owned = list(scope.filter_owned(claims))
    return volumes.volumes(owned, _pods_if_terminating(session, scope.namespace, owned))


def _pods_if_terminating(
    session: Session, namespace: str | None, claims: Iterable[Pvc]
) -> list[Pod]:
    """Return the pods that a PVC which is being deleted may wait for; none if none is."""
    if any(map(is_terminating, claims)):
        with suppress(Forbidden):
            return objects.list_all(session, kinds.POD, namespace)
    return []


def find(session: Session, scope: Scope, text: str) -> VolumeStatus:
    """Find a volume by id, name or id prefix. Raises UserError unless one matches."""
    matches = _match(list_volumes(session, scope), scope, text)
    return _refuse_several(text, matches)[0]


def find_chosen(session: Session, scope: Scope, choice: Choice) -> list[VolumeStatus]:
    """Return the chosen volumes, without duplicates. Raises UserError if a word matches none."""
    candidates = list_volumes(session, scope)
    if choice.is_filter:
        return [volume for volume in candidates if choice.matches(volume.labels)]
    chosen = [volume for text in choice.references for volume in _match(candidates, scope, text)]
    return list({volume.uid: volume for volume in chosen}.values())


def _match(candidates: Sequence[VolumeStatus], scope: Scope, text: str) -> list[VolumeStatus]:
    """Return the volume that an id, a name or a prefix of an id means, or those of a glob."""
    text = text.removeprefix("volume/")
    matches = [volume for volume in candidates if volume.id == text]
    matches = matches or [volume for volume in candidates if volume.name == text]
    if matches:
        return _refuse_several(text, matches)

    if is_glob(text):
        matches = [volume for volume in candidates if fnmatchcase(volume.name, text)]
    elif len(text) >= MIN_PREFIX:
        matches = [volume for volume in candidates if volume.id.startswith(text)]
        _refuse_several(text, matches)
    if matches:
        return matches

    of_user = f" (owner: {scope.user.name})" if scope.user else ""
    raise UnknownName(
        f'volume "{text}" not found{of_user}',
        did_you_mean(text, {volume.name for volume in candidates})
        + "run `kubectl sky volumes list` to see your volumes",
    )


def _refuse_several(text: str, matches: list[VolumeStatus]) -> list[VolumeStatus]:
    if len(matches) > 1:
        ids = ", ".join(volume.id for volume in matches)
        raise UserError(f'"{text}" matches {len(matches)} volumes: {ids}', "use the full id")
    return matches


def in_use(session: Session, volume: VolumeStatus) -> list[str]:
    """Return the users of a volume among the current pods."""
    return volumes.users_of(volume.claim, objects.list_all(session, kinds.POD, volume.namespace))


def check_unused(session: Session, volume: VolumeStatus, force: str) -> None:
    """Raise InUse if a pod uses the volume; `force` names the argument to delete it anyway."""
    pods = objects.list_all(session, kinds.POD, volume.namespace)
    if volumes.users_of(volume.claim, pods):
        jobs = objects.list_all(session, kinds.JOB, volume.namespace)
        current = {job.metadata.uid for job in jobs if not is_terminating(job)}
        pods = [pod for pod in pods if not _is_stopped(pod, current)]
    if users := volumes.users_of(volume.claim, pods):
        raise InUse(
            f"volume {volume.id} ({volume.name}) is used by {', '.join(users)}",
            f"stop these first, or {force}: it is deleted when the last one is stopped",
        )


def _is_stopped(pod: Pod, jobs: Collection[str]) -> bool:
    """Return whether a pod is being deleted, or will be since its Job is."""
    owners = pod.metadata.owner_references
    orphaned = any(owner.kind == "Job" and owner.uid not in jobs for owner in owners)
    return orphaned or is_terminating(pod)


def delete(session: Session, volume: VolumeStatus) -> None:
    """Delete a volume by uid, so that a new PVC with its name is not deleted."""
    metadata = {"name": volume.claim, "namespace": volume.namespace, "uid": volume.uid}
    objects.delete_by_uid(session, kinds.PVC, metadata)


def wait_until_gone(
    session: Session, volume: VolumeStatus, seconds: float | None = None
) -> list[Remainder]:
    """Wait until the PVC of a deleted volume is gone, or return what it waits for."""
    title = f"volume/{volume.id} ({volume.name})"

    def read(pods: Sequence[Pod] = ()) -> list[Remainder]:
        # Users may list PVCs, and not get one.
        fields = f"metadata.name={volume.claim}"
        claims = objects.list_all(session, kinds.PVC, volume.namespace, field_selector=fields)
        return [
            Remainder(volume.id, title, [volumes.hold_of_pvc(claim, pods)])
            for claim in claims
            if claim.metadata.uid == volume.uid
        ]

    if not deletion.poll(read, seconds):
        return []
    with suppress(Forbidden):
        return read(objects.list_all(session, kinds.POD, volume.namespace))
    return read()


def claims(session: Session, user: User) -> dict[str, ExistingPvc]:
    """Return the PVCs of the namespace, by each name that a user can use for them."""
    claims = objects.list_all(session, kinds.PVC, session.namespace)
    return volumes.known(claims, user, _pods_if_terminating(session, session.namespace, claims))


def read(path: str, stdin: BinaryIO) -> list[VolumeFile]:
    """Return the volumes of a file. Raises InvalidFiles with all problems."""
    documents = read_documents(path, stdin, of_tasks=False)
    problems = [problem for document in documents for problem in validate(document, "volume")]
    problems = [problem for problem in problems if problem.severity == "error"]
    problems = problems or [
        problem for document in documents for problem in _refuse_unsupported(document)
    ]
    if problems:
        raise InvalidFiles(problems)
    return [volume_of(document) for document in documents]


def _refuse_unsupported(document: Document) -> list[Problem]:
    problems = []
    kind = document.get("type")
    if kind in _UNSUPPORTED_TYPES:
        message = f"volumes of the type {kind} are not made: {_UNSUPPORTED_TYPES[kind]}"
        problems.append(document.problem(("type",), message, "use type: k8s-pvc"))
    infra = document.get("infra") or ""
    if infra.partition("/")[0].lower() not in _KUBERNETES:
        message = f"only Kubernetes volumes are supported, not {infra}"
        problems.append(document.problem(("infra",), message, "use infra: k8s, or remove it"))
    return problems
