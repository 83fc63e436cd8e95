"""Open a volume: in a running pod of the user, or in one that the user agrees to start."""

import io
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from kubectl_sky.cli import options, output
from kubectl_sky.cli.terminal import Terminal
from kubectl_sky.errors import ClusterError, UnknownName

if TYPE_CHECKING:
    from kubectl_sky.cluster.session import Session
    from kubectl_sky.observe.mounts import BucketMount, Mount
    from kubectl_sky.tasks.find import Scope
    from kubectl_sky.tasks.volume_pods import VolumePod
    from kubectl_sky.words.pod_objects import TemplateMetadata

Json = dict[str, Any]

_START_SECONDS = 300.0
_NAME = "volume"
_FOLDER = "/volume"
_COPIED = "/kubectl-sky/bucket"  # of the pod's disk: any user may write there
# It ends when nothing has run in it for two minutes, as this program may be killed, or has not gone
# on for 15: a tar whose connection is lost blocks for ever, one whose reader pauses does not.
_IDLE = """
trap 'exit 0' TERM
idle=0
limit=12
before=
while [ "$idle" -lt "$limit" ]; do
  sleep 10 &
  wait
  idle=$((idle + 1))
  now=
  for comm in $(grep -lsxE 'tar|dd|du|find|tail|rclone' /proc/[0-9]*/comm); do
    now=$now$(cat "${comm%comm}stat" "${comm%comm}io" 2> /dev/null)
  done
  [ "$now" = "$before" ] || idle=0
  limit=12
  [ -z "$now" ] || limit=90
  before=$now
done
"""
# A pod that writes is the user of the image, as tasks are: it may own what they have written.
_WRITER = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}
_OF_TASK = re.compile(r"(kubernetes\.io|x-k8s\.io|volcano\.sh|kubectl-sky)/")
_READER = {**_WRITER, "runAsNonRoot": True, "runAsUser": 1000}


def reader_task(claim: str, *, writes: bool) -> Json:
    """Return the task of a small pod that mounts a PVC."""
    return {**_task(_WRITER if writes else _READER), "volumes": {_FOLDER: claim}}


def bucket_task(bucket: "BucketMount") -> Json:
    """Return the task of a small pod that reads a bucket with what the pods of its task had."""
    template = bucket.template
    container: Json = {}
    spec: Json = {}
    if template.spec.service_account_name:
        spec["serviceAccountName"] = template.spec.service_account_name
    if template.spec.image_pull_secrets:
        spec["imagePullSecrets"] = list(template.spec.image_pull_secrets)
    if not bucket.copier:
        spec["volumes"] = [{"name": _NAME, "csi": {**(bucket.volume.csi or {}), "readOnly": True}}]
        container["volumeMounts"] = [{"name": _NAME, "mountPath": _FOLDER, "readOnly": True}]
        return _task(_READER, spec, container, template.metadata)

    container["env"] = [
        {"name": item.name, "value": item.value}
        if item.value_from is None
        else {"name": item.name, "valueFrom": item.value_from}
        for item in bucket.copier.env or ()
        if not item.name.startswith("KUBECTL_SKY_")
    ]
    container["envFrom"] = list(bucket.copier.env_from or ())
    task = _task(_READER, spec, container, template.metadata)
    task["resources"]["image_id"] = bucket.copier.image
    return task


def _task(
    context: Json,
    spec: Json | None = None,
    container: Json | None = None,
    metadata: "TemplateMetadata | None" = None,
) -> Json:
    from kubectl_sky.tasks.volume_pods import READER_TASK

    main = {"name": "main", "securityContext": context, **(container or {})}
    pod_config: Json = {"spec": {**(spec or {}), "containers": [main]}}
    if metadata:
        labels = _of_cloud(metadata.labels)
        annotations = _of_cloud(metadata.annotations or {})
        pod_config["metadata"] = {"labels": labels, "annotations": annotations}
    return {
        "name": READER_TASK,
        "resources": {"cpus": "0.1+", "memory": "0.1+"},
        "max_duration": "12h",
        "run": _IDLE,
        "config": {"kubernetes": {"pod_config": pod_config}},
    }


