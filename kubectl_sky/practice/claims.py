"""The PersistentVolume controller: binds PVCs to volumes, which are folders of this machine."""

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path

from kubectl_sky.practice import quantities
from kubectl_sky.practice.admission import DEFAULT_CLASS
from kubectl_sky.practice.api import Api, now
from kubectl_sky.practice.controller import Controller, record_event
from kubectl_sky.practice.state import Change, Json, Key
from kubectl_sky.practice.state import key as key_of
from kubectl_sky.words import label_selectors

PROVISIONER = "practice.kubectl-sky/folder"
_SOURCE = "persistentvolume-controller"
_CLASSES, _CLAIMS, _VOLUMES = (
    "storageclasses.storage.k8s.io",
    "persistentvolumeclaims",
    "persistentvolumes",
)
_PVC_PROTECTION, _PV_PROTECTION = "kubernetes.io/pvc-protection", "kubernetes.io/pv-protection"
_PROVISIONED = {"pv.kubernetes.io/provisioned-by": PROVISIONER}
_BOUND_BY_CONTROLLER = {"pv.kubernetes.io/bound-by-controller": "yes"}
_RETRY_SECONDS = 15.0  # for a PVC without a volume


def _is_pending(claim: Json) -> bool:
    return str(claim["status"].get("phase")) == "Pending"


def _claims_of(pod: Json) -> Iterator[Key]:
    for volume in pod["spec"].get("volumes") or ():
        if volume.get("persistentVolumeClaim"):
            yield pod["metadata"]["namespace"], volume["persistentVolumeClaim"]["claimName"]


class Claims(Controller):
    """The controller of PVCs (keys with a namespace) and of volumes (without)."""

    def __init__(self, api: Api) -> None:
        super().__init__(api)
        if not api.state.all(_CLASSES):
            metadata = {"name": "standard", "annotations": {DEFAULT_CLASS: "true"}}
            api.create(_CLASSES, {"metadata": metadata, "provisioner": PROVISIONER})
        self.replay(_CLAIMS, _VOLUMES)

    def keys(self, change: Change) -> Iterator[Key]:
        storage, obj = change.storage, change.object
        if storage in (_CLAIMS, _VOLUMES):
            yield change.key
            if obj["spec"].get("volumeName"):
                yield "", obj["spec"]["volumeName"]
            if obj["spec"].get("claimRef"):
                yield obj["spec"]["claimRef"]["namespace"], obj["spec"]["claimRef"]["name"]
        elif storage == "pods" and change.type == "DELETED":
            yield from _claims_of(obj)
        if storage == _CLASSES or (storage == _VOLUMES and change.type == "ADDED"):
            yield from (key_of(one) for one in self.api.state.all(_CLAIMS) if _is_pending(one))

    def reconcile(self, key: Key) -> float | None:
        obj = self.api.state.get(_CLAIMS if key[0] else _VOLUMES, *key)
        if not obj:
            return None
        if not key[0]:
            self._update_volume(obj)
        elif "deletionTimestamp" in obj["metadata"]:
            if not self._in_use(key):
                self.remove_finalizer(_CLAIMS, key, _PVC_PROTECTION)
        elif not obj["spec"].get("volumeName"):
            return self._provide(obj)
        else:
            self._complete(obj)
        return None

    def _in_use(self, key: Key) -> bool:
        return any(
            key in _claims_of(pod)
            for pod in self.api.state.all("pods", key[0])
            if pod["spec"].get("nodeName")
        )

    def _provide(self, claim: Json) -> float | None:
        name = claim["spec"].get("storageClassName") or ""
        volumes = [pv for pv in self.api.state.all(_VOLUMES) if _matches(pv, claim)]
        storage_class = self.api.state.get(_CLASSES, "", name) if name else None
        if volumes:
            self._bind(claim, min(volumes, key=_size)["metadata"]["name"])
        elif storage_class and storage_class["provisioner"] == PROVISIONER:
            self._provision(claim, storage_class)
        else:
            self._record(claim, *_missing_volume(name, storage_class))
            return _RETRY_SECONDS
        return None

    def _provision(self, claim: Json, storage_class: Json) -> None:
        name = f"pvc-{claim['metadata']['uid']}"
        folder = self.api.folder / "volumes" / name
        folder.mkdir(parents=True, exist_ok=True)
        spec = {
            "accessModes": claim["spec"]["accessModes"],
            "capacity": {"storage": claim["spec"]["resources"]["requests"]["storage"]},
            "claimRef": _reference(claim),
            "hostPath": {"path": str(folder)},
            "persistentVolumeReclaimPolicy": storage_class["reclaimPolicy"],
            "storageClassName": storage_class["metadata"]["name"],
            "volumeMode": claim["spec"]["volumeMode"],
        }
        annotations = {**_BOUND_BY_CONTROLLER, **_PROVISIONED}
        metadata = {"name": name, "annotations": annotations}
        if not self.api.state.get(_VOLUMES, "", name):
            self.api.create(_VOLUMES, {"metadata": metadata, "spec": spec})
        message = f"Successfully provisioned volume {name} using {PROVISIONER}"
        self._record(claim, "ProvisioningSucceeded", message)
        self._bind(claim, name)

    def _bind(self, claim: Json, name: str) -> None:
        provisioners = {
            f"volume.{word}kubernetes.io/storage-provisioner": PROVISIONER
            for word in ("", "beta.")
            if name == f"pvc-{claim['metadata']['uid']}"
        }

        def edit(claim: Json) -> None:
            claim["metadata"].setdefault("annotations", {}).update(
                _BOUND_BY_CONTROLLER | provisioners
            )
            claim["spec"]["volumeName"] = name

        self.api.change(_CLAIMS, key_of(claim), edit)

    def _complete(self, claim: Json) -> None:
        key = key_of(claim)
        volume = self.api.state.get(_VOLUMES, "", claim["spec"]["volumeName"])
        if not volume:
            if claim["status"].get("phase") == "Bound":
                self.api.change(_CLAIMS, key, lambda it: it["status"].update(phase="Lost"))
                lost = "Bound claim has lost its PersistentVolume. Data on the volume is lost!"
                self._record(claim, "ClaimLost", lost, "Warning")
            return
        reference = volume["spec"].get("claimRef")
        if reference and reference.get("uid", claim["metadata"]["uid"]) != claim["metadata"]["uid"]:
            return
        if not reference or "uid" not in reference:

            def edit(volume: Json) -> None:
                volume["spec"]["claimRef"] = _reference(claim)

            self.api.change(_VOLUMES, ("", volume["metadata"]["name"]), edit)
        modes, capacity = volume["spec"]["accessModes"], volume["spec"]["capacity"]
        status = {"accessModes": modes, "capacity": capacity, "phase": "Bound"}
        annotations = {"pv.kubernetes.io/bind-completed": "yes"}

        def bound(claim: Json) -> None:
            claim["metadata"].setdefault("annotations", {}).update(annotations)
            claim["status"] |= status

        self.api.change(_CLAIMS, key, bound)

    def _update_volume(self, volume: Json) -> None:
        name, reference = volume["metadata"]["name"], volume["spec"].get("claimRef")
        claim = (
            self.api.state.get(_CLAIMS, reference["namespace"], reference["name"])
            if reference
            else None
        )
        bound = bool(claim and reference and reference.get("uid") == claim["metadata"]["uid"])
        phase = (
            "Bound" if bound else "Released" if reference and "uid" in reference else "Available"
        )

        def edit(volume: Json) -> None:
            if volume["status"].get("phase") != phase:
                volume["status"] = {"phase": phase, "lastPhaseTransitionTime": now()}

        self.api.change(_VOLUMES, ("", name), edit)
        provisioned = _PROVISIONED.items() <= (volume["metadata"].get("annotations") or {}).items()
        deletes = volume["spec"]["persistentVolumeReclaimPolicy"] == "Delete"
        if phase == "Released" and provisioned and deletes:
            if "deletionTimestamp" not in volume["metadata"]:
                self.api.delete(_VOLUMES, ("", name))
            _remove(self.api.folder / "volumes" / name)
        remaining = self.api.state.get(_VOLUMES, "", name)
        if remaining and phase != "Bound" and "deletionTimestamp" in remaining["metadata"]:
            self.remove_finalizer(_VOLUMES, ("", name), _PV_PROTECTION)

    def _record(self, claim: Json, reason: str, message: str, kind: str = "Normal") -> None:
        record_event(self.api, claim, _SOURCE, reason, message, kind)


