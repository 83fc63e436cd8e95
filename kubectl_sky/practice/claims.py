"""The PVC controller: provisions a volume for each PVC, which is a folder of this machine."""

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path

from kubectl_sky.practice.admission import DEFAULT_CLASS
from kubectl_sky.practice.api import Api, now
from kubectl_sky.practice.controller import Controller, record_event
from kubectl_sky.practice.state import Change, Json, Key
from kubectl_sky.practice.state import key as key_of

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
_PVC_ANNOTATIONS = {
    **_BOUND_BY_CONTROLLER,
    "pv.kubernetes.io/bind-completed": "yes",
    "volume.beta.kubernetes.io/storage-provisioner": PROVISIONER,
    "volume.kubernetes.io/storage-provisioner": PROVISIONER,
}


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
            if reference := obj["spec"].get("claimRef"):
                yield reference["namespace"], reference["name"]
        elif storage == "pods" and change.type == "DELETED":
            yield from _claims_of(obj)
        if storage == _CLASSES:
            for claim in self.api.state.all(_CLAIMS):
                if claim["status"].get("phase") == "Pending":
                    yield key_of(claim)

    def reconcile(self, key: Key) -> None:
        obj = self.api.state.get(_CLAIMS if key[0] else _VOLUMES, *key)
        if not obj:
            return
        if not key[0]:
            self._update_volume(obj)
        elif "deletionTimestamp" in obj["metadata"]:
            if not self._in_use(key):
                self.remove_finalizer(_CLAIMS, key, _PVC_PROTECTION)
        elif obj["spec"].get("volumeName"):
            self._complete(obj)
        else:
            self._provide(obj)

    def _in_use(self, key: Key) -> bool:
        return any(
            key in _claims_of(pod)
            for pod in self.api.state.all("pods", key[0])
            if pod["spec"].get("nodeName")
        )

    def _provide(self, claim: Json) -> None:
        spec = claim["spec"]
        name = spec.get("storageClassName") or ""
        storage_class = self.api.state.get(_CLASSES, "", name) if name else None
        if storage_class and storage_class["provisioner"] == PROVISIONER:
            self._provision(claim, storage_class)
        else:
            self._record(claim, *_missing_volume(name, storage_class))

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
        metadata = {"name": name, "annotations": _BOUND_BY_CONTROLLER | _PROVISIONED}
        if not self.api.state.get(_VOLUMES, "", name):
            self.api.create(_VOLUMES, {"metadata": metadata, "spec": spec})
        message = f"Successfully provisioned volume {name} using {PROVISIONER}"
        self._record(claim, "ProvisioningSucceeded", message)

        def bind(claim: Json) -> None:
            claim["metadata"].setdefault("annotations", {}).update(_PVC_ANNOTATIONS)
            claim["spec"]["volumeName"] = name

        self.api.change(_CLAIMS, key_of(claim), bind)

    def _complete(self, claim: Json) -> None:
        key, uid = key_of(claim), claim["metadata"]["uid"]
        volume = self.api.state.get(_VOLUMES, "", claim["spec"]["volumeName"])
        if not volume or volume["spec"].get("claimRef", {}).get("uid") != uid:
            if claim["status"].get("phase") == "Bound":
                self.api.change(_CLAIMS, key, lambda it: it["status"].update(phase="Lost"))
                lost = "Bound claim has lost its PersistentVolume. Data on the volume is lost!"
                self._record(claim, "ClaimLost", lost, "Warning")
            return
        modes, capacity = volume["spec"]["accessModes"], volume["spec"]["capacity"]
        status = {"accessModes": modes, "capacity": capacity, "phase": "Bound"}
        self.api.change(_CLAIMS, key, lambda it: it["status"].update(status))

    def _update_volume(self, volume: Json) -> None:
        name, spec = volume["metadata"]["name"], volume["spec"]
        reference = spec.get("claimRef") or {"namespace": "", "name": "", "uid": ""}
        claim = self.api.state.get(_CLAIMS, reference["namespace"], reference["name"])
        bound = bool(claim and reference["uid"] == claim["metadata"]["uid"])
        phase = "Bound" if bound else "Released"

        def edit(volume: Json) -> None:
            if volume["status"].get("phase") != phase:
                volume["status"] = {"phase": phase, "lastPhaseTransitionTime": now()}

        self.api.change(_VOLUMES, ("", name), edit)
        if not bound and spec["persistentVolumeReclaimPolicy"] == "Delete":
            if "deletionTimestamp" not in volume["metadata"]:
                self.api.delete(_VOLUMES, ("", name))
            _remove(self.api.folder / "volumes" / name)
        remaining = self.api.state.get(_VOLUMES, "", name)
        if remaining and not bound and "deletionTimestamp" in remaining["metadata"]:
            self.remove_finalizer(_VOLUMES, ("", name), _PV_PROTECTION)

    def _record(self, claim: Json, reason: str, message: str, kind: str = "Normal") -> None:
        record_event(self.api, claim, _SOURCE, reason, message, kind)


def _remove(folder: Path) -> None:
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
