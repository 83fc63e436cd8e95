"""Logs that nodes also wrote to a volume: list and print them in a pod that mounts it."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import PurePosixPath

from msgspec import Struct

from kubectl_sky.cluster import exec as executing
from kubectl_sky.cluster import objects
from kubectl_sky.cluster.exec import FirstBytes, Pipes, Program, Sink
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import ClusterError
from kubectl_sky.observe import nodes
from kubectl_sky.observe.logs import Origin
from kubectl_sky.observe.volumes import KeptLog
from kubectl_sky.tasks.find import Scope
from kubectl_sky.tasks.logs import LogRequest
from kubectl_sky.tasks.ui import UI
from kubectl_sky.words import age, kinds, names

_IDLE_SECONDS = 120.0
_MAX_LIST_BYTES = 16 << 20
_MAX_LINE_BYTES = 1 << 20  # of a line that is kept until its end arrives
_LIST_SCRIPT = """
cd "$1" 2> /dev/null || exit 0
find . -maxdepth 5 -name 'node-*.log' -exec stat -c '%s %Y %n' {} +
"""
_LISTED = re.compile(
    r"(?P<bytes>[0-9]{1,15}) (?P<time>[0-9]{1,11}) \./"
    r"(?P<path>(?:.+/)?(?P<task>[a-z][a-z0-9-]*-[a-z][a-z0-9]{7})/node-(?P<rank>[0-9]{1,6})\.log)"
)


class LogPod(Struct, frozen=True):
    """A running pod, and where it has a folder of a volume."""

    session: Session
    namespace: str
    pod: str
    folder: PurePosixPath

    def list_logs(self) -> list[KeptLog]:
        """Return the logs in the folder, and up to three folders below."""
        listed = FirstBytes(_MAX_LIST_BYTES)
        self._run(["sh", "-c", _LIST_SCRIPT, "sh", str(self.folder)], listed)

        lines = listed.data.decode(errors="replace").splitlines()
        logs = [
            KeptLog(
                task=match["task"],
                rank=int(match["rank"]),
                bytes=int(match["bytes"]),
                updated_at=age.timestamp(datetime.fromtimestamp(int(match["time"]), UTC)),
                path=match["path"],
            )
            for match in map(_LISTED.fullmatch, lines)
            if match
        ]
        return sorted(logs, key=lambda log: (log.task, log.rank))

    def show(self, logs: Sequence[KeptLog], request: LogRequest, ui: UI) -> bool:
        """Write the logs of a task node by node; return whether there are any of these ranks."""
        chosen = [log for log in logs if log.rank in (request.ranks or [log.rank])]
        tail = request.options.tail
        last = f"-n{tail}" if tail is not None and tail >= 0 else "-n+1"
        for log in chosen:
            node = f"node-{log.rank}"
            rest = b""
            prefix = node if len(logs) > 1 else ""
            task_id = log.task.rpartition("-")[2]
            origin = Origin(task_id, log.rank, node, f"{log.task}-{node}", prefix)

            def write(data: bytes, origin: Origin = origin) -> None:
                nonlocal rest
                *lines, rest = (rest + data).split(b"\n")
                if len(rest) > _MAX_LINE_BYTES:
                    lines = [*lines, rest]
                    rest = b""
                if lines:
                    ui.logs([(origin, line) for line in lines], True)

            self._run(["tail", last, str(self.folder / log.path)], write)
            if rest:
                ui.logs([(origin, rest)], False)
        return bool(chosen)

    def _run(self, command: list[str], stdout: Sink) -> None:
        stderr = FirstBytes()
        program = Program(self.namespace, self.pod, names.CONTAINER, command)
        pipes = Pipes(stdout=stdout, stderr=stderr, idle=_IDLE_SECONDS)
        if executing.run(self.session, program, pipes):
            raise ClusterError(f"cannot read logs in pod {self.pod}: {stderr.line}")


def find_pod(session: Session, scope: Scope, claim: str, folder: str) -> LogPod | None:
    """Return a running pod of a task in the scope that mounts this folder of a PVC."""
    pods = objects.list_all(session, kinds.POD, scope.namespace, label_selector=scope.selector)
    for pod in scope.filter_owned(pods):
        is_running = nodes.container(pod).state.running
        if not is_running or pod.metadata.deletion_timestamp:
            continue

        volumes = {volume.name for volume in pod.spec.volumes if volume.claim == claim}
        (main,) = (item for item in pod.spec.containers if item.name == names.CONTAINER)
        for mount in main.volume_mounts:
            above = PurePosixPath(mount.sub_path)
            if mount.name in volumes and PurePosixPath(folder).is_relative_to(above):
                path = mount.mount_path / PurePosixPath(folder).relative_to(above)
                metadata = pod.metadata
                return LogPod(session, metadata.namespace, metadata.name, path)
    return None