def _remove(folder: Path) -> None:
    """Remove a folder in a thread, because it may be large."""
    loop = asyncio.get_running_loop()
    loop.run_in_executor(None, lambda: shutil.rmtree(folder, ignore_errors=True))


def _reference(claim: Json) -> Json:
    metadata = claim["metadata"]
    known = {name: metadata[name] for name in ("namespace", "name", "uid", "resourceVersion")}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **known}


def _missing_volume(name: str, storage_class: Json | None) -> tuple[str, ...]:
    if not name:
        why = "no persistent volumes available for this claim and no storage class is set"
        return "FailedBinding", why, "Normal"
    if not storage_class:
        return "ProvisioningFailed", f'storageclass.storage.k8s.io "{name}" not found', "Warning"
    why = (
        "Waiting for a volume to be created either by the external provisioner"
        f" '{storage_class['provisioner']}' or manually by the system administrator."
        " If volume creation is delayed, please verify that the provisioner is running and"
        " correctly registered."
    )
    return "ExternalProvisioning", why, "Normal"


def _size(volume: Json) -> int:
    return quantities.parse(volume["spec"]["capacity"]["storage"]).nanos


def _matches(volume: Json, claim: Json) -> bool:
    spec, wanted = volume["spec"], claim["spec"]
    reference = spec.get("claimRef")
    if reference:
        named: bool = (reference["namespace"], reference["name"]) == key_of(claim)
        return named and reference.get("uid", claim["metadata"]["uid"]) == claim["metadata"]["uid"]
    least = quantities.parse(wanted["resources"]["requests"]["storage"]).nanos
    return (
        "deletionTimestamp" not in volume["metadata"]
        and (spec.get("storageClassName") or "") == (wanted.get("storageClassName") or "")
        and set(wanted["accessModes"]) <= set(spec["accessModes"])
        and spec["volumeMode"] == wanted["volumeMode"]
        and _size(volume) >= least
        and label_selectors.matches(
            wanted.get("selector") or {}, volume["metadata"].get("labels") or {}
        )
    )
