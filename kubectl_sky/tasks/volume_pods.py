"""Running pods that mount a folder of a volume: what is in it, and copies to and from it."""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import PurePosixPath

from msgspec import Struct

from kubectl_sky.cluster import exec as executing
from kubectl_sky.cluster.exec import FirstBytes, Pipes, Program, Sink
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import ClusterError, Unreachable, UserError
from kubectl_sky.observe.mounts import BucketMount
from kubectl_sky.observe.nodes import NodeStatus, State
from kubectl_sky.observe.reasons import TERMINATING
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.observe.volumes import VolumeFile, VolumeUsage
from kubectl_sky.tasks import find
from kubectl_sky.tasks.find import Scope
from kubectl_sky.words import age, names

Note = Callable[[str], None]

READER_TASK = "volume-reader"  # the task of a pod that is started for a volume
_IDLE_SECONDS = 120.0
_USAGE_SECONDS = 3600.0  # without a byte: du prints a folder when it has read all of it
_MAX_LIST_BYTES = 16 << 20
_NOT_FOUND = 99
_LIST_SCRIPT = f"""
[ -e "$1" ] || exit {_NOT_FOUND}
if [ -d "$1" ]; then cd "$1" && find . -mindepth 1 -maxdepth 1 -exec stat -c '%F|%s|%Y|%n' {{}} +
else cd "${{1%/*}}" && stat -c '%F|%s|%Y|%n' "${{1##*/}}"; fi
"""
_LISTED = re.compile(r"(?P<kind>[^|]*)\|(?P<size>[0-9]{1,18})\|(?P<time>[0-9]{1,11})\|(?P<name>.+)")
_USAGE_SCRIPT = (
    f'[ -e "$1" ] || exit {_NOT_FOUND}\ncd "$1" 2> /dev/null && exec du -k -d 1 .\ndu -k "$1"'
)
# Downloads a path of a bucket. A connection without a byte is taken for lost, so it prints some.
# It first ends the program of a lost connection, and stops before the kubelet evicts pods.
_DOWNLOAD_SCRIPT = """
program=$1 source=$2 target=$3
command -v "$program" > /dev/null || { echo "the image has no $program" >&2; exit 1; }
mkdir -p "${target%/*}"
[ ! -e "$target.pid" ] || kill -9 "$(cat "$target.pid")" 2> /dev/null
"$program" --config "" copyto --links --contimeout 15s --timeout 1m --low-level-retries 1 \\
  --retries-sleep 2s "$source" "$target" 2> "$target.log" &
echo "$!" > "$target.pid"
while kill -0 "$!" 2> /dev/null; do
  if df -P -k "${target%/*}" | awk 'NR == 2 { low = $4 < 0.15 * $2 } END { exit !low }'; then
    kill "$!"
    echo "the disk of the cluster node is almost full" >&2
    exit 1
  fi
  sleep 1
  echo
done
wait "$!" && [ -e "$target" ] && exit
tail -n 1 "$target.log" >&2
exit 1
"""
_USED = re.compile(r"(?P<kib>[0-9]{1,15})\s+(?P<name>.+)")


