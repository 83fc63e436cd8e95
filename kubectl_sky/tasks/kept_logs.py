"""Logs that nodes also wrote to a volume: list and print them in a pod that mounts it."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime

from kubectl_sky.cluster.exec import FirstBytes, Sink
from kubectl_sky.errors import ClusterError
from kubectl_sky.observe.logs import Origin
from kubectl_sky.observe.volumes import KeptLog
from kubectl_sky.tasks.logs import LogRequest
from kubectl_sky.tasks.ui import UI
from kubectl_sky.tasks.volume_pods import VolumePod
from kubectl_sky.words import age

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


def list_logs(pod: VolumePod) -> list[KeptLog]:
    """Return the logs in the folder of a pod, and up to three folders below."""
    listed = FirstBytes(_MAX_LIST_BYTES)
    _run(pod, ["sh", "-c", _LIST_SCRIPT, "sh", str(pod.folder)], listed)

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


def show(pod: VolumePod, logs: Sequence[KeptLog], request: LogRequest, ui: UI) -> bool:
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

        _run(pod, ["tail", last, str(pod.folder / log.path)], write)
        if rest:
            ui.logs([(origin, rest)], False)
    return bool(chosen)


def _run(pod: VolumePod, command: list[str], stdout: Sink) -> None:
    stderr = FirstBytes()
    if pod.run(command, stdout, stderr):
        raise ClusterError(f"cannot read logs in pod {pod.pod}: {stderr.line}")
