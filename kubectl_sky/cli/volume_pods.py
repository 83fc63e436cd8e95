"""Open a volume: in a running pod of the user, or in one that the user agrees to start."""

import io
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from kubectl_sky.cli import options
from kubectl_sky.cli.terminal import Terminal
from kubectl_sky.errors import ClusterError, UnknownName

if TYPE_CHECKING:
    from kubectl_sky.cluster.session import Session
    from kubectl_sky.tasks.find import Scope
    from kubectl_sky.tasks.volume_pods import VolumePod

_START_SECONDS = 300.0
# It ends when nothing has run in it for two minutes: this program may be killed.
_IDLE = """
trap 'exit 0' TERM
idle=0
while [ "$idle" -lt 12 ]; do
  sleep 10 &
  wait
  idle=$((idle + 1))
  if grep -qsxE 'tar|du|find|tail' /proc/[0-9]*/comm; then idle=0; fi
done
"""
# A pod that writes is the user of the image, as tasks are: it may own what they have written.
_WRITER = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}
_READER = {**_WRITER, "runAsNonRoot": True, "runAsUser": 1000}


def reader_task(claim: str, *, writes: bool) -> bytes:
    """Return the task of a small pod that mounts a PVC."""
    from kubectl_sky.tasks.volume_pods import READER_TASK

    context = _WRITER if writes else _READER
    spec = {"containers": [{"name": "main", "securityContext": context}]}
    task = {
        "name": READER_TASK,
        "resources": {"cpus": "0.1+", "memory": "0.1+"},
        "max_duration": "12h",
        "volumes": {"/volume": claim},
        "run": _IDLE,
        "config": {"kubernetes": {"pod_config": {"spec": spec}}},
    }
    return json.dumps(task).encode()


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
        from kubectl_sky.submitting import submit
        from kubectl_sky.submitting.overrides import Overrides
        from kubectl_sky.submitting.taskfile import Source
        from kubectl_sky.tasks import find, pipeline, stop, volume_pods
        from kubectl_sky.tasks.ui import Collected
        from kubectl_sky.tasks.watch import Until, Wait

        # A PVC of the same name in another namespace is another volume.
        namespace = self.scope.namespace or self.session.namespace
        scope = replace(self.scope, namespace=namespace)
        if pod := volume_pods.find_pod(self.session, scope, claim, folder, writes=writes):
            yield pod
            return
        if not self.yes:
            options.confirm(f'no running pod mounts PVC "{claim}": start one to open it?')

        stdin = io.BytesIO(reader_task(claim, writes=writes))
        source = Source("<volume>", Overrides(), os.environ, stdin, in_memory=True)
        connection = replace(self.cluster.flags(), namespace=namespace)
        ui = Collected()
        submit.submit(submit.Options(source, connection, self.cluster.user, follow=False), ui)
        assert ui.result
        started = find.tasks_of(ui.result.target)
        try:
            wait = Wait(_START_SECONDS, Until.RUNNING)
            pipeline.wait_for_all(self.session, started, wait, Terminal())
            reader = started[0].id
            pod = volume_pods.find_pod(
                self.session, scope, claim, folder, writes=writes, started=reader
            )
            if not pod:
                raise ClusterError(f"task {reader} ended before it was read")
            yield pod
        finally:
            stop.stop(self.session, started)

    def find_claim(self, volume: str) -> str:
        """Return the PVC of a volume by any name that tasks can use. Raises UnknownName."""
        from kubectl_sky.actions import identity, volumes

        user = identity.user(self.session, self.cluster.user)
        claim = volumes.claims(self.session, user).get(volume)
        if claim is None:
            raise UnknownName(
                f'volume or PVC "{volume}" not found', "run `kubectl sky volumes list`"
            )
        return claim.name
