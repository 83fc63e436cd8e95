"""Gives each claim a volume, which is a folder of this machine, and takes it back."""

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path

from kubectl_sky.practice import quantities, selection
from kubectl_sky.practice.api import Api, now
from kubectl_sky.practice.controller import Controller, record_event
from kubectl_sky.practice.limits import DEFAULT_CLASS
from kubectl_sky.practice.state import Change, Json, Key
from kubectl_sky.practice.state import key as key_of

PROVISIONER = "practice.kubectl-sky/folder"
_SOURCE = "persistentvolume-controller"
_CLASSES, _CLAIMS, _VOLUMES = (
    "storageclasses.storage.k8s.io",
    "persistentvolumeclaims",
    "persistentvolumes",
)
_CLAIM_GUARD, _VOLUME_GUARD = "kubernetes.io/pvc-protection", "kubernetes.io/pv-protection"
_MINE = {"pv.kubernetes.io/provisioned-by": PROVISIONER}
_BY_US = {"pv.kubernetes.io/bound-by-controller": "yes"}
_AGAIN = 15.0  # seconds until a claim without a volume is looked at again


def _waits(claim: Json) -> bool:
    return str(claim["status"].get("phase")) == "Pending"


def _runs(pod: Json) -> bool:
    return pod["status"].get("phase") not in ("Succeeded", "Failed")


def _claims_of(pod: Json) -> Iterator[Key]:
    for volume in pod["spec"].get("volumes") or ():
        if volume.get("persistentVolumeClaim"):
            yield pod["metadata"]["namespace"], volume["persistentVolumeClaim"]["claimName"]


class Claims(Controller):
    """The controller of claims (keys with a namespace) and of volumes (those without)."""

    def __init__(self, api: Api) -> None:
        super().__init__(api)
        if not api.state.all(_CLASSES):
            metadata = {"name": "standard", "annotations": {DEFAULT_CLASS: "true"}}
            api.create(_CLASSES, {"metadata": metadata, "provisioner": PROVISIONER})
        self.replay(_CLAIMS, _VOLUMES)

    def keys(self, change: Change) -> Iterator[Key]:
        """A claim, those of a pod that ended, a volume and its claim, all claims of a class."""
        storage, obj = change.storage, change.object
        if storage in (_CLAIMS, _VOLUMES):
            yield change.key
            if obj["spec"].get("volumeName"):
                yield "", obj["spec"]["volumeName"]
            if obj["spec"].get("claimRef"):
                yield obj["spec"]["claimRef"]["namespace"], obj["spec"]["claimRef"]["name"]
        elif storage == "pods" and (change.type == "DELETED" or not _runs(obj)):
            yield from _claims_of(obj)
        if storage == _CLASSES or (storage == _VOLUMES and change.type == "ADDED"):
            yield from (key_of(one) for one in self.api.state.all(_CLAIMS) if _waits(one))

    def reconcile(self, key: Key) -> float | None:
        """Bind a claim, or see to what becomes of a volume."""
        found = self.api.state.get(_CLAIMS if key[0] else _VOLUMES, *key)
        if not found:
            return None
        if not key[0]:
            self._settle(found)
        elif "deletionTimestamp" in found["metadata"]:
            if not self._used(key):
                self.remove_finalizer(_CLAIMS, key, _CLAIM_GUARD)
        elif not found["spec"].get("volumeName"):
            return self._seek(found)
        else:
            self._join(found)
        return None

    def _used(self, key: Key) -> bool:
        return any(
            key in _claims_of(pod)
            for pod in self.api.state.all("pods", key[0])
            if pod["spec"].get("nodeName") and _runs(pod)
        )

    def _seek(self, claim: Json) -> float | None:
        """Find or make a volume for a claim."""
        name = claim["spec"].get("storageClassName") or ""
        fitting = [one for one in self.api.state.all(_VOLUMES) if _fits(one, claim)]
        kind = self.api.state.get(_CLASSES, "", name) if name else None
        if fitting:
            self._bind(claim, min(fitting, key=_size)["metadata"]["name"])
        elif kind and kind["provisioner"] == PROVISIONER:
            self._make(claim, kind)
        else:
            self._say(claim, *_lacking(name, kind))
            return _AGAIN
        return None

    def _make(self, claim: Json, kind: Json) -> None:
        name = f"pvc-{claim['metadata']['uid']}"
        folder = self.api.folder / "volumes" / name
        folder.mkdir(parents=True, exist_ok=True)
        spec = {
            "accessModes": claim["spec"]["accessModes"],
            "capacity": {"storage": claim["spec"]["resources"]["requests"]["storage"]},
            "claimRef": _reference(claim),
            "hostPath": {"path": str(folder)},
            "persistentVolumeReclaimPolicy": kind["reclaimPolicy"],
            "storageClassName": kind["metadata"]["name"],
            "volumeMode": claim["spec"]["volumeMode"],
        }
        annotations = {**_BY_US, **_MINE}
        metadata = {"name": name, "annotations": annotations}
        if not self.api.state.get(_VOLUMES, "", name):
            self.api.create(_VOLUMES, {"metadata": metadata, "spec": spec})
        message = f"Successfully provisioned volume {name} using {PROVISIONER}"
        self._say(claim, "ProvisioningSucceeded", message)
        self._bind(claim, name)

    def _bind(self, claim: Json, name: str) -> None:
        provisioners = {
            f"volume.{word}kubernetes.io/storage-provisioner": PROVISIONER
            for word in ("", "beta.")
            if name == f"pvc-{claim['metadata']['uid']}"
        }

        def edit(claim: Json) -> None:
            claim["metadata"].setdefault("annotations", {}).update(_BY_US | provisioners)
            claim["spec"]["volumeName"] = name

        self.api.change(_CLAIMS, key_of(claim), edit)

    def _join(self, claim: Json) -> None:
        """Make a claim and the volume that it names know each other."""
        key = key_of(claim)
        volume = self.api.state.get(_VOLUMES, "", claim["spec"]["volumeName"])
        if not volume:
            if claim["status"].get("phase") == "Bound":
                self.api.change(_CLAIMS, key, lambda it: it["status"].update(phase="Lost"))
                lost = "Bound claim has lost its PersistentVolume. Data on the volume is lost!"
                self._say(claim, "ClaimLost", lost, "Warning")
            return
        about = volume["spec"].get("claimRef")
        if about and about.get("uid", claim["metadata"]["uid"]) != claim["metadata"]["uid"]:
            return
        if not about or "uid" not in about:

            def edit(volume: Json) -> None:
                volume["spec"]["claimRef"] = _reference(claim)

            self.api.change(_VOLUMES, ("", volume["metadata"]["name"]), edit)
        modes, capacity = volume["spec"]["accessModes"], volume["spec"]["capacity"]
        status = {"accessModes": modes, "capacity": capacity, "phase": "Bound"}
        done = {"pv.kubernetes.io/bind-completed": "yes"}

        def bound(claim: Json) -> None:
            claim["metadata"].setdefault("annotations", {}).update(done)
            claim["status"] |= status

        self.api.change(_CLAIMS, key, bound)

    def _settle(self, volume: Json) -> None:
        name, about = volume["metadata"]["name"], volume["spec"].get("claimRef")
        claim = self.api.state.get(_CLAIMS, about["namespace"], about["name"]) if about else None
        bound = bool(claim and about and about.get("uid") == claim["metadata"]["uid"])
        phase = "Bound" if bound else "Released" if about and "uid" in about else "Available"

        def edit(volume: Json) -> None:
            if volume["status"].get("phase") != phase:
                volume["status"] = {"phase": phase, "lastPhaseTransitionTime": now()}

        self.api.change(_VOLUMES, ("", name), edit)
        ours = _MINE.items() <= (volume["metadata"].get("annotations") or {}).items()
        deletes = volume["spec"]["persistentVolumeReclaimPolicy"] == "Delete"
        if phase == "Released" and ours and deletes:
            if "deletionTimestamp" not in volume["metadata"]:
                self.api.delete(_VOLUMES, ("", name))
            _discard(self.api.folder / "volumes" / name)
        left = self.api.state.get(_VOLUMES, "", name)
        if left and phase != "Bound" and "deletionTimestamp" in left["metadata"]:
            self.remove_finalizer(_VOLUMES, ("", name), _VOLUME_GUARD)

    def _say(self, claim: Json, reason: str, message: str, kind: str = "Normal") -> None:
        record_event(self.api, claim, _SOURCE, reason, message, kind)


