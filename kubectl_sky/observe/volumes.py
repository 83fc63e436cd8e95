"""Volumes as the cluster shows them: claims with our labels."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kubectl_sky import names
from kubectl_sky.facts import KnownClaim
from kubectl_sky.users import User

Object = Mapping[str, Any]


@dataclass(frozen=True)
class VolumeStatus:
    """A volume: the claim's name, sizes as Kubernetes quantities, phase as Kubernetes says it."""

    id: str
    name: str
    namespace: str
    user: str
    uid: str  # of its claim
    claim: str
    size: str
    storage_class: str
    access_modes: tuple[str, ...]
    phase: str  # Pending, Bound, Lost; Terminating while it waits for its pods
    created_at: str

    def as_json(self) -> dict[str, object]:
        """The volume for programs, in the seed's shape."""
        return {
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


def volumes(claims: Iterable[Object]) -> list[VolumeStatus]:
    """Fold claims into volumes, newest first."""
    folded = [volume(claim) for claim in claims]
    return sorted(folded, key=lambda item: (item.created_at, item.id), reverse=True)


def volume(claim: Object) -> VolumeStatus:
    """Fold one claim; the size is what it got, else what it asked for."""
    metadata, spec, status = claim["metadata"], claim.get("spec", {}), claim.get("status", {})
    labels, annotations = metadata.get("labels", {}), metadata.get("annotations", {})
    asked = spec.get("resources", {}).get("requests", {}).get("storage", "")
    return VolumeStatus(
        id=labels.get(names.VOLUME_ID, ""),
        name=annotations.get(names.ORIGINAL_NAME) or labels.get(names.VOLUME_NAME, ""),
        namespace=metadata.get("namespace", ""),
        user=annotations.get(names.ORIGINAL_USER) or labels.get(names.USERNAME, ""),
        uid=metadata.get("uid", ""),
        claim=metadata["name"],
        size=status.get("capacity", {}).get("storage") or asked,
        storage_class=spec.get("storageClassName", ""),
        access_modes=tuple(spec.get("accessModes", ())),
        phase="Terminating" if metadata.get("deletionTimestamp") else status.get("phase", ""),
        created_at=metadata.get("creationTimestamp", ""),
    )


def known(claims: Iterable[Object], user: User) -> dict[str, KnownClaim]:
    """Return the claims of a namespace by every name that they go by for a user.

    The user's volume of a name comes first, the oldest of several, as anybody can copy its labels
    later; then SkyPilot's; then the claim that is called so. Where SkyPilot has several of a name,
    only their own names tell them apart.
    """
    found = sorted(claims, key=lambda claim: str(claim["metadata"].get("creationTimestamp", "")))
    own: dict[str, KnownClaim] = {}
    named: dict[str, KnownClaim] = {}
    by_skypilot: dict[str, list[KnownClaim]] = {}
    for claim in found:
        modes = tuple(claim.get("spec", {}).get("accessModes", ()))
        it = KnownClaim(claim["metadata"]["name"], modes)
        labels = claim["metadata"].get("labels") or {}
        own[it.name] = it
        if labels.get(names.VOLUME) == "true" and user.owns(claim["metadata"]):
            named.setdefault(volume(claim).name, it)
        if labels.get(names.SKYPILOT_VOLUME):
            by_skypilot.setdefault(labels[names.SKYPILOT_VOLUME], []).append(it)
    only = {name: claims[0] for name, claims in by_skypilot.items() if len(claims) == 1}
    return own | only | named


def users_of(claim: str, pods: Iterable[Object]) -> list[str]:
    """Return the pods that mount a claim and have not ended; a task's pod as `task/ID (name)`."""
    found = []
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
        found.append(name)
    return sorted(set(found))