def _of_cloud(values: Mapping[str, str]) -> dict[str, str]:
    """Return the labels or annotations that clouds read, such as those of workload identities."""
    return {key: text for key, text in values.items() if "/" in key and not _OF_TASK.search(key)}


class Volumes(Struct, frozen=True):
    """Open volumes of the namespace of the scope; `yes` starts a pod without asking."""

    session: "Session"
    cluster: options.ClusterFlags
    scope: "Scope"
    yes: bool

    @contextmanager
    def open(self, claim: str, folder: str = "", *, writes: bool = False) -> Iterator["VolumePod"]:
        """Yield a pod that mounts the folder of a PVC; one that was started is deleted again.

        Raises UserError if the user does not agree to start one.
        """
        from kubectl_sky.tasks import volume_pods

        # A PVC of the same name in another namespace is another volume.
        scope = replace(self.scope, namespace=self._namespace)
        if pod := volume_pods.find_pod(self.session, scope, claim, folder, writes=writes):
            yield pod
            return
        if not self.yes:
            options.confirm(f'no running pod mounts PVC "{claim}": start one to open it?')
        task = reader_task(claim, writes=writes)
        with self._start(task, f"{_FOLDER}/{folder}") as pod:
            yield pod

    @contextmanager
    def open_mount(self, mount: "Mount", end: str, *, writes: bool) -> Iterator["VolumePod"]:
        """Yield a pod that has the volume or bucket of a task that has ended; see `open`.

        Of a bucket that is copied, the folder of the pod is empty.
        """
        from kubectl_sky.observe.mounts import PvcMount

        if isinstance(mount, PvcMount):
            output.note(f'{end}: its volume is PVC "{mount.pvc}"')
            with self.open(mount.pvc, writes=writes) as pod:
                yield pod
            return
        if not self.yes:
            options.confirm(f"{end}: start a pod to read {mount.title}?")
        folder = _COPIED if mount.copier else _FOLDER
        with self._start(bucket_task(mount), folder) as pod:
            yield pod

    @property
    def _namespace(self) -> str:
        return self.scope.namespace or self.session.namespace

    @contextmanager
    def _start(self, task: Json, folder: str) -> Iterator["VolumePod"]:
        from kubectl_sky.submitting import submit
        from kubectl_sky.submitting.overrides import Overrides
        from kubectl_sky.submitting.taskfile import Source
        from kubectl_sky.tasks import find, pipeline, stop, volume_pods
        from kubectl_sky.tasks.ui import Collected
        from kubectl_sky.tasks.watch import Until, Wait

        stdin = io.BytesIO(json.dumps(task).encode())
        source = Source("<volume>", Overrides(), os.environ, stdin, in_memory=True)
        connection = replace(self.cluster.flags(), namespace=self._namespace)
        ui = Collected()
        submit.submit(submit.Options(source, connection, self.cluster.user, follow=False), ui)
        assert ui.result
        started = find.tasks_of(ui.result.target)
        try:
            wait = Wait(_START_SECONDS, Until.RUNNING)
            targets = pipeline.wait_for_all(self.session, started, wait, Terminal())
            reader = find.single_task(targets[0])
            yield volume_pods.pod_of_reader(self.session, reader, folder)
        finally:
            try:
                stop.stop(self.session, started)
            except ClusterError as error:  # the outcome of the copy counts
                output.note(
                    f"warning: the pod of task {started[0].id} may still run: {error.what};"
                    " it ends when no copy has gone on for 15 minutes, and"
                    f" `kubectl sky stop {started[0].id}` deletes it"
                )

    def find_claim(self, volume: str) -> str:
        """Return the PVC of a volume by any name that tasks can use. Raises UnknownName."""
        from kubectl_sky.actions import identity, volumes

        user = identity.user(self.session, self.cluster.user)
        claim = volumes.claims(self.session, user).get(volume)
        if claim is None:
            raise UnknownName(f'volume or PVC "{volume}" not found', _hint_of_name(volume))
        return claim.name


def _hint_of_name(volume: str) -> str:
    """Return what to type for a volume that does not exist; NAME:PATH is two words."""
    name, colon, path = volume.partition(":")
    if colon:
        return f"the path is a word of its own: {name} {path or '/'}"
    return "run `kubectl sky volumes list`"