class VolumePod(Struct, frozen=True):
    """A running pod, and where it has a folder of a volume."""

    session: Session
    namespace: str
    pod: str
    folder: PurePosixPath

    def program(self, command: list[str]) -> Program:
        return Program(self.namespace, self.pod, names.CONTAINER, command)

    def path(self, path: str) -> str:
        """Return where the pod has a path of the volume. Raises UserError for `..`."""
        if ".." in PurePosixPath(path).parts:
            raise UserError(f'{path}: a path on a volume cannot have ".."')
        slash = "/" if path.endswith("/") else ""  # says that it is a folder
        return str(self.folder / path.lstrip("/")) + slash

    def list_files(self, path: str, note: Note) -> list[VolumeFile]:
        """Return what is in a folder, or the file, by name; note what cannot be read.

        Raises UserError.
        """
        lines = self._read(_LIST_SCRIPT, path, note)
        files = [
            VolumeFile(
                name=match["name"].removeprefix("./"),
                kind=match["kind"],
                bytes=int(match["size"]),
                updated_at=age.timestamp(datetime.fromtimestamp(int(match["time"]), UTC)),
            )
            for match in map(_LISTED.fullmatch, lines)
            if match
        ]
        return sorted(files, key=lambda file: file.name)

    def measure(self, path: str, note: Note) -> list[VolumeUsage]:
        """Return the bytes on disk of a folder, and of each folder in it; note what is left out.

        Raises UserError.
        """
        lines = self._read(_USAGE_SCRIPT, path, note, _USAGE_SECONDS)
        used = [
            VolumeUsage(name=match["name"].removeprefix("./"), bytes=int(match["kib"]) * 1024)
            for match in map(_USED.fullmatch, lines)
            if match
        ]
        return sorted(used, key=lambda usage: usage.bytes, reverse=True)

    def _read(self, script: str, path: str, note: Note, idle: float = _IDLE_SECONDS) -> list[str]:
        out = FirstBytes(_MAX_LIST_BYTES)
        stderr = FirstBytes()
        code = self.run(["sh", "-c", script, "sh", self.path(path)], out, stderr, idle)
        if code == _NOT_FOUND:
            raise UserError(f"{path or '/'}: no such file or folder on the volume")
        reason = stderr.line or f"exit code {code}"
        if code and not out.data:
            raise ClusterError(f"cannot read {path or '/'} in pod {self.pod}: {reason}")
        if code:
            note(f"warning: cannot read all of {path or '/'}: {reason}")
        return out.data.decode(errors="replace").splitlines()

    def download(self, bucket: BucketMount, path: str, note: Note) -> None:
        """Download a path of a bucket to the same path of the pod's folder. Raises UserError."""
        variables = bucket.variables
        location = str(PurePosixPath(variables.get("KUBECTL_SKY_LOCATION", ""), path))
        program = variables.get("KUBECTL_SKY_PROGRAM", "")
        words = [program, f"SRC:{location}", self.path(path)]
        command = ["sh", "-c", _DOWNLOAD_SCRIPT, "sh", *words]
        url = bucket.url_of(path)
        note(f"downloading {url} to the disk of the pod")

        stderr = FirstBytes()
        retries = self.session.retries()
        while True:
            try:
                code = self.run(command, len, stderr)
                break
            except Unreachable as error:  # files that are complete are not downloaded again
                self.session.wait_or_raise(retries, error)
        if code:
            reason = stderr.line or f"exit code {code}"
            raise UserError(f"{url} cannot be read: {reason}", bucket.copy_hint(path))

    def run(
        self, command: list[str], stdout: Sink, stderr: Sink, idle: float = _IDLE_SECONDS
    ) -> int:
        pipes = Pipes(stdout=stdout, stderr=stderr, idle=idle)
        return executing.run(self.session, self.program(command), pipes)


def find_pod(
    session: Session, scope: Scope, claim: str, folder: str = "", *, writes: bool = False
) -> VolumePod | None:
    """Return a running pod of a task in the scope that mounts this folder of a PVC.

    None is a reader: those of other clients end at any time.
    """
    for task in find.list_tasks(session, scope):
        if task.name == READER_TASK:
            continue
        node = _running_node(task)
        for mount in task.requested.mounts if node else ():
            below = PurePosixPath(folder)
            is_mounted = mount.pvc == claim and below.is_relative_to(mount.folder)
            is_usable = mount.path.startswith("/") and not (writes and mount.read_only)
            if node and is_mounted and is_usable:
                path = mount.path / below.relative_to(mount.folder)
                return VolumePod(session, task.namespace, node.pod, path)
    return None


def pod_of_reader(session: Session, reader: TaskStatus, folder: str) -> VolumePod:
    """Return the pod of a reader that has a volume in this folder. Raises ClusterError."""
    node = _running_node(reader)
    if not node:
        raise ClusterError(f"task {reader.id} ended before it was read")
    return VolumePod(session, reader.namespace, node.pod, PurePosixPath(folder))


def _running_node(task: TaskStatus) -> NodeStatus | None:
    running = (
        node
        for node in task.nodes
        if node.state is State.RUNNING and node.pod and node.reason != TERMINATING
    )
    return None if task.deletion.since else next(running, None)
