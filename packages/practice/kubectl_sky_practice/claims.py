"""The PVC controller: provides a folder of this machine for each PVC, without PersistentVolumes."""

import asyncio
import shutil
from collections.abc import Iterator

from kubectl_sky_practice.admission import DEFAULT_CLASS
from kubectl_sky_practice.api import Api
from kubectl_sky_practice.controller import Controller, record_event
from kubectl_sky_practice.state import Change, Json, Key
from kubectl_sky_practice.state import key as key_of

PROVISIONER = "practice.kubectl-sky/folder"
_SOURCE = "persistentvolume-controller"
_CLASSES = "storageclasses.storage.k8s.io"
_CLAIMS = "persistentvolumeclaims"
_PROTECTION = "kubernetes.io/pvc-protection"
_ANNOTATIONS = {
    "pv.kubernetes.io/bind-completed": "yes",
    "volume.kubernetes.io/storage-provisioner": PROVISIONER,
}


def _claims_of(pod: Json) -> Iterator[Key]:
    for volume in pod["spec"].get("volumes") or ():
        if volume.get("persistentVolumeClaim"):
            yield pod["metadata"]["namespace"], volume["persistentVolumeClaim"]["claimName"]


class Claims(Controller):
    def __init__(self, api: Api) -> None:
        super().__init__(api)
        if not api.state.all(_CLASSES):
            metadata = {"name": "standard", "annotations": {DEFAULT_CLASS: "true"}}
            api.create(_CLASSES, {"metadata": metadata, "provisioner": PROVISIONER})
        self.replay(_CLAIMS)

    def keys(self, change: Change) -> Iterator[Key]:
        storage = change.storage
        gone = change.type == "DELETED"
        if storage == _CLAIMS:
            yield change.key
            if gone and "volumeName" in change.object["spec"]:
                self._remove_folder(change.object["spec"]["volumeName"])
        elif storage == "pods" and gone:
            yield from _claims_of(change.object)
        elif storage == _CLASSES:
            yield from map(key_of, self.api.state.all(_CLAIMS))

    def reconcile(self, key: Key) -> None:
        claim = self.api.state.get(_CLAIMS, *key)
        if not claim:
            return
        if "deletionTimestamp" in claim["metadata"]:
            if not self._in_use(key):
                self.remove_finalizer(_CLAIMS, key, _PROTECTION)
        elif claim["status"]["phase"] == "Pending":
            self._provide(claim)

    def _in_use(self, key: Key) -> bool:
        return any(
            key in _claims_of(pod)
            for pod in self.api.state.all("pods", key[0])
            if pod["spec"].get("nodeName")
        )

    def _provide(self, claim: Json) -> None:
        name = claim["spec"].get("storageClassName") or ""
        storage_class = self.api.state.get(_CLASSES, "", name)
        provisioner = storage_class["provisioner"] if storage_class else ""
        if not name:
            self._record(claim, "FailedBinding", "no storage class is set")
        elif not storage_class:
            text = f'storageclass.storage.k8s.io "{name}" not found'
            self._record(claim, "ProvisioningFailed", text, "Warning")
        elif provisioner != PROVISIONER:
            text = f"Waiting for a volume to be created by the external provisioner '{provisioner}'"
            self._record(claim, "ExternalProvisioning", text)
        else:
            self._provision(claim)

    def _provision(self, claim: Json) -> None:
        name = f"pvc-{claim['metadata']['uid']}"
        self.api.claim_folder(name).mkdir(parents=True, exist_ok=True)

        def bind(claim: Json) -> None:
            claim["metadata"].setdefault("annotations", {}).update(_ANNOTATIONS)
            spec = claim["spec"]
            spec["volumeName"] = name
            capacity = {"storage": spec["resources"]["requests"]["storage"]}
            modes = {"accessModes": spec["accessModes"]}
            claim["status"] = {"phase": "Bound", "capacity": capacity, **modes}

        self.api.change(_CLAIMS, key_of(claim), bind)
        message = f"Successfully provisioned volume {name} using {PROVISIONER}"
        self._record(claim, "ProvisioningSucceeded", message)

    def _remove_folder(self, name: str) -> None:
        folder = self.api.claim_folder(name)
        loop = asyncio.get_running_loop()
        loop.run_in_executor(None, lambda: shutil.rmtree(folder, ignore_errors=True))

    def _record(self, claim: Json, reason: str, message: str, kind: str = "Normal") -> None:
        record_event(self.api, claim, _SOURCE, reason, message, kind)
