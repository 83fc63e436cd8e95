"""Show volumes: PVCs with the labels of this program."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kubectl_sky import documents, names
from kubectl_sky.facts import ExistingPvc
from kubectl_sky.users import User

Object = Mapping[str, Any]

DEFAULT_CLASS = (  # annotations of the default StorageClass; the API server knows both
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)


def default_class(classes: Iterable[Object]) -> str:
    """Return the name of the default StorageClass; empty if there is none."""
    for item in classes:
        annotations = item["metadata"].get("annotations") or {}
        if any(annotations.get(key) == "true" for key in DEFAULT_CLASS):
            return str(item["metadata"]["name"])
    return ""


@dataclass(frozen=True)
class VolumeStatus:
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

    def as_json(self) -> dict[str, object]:
        """Return the volume as JSON values."""
        fields: dict[str, object] = {
            "volume_id": self.id,
            "name": self.name,
            "size": self.size,
            "storage_class": self.storage_class,
            "access_modes": list(self.access_modes),
            "status": self.phase,
            "created_at": self.created_at,
            "username": self.user,
            "metadata": {"pvc_name": self.claim, "namespace": self.namespace},
        }
        return documents.document("Volume", fields)


def volumes(claims: Iterable[Object]) -> list[VolumeStatus]:
    """Return the volumes of these PVCs, newest first."""
    folded = [volume(claim) for claim in claims]
    return sorted(folded, key=lambda item: (item.created_at, item.id), reverse=True)


def volume(claim: Object) -> VolumeStatus:
    """Return the volume of one PVC; its size is the capacity, or else the request."""
    metadata, spec, status = claim["metadata"], claim.get("spec", {}), claim.get("status", {})
    labels, annotations = metadata.get("labels", {}), metadata.get("annotations", {})
    requested = spec.get("resources", {}).get("requests", {}).get("storage", "")
    return VolumeStatus(
        id=labels.get(names.VOLUME_ID, ""),
        name=annotations.get(names.ORIGINAL_NAME) or labels.get(names.VOLUME_NAME, ""),
        namespace=metadata.get("namespace", ""),
        user=annotations.get(names.ORIGINAL_USER) or labels.get(names.USERNAME, ""),
        uid=metadata.get("uid", ""),
        claim=metadata["name"],
        size=status.get("capacity", {}).get("storage") or requested,
        storage_class=spec.get("storageClassName", ""),
        access_modes=tuple(spec.get("accessModes", ())),
        phase="Terminating" if metadata.get("deletionTimestamp") else status.get("phase", ""),
        created_at=metadata.get("creationTimestamp", ""),
    )


def known(claims: Iterable[Object], user: User) -> dict[str, ExistingPvc]:
    """Return the PVCs of a namespace by every name that the user can use for them.

    If names conflict, the user's volume comes first, then SkyPilot's, then the PVC with that name.
    Of several volumes of the user with one name, the oldest counts, because anyone can copy its
    labels later. If SkyPilot has several with one name, only their PVC names identify them.
    """
    oldest_first = sorted(
        claims, key=lambda claim: str(claim["metadata"].get("creationTimestamp", ""))
    )
    by_claim_name: dict[str, ExistingPvc] = {}
    by_volume_name: dict[str, ExistingPvc] = {}
    by_skypilot: dict[str, list[ExistingPvc]] = {}
    for claim in oldest_first:
        modes = tuple(claim.get("spec", {}).get("accessModes", ()))
        known_claim = ExistingPvc(claim["metadata"]["name"], modes)
        labels = claim["metadata"].get("labels") or {}
        by_claim_name[known_claim.name] = known_claim
        if labels.get(names.VOLUME) == "true" and user.owns(claim["metadata"]):
            by_volume_name.setdefault(volume(claim).name, known_claim)
        if labels.get(names.SKYPILOT_VOLUME):
            by_skypilot.setdefault(labels[names.SKYPILOT_VOLUME], []).append(known_claim)
    unique = {name: claims[0] for name, claims in by_skypilot.items() if len(claims) == 1}
    return by_claim_name | unique | by_volume_name


def users_of(claim: str, pods: Iterable[Object]) -> list[str]:
    """Return the unfinished pods that mount a PVC; pods of tasks as `task/ID (name)`."""
    users = []
    for pod in pods:
        if pod.get("status", {}).get("phase") in ("Succeeded", "Failed"):
            continue
        mounted = [v.get("persistentVolumeClaim") for v in pod.get("spec", {}).get("volumes", ())]
        if not any(source and source.get("claimName") == claim for source in mounted):
            continue
        labels = pod["metadata"].get("labels", {})
        task = labels.get(names.TASK_ID)
        name = (
            f"task/{task} ({labels.get(names.TASK_NAME)})"
            if task
            else f"pod/{pod['metadata']['name']}"
        )
        users.append(name)
    return sorted(set(users))
