"""Show volumes: PVCs with the labels of this program."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from kubectl_sky.observe.deletion import Hold, hold_of, is_terminating
from kubectl_sky.plan.resources import readable
from kubectl_sky.words import names
from kubectl_sky.words.core_objects import Pvc
from kubectl_sky.words.documents import Document, Note, Part, always
from kubectl_sky.words.facts import ExistingPvc
from kubectl_sky.words.objects import Object
from kubectl_sky.words.owners import User
from kubectl_sky.words.pod_objects import Pod

DEFAULT_CLASS = (  # annotations of the default StorageClass; the API server knows both
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)


def default_class(classes: Iterable[Object]) -> str:
    """Return the name of the default StorageClass; empty if there is none."""
    for item in classes:
        annotations = item.metadata.annotations
        if any(annotations.get(key) == "true" for key in DEFAULT_CLASS):
            return item.metadata.name
    return ""


class KeptLog(Part, frozen=True):
    """The log of a node, on a volume."""

    task: Annotated[str, Note("`NAME-ID`")]
    rank: int
    bytes: int
    updated_at: str
    path: Annotated[str, Note("within the PVC, or below the folder that a pod mounts")]


class KeptLogList(Document, frozen=True, kw_only=True):
    """The logs that tasks have written to a volume: `volumes logs`."""

    logs: list[KeptLog]


class VolumeFile(Part, frozen=True):
    """A file or folder on a volume."""

    name: str
    kind: Annotated[str, Note("`regular file`, `directory`, `symbolic link`, …")]
    bytes: int
    updated_at: str


class VolumeFileList(Document, frozen=True, kw_only=True):
    """What is in a folder of a volume: `volumes ls`."""

    files: list[VolumeFile]


class VolumeUsage(Part, frozen=True):
    """A folder on a volume, and the space that it takes."""

    name: str
    bytes: Annotated[int, Note("on disk")]


class VolumeUsageList(Document, frozen=True, kw_only=True):
    """The space that folders of a volume take, the largest first: `volumes du`."""

    folders: list[VolumeUsage]


class VolumeMetadata(Part, frozen=True):
    """The PVC of a volume."""

    pvc_name: str
    namespace: str


class Volume(Document, frozen=True, kw_only=True):
    """A volume: `volumes status|apply`, `GET /volumes/ID`, `VolumeStatus.as_json()`."""

    volume_id: str
    name: str
    size: str
    storage_class: str
    access_modes: Sequence[str]
    status: Annotated[str, Note("`Pending`, `Bound`, `Lost` or `Terminating`")]
    created_at: str
    username: str
    metadata: VolumeMetadata
    reason: Annotated[
        str | UnsetType, Note("what its deletion waits for, while it is `Terminating`")
    ] = UNSET
    used_by: Annotated[list[str] | UnsetType, Note("of `status`")] = UNSET
    done: Annotated[str, Note("of `apply`: `created`, `configured` or `unchanged`")] = ""


class VolumeList(Document, frozen=True, kw_only=True):
    """Volumes, newest first: `volumes list`, `GET /volumes`, `volumes apply` of several."""

    volumes: list[Volume]


class VolumeCreated(Document, frozen=True, kw_only=True):
    """A new volume: `volumes create`, `POST /volumes/create`."""

    volume_id: str
    status: Annotated[str, Note("`created`")] = always("created")
    message: str
    notes: Annotated[list[str] | UnsetType, Note("of REST")] = UNSET


class VolumeStatus(Part, frozen=True):
    """A volume: PVC name, size as a Kubernetes quantity, and phase as in Kubernetes."""

    id: str
    name: str
    namespace: str
    user: str
    uid: str  # of the PVC
    claim: str
    size: str
    storage_class: str
    access_modes: tuple[str, ...]
    phase: str  # Pending, Bound, Lost; Terminating while pods still use it
    created_at: str
    reason: str = ""  # what its deletion waits for, while it is Terminating
    labels: Mapping[str, str] = {}

    @property
    def readable_size(self) -> str:
        """The size, of plain bytes in the largest unit: Kubernetes has 0.1Gi as 107374183."""
        return readable("memory", self.size) if self.size.isdigit() else self.size

    @property
    def document(self) -> Volume:
        return Volume(
            volume_id=self.id,
            name=self.name,
            size=self.size,
            storage_class=self.storage_class,
            access_modes=self.access_modes,
            status=self.phase,
            created_at=self.created_at,
            username=self.user,
            metadata=VolumeMetadata(self.claim, self.namespace),
            reason=self.reason or UNSET,
        )


def volumes(claims: Iterable[Pvc], pods: Sequence[Pod] = ()) -> list[VolumeStatus]:
    """Return the volumes of these PVCs, newest first; `pods` may use them."""
    folded = [volume(claim, pods) for claim in claims]
    return sorted(folded, key=lambda item: (item.created_at, item.id), reverse=True)


def volume(claim: Pvc, pods: Sequence[Pod] = ()) -> VolumeStatus:
    """Return the volume of one PVC; its size is the capacity, or else the request."""
    metadata = claim.metadata
    spec = claim.spec
    status = claim.status
    labels = metadata.labels
    annotations = metadata.annotations
    requested = spec.resources.requests.get("storage", "")
    phase = "Terminating" if is_terminating(claim) else status.phase

    return VolumeStatus(
        id=labels.get(names.VOLUME_ID, ""),
        name=annotations.get(names.ORIGINAL_NAME) or labels.get(names.VOLUME_NAME, ""),
        namespace=metadata.namespace,
        user=annotations.get(names.ORIGINAL_USER) or labels.get(names.USERNAME, ""),
        uid=metadata.uid,
        claim=metadata.name,
        size=status.capacity.get("storage") or requested,
        storage_class=spec.storage_class_name,
        access_modes=spec.access_modes,
        phase=phase,
        created_at=metadata.creation_timestamp,
        reason=deletion(claim, pods),
        labels=labels,
    )


def known(claims: Iterable[Pvc], user: User, pods: Sequence[Pod] = ()) -> dict[str, ExistingPvc]:
    """Return the PVCs of a namespace by every name that the user can use for them.

    If names conflict, the user's volume comes first, then SkyPilot's, then the PVC with that name.
    Of several volumes of the user with one name, the oldest counts. If SkyPilot has several with
    one name, only their PVC names identify them.
    """
    oldest_first = sorted(claims, key=lambda claim: claim.metadata.creation_timestamp)
    by_claim_name: dict[str, ExistingPvc] = {}
    by_volume_name: dict[str, ExistingPvc] = {}
    by_skypilot: dict[str, list[ExistingPvc]] = {}

    for claim in oldest_first:
        modes = claim.spec.access_modes
        known_claim = ExistingPvc(claim.metadata.name, modes, deletion(claim, pods))
        labels = claim.metadata.labels
        by_claim_name[known_claim.name] = known_claim
        if labels.get(names.VOLUME) == "true" and user.owns(
            claim.metadata.labels, claim.metadata.annotations
        ):
            by_volume_name.setdefault(volume(claim).name, known_claim)
        if labels.get(names.SKYPILOT_VOLUME):
            by_skypilot.setdefault(labels[names.SKYPILOT_VOLUME], []).append(known_claim)

    unique = {name: claims[0] for name, claims in by_skypilot.items() if len(claims) == 1}
    return by_claim_name | unique | by_volume_name


def deletion(claim: Pvc, pods: Iterable[Pod]) -> str:
    """Return what the deletion of a PVC waits for; empty if it is not being deleted."""
    if not is_terminating(claim):
        return ""
    return hold_of_pvc(claim, pods).why


def hold_of_pvc(claim: Pvc, pods: Iterable[Pod]) -> Hold:
    """Return why a PVC that is deleted still exists."""
    metadata = claim.metadata
    hold = hold_of("PVC", metadata)
    if waits := waits_for(metadata.name, metadata.namespace, pods):
        return replace(hold, why=waits, step="stop these: it is deleted then")
    return hold


def waits_for(claim: str, namespace: str, pods: Iterable[Pod]) -> str:
    """Return which pods delay the deletion of a PVC; empty if none does.

    Those are all scheduled pods that mount it, finished or not.
    """
    scheduled = [pod for pod in pods if pod.spec.node_name and pod.metadata.namespace == namespace]
    users = users_of(claim, scheduled)
    return f"waits for {', '.join(users)} to be stopped" if users else ""


def users_of(claim: str, pods: Iterable[Pod]) -> list[str]:
    """Return the pods that mount a PVC; pods of tasks as `task/ID (name)`.

    A finished one says so, and counts if it was scheduled and nobody deletes it: the PVC is not
    deleted before it.
    """
    users: dict[tuple[str, str], bool] = {}  # whether all pods of a user and name have finished
    for pod in pods:
        finished = pod.status.has_ended
        mounts = claim in pod.spec.claims
        scheduled = bool(pod.spec.node_name)
        remains = scheduled and not pod.metadata.deletion_timestamp

        if mounts and (not finished or remains):
            labels = pod.metadata.labels
            user = (f"pod/{pod.metadata.name}", "")
            if task_id := labels.get(names.TASK_ID):
                user = f"task/{task_id}", str(labels.get(names.TASK_NAME))
            users[user] = finished and users.get(user, True)

    titles = []
    for (title, name), finished in sorted(users.items()):
        state = "finished" if finished else ""
        words = ", ".join(filter(None, (name, state)))
        titles.append(f"{title} ({words})" if words else title)
    return titles