def _discard(folder: Path) -> None:
    """Remove a folder, however much is in it, in a thread of its own: others go on meanwhile."""
    loop = asyncio.get_running_loop()
    loop.run_in_executor(None, lambda: shutil.rmtree(folder, ignore_errors=True))


def _reference(claim: Json) -> Json:
    metadata = claim["metadata"]
    known = {name: metadata[name] for name in ("namespace", "name", "uid", "resourceVersion")}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **known}


def _lacking(name: str, kind: Json | None) -> tuple[str, ...]:
    """Say why there is no volume: reason, message and kind of an event."""
    if not name:
        why = "no persistent volumes available for this claim and no storage class is set"
        return "FailedBinding", why, "Normal"
    if not kind:
        return "ProvisioningFailed", f'storageclass.storage.k8s.io "{name}" not found', "Warning"
    why = (
        "Waiting for a volume to be created either by the external provisioner"
        f" '{kind['provisioner']}' or manually by the system administrator. If volume creation is"
        " delayed, please verify that the provisioner is running and correctly registered."
    )
    return "ExternalProvisioning", why, "Normal"


def _size(volume: Json) -> int:
    return quantities.parse(volume["spec"]["capacity"]["storage"]).nanos


def _fits(volume: Json, claim: Json) -> bool:
    spec, wanted = volume["spec"], claim["spec"]
    about = spec.get("claimRef")
    if about:
        named: bool = (about["namespace"], about["name"]) == key_of(claim)
        return named and about.get("uid", claim["metadata"]["uid"]) == claim["metadata"]["uid"]
    least = quantities.parse(wanted["resources"]["requests"]["storage"]).nanos
    return (
        "deletionTimestamp" not in volume["metadata"]
        and (spec.get("storageClassName") or "") == (wanted.get("storageClassName") or "")
        and set(wanted["accessModes"]) <= set(spec["accessModes"])
        and spec["volumeMode"] == wanted["volumeMode"]
        and _size(volume) >= least
        and selection.matches(wanted.get("selector") or {}, volume["metadata"].get("labels") or {})
    )
