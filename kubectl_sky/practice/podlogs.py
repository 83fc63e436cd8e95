"""What containers print: kept in a file each, and read as `kubectl logs` asks for it."""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from kubectl_sky.practice import problems
from kubectl_sky.practice.problems import Json

_STAMP = 31  # bytes of a timestamp and the space after it
_CHUNK = 1 << 16
_TAIL_BYTES, _TAIL_LINES = 2048, 80  # of a log as a termination message
_FLAGS = ("follow", "previous", "timestamps")
_LEAST = {"tailLines": 0, "sinceSeconds": 1, "limitBytes": 1}
_MOST = 1 << 28  # bytes of a log, which begins anew then, as the kubelet's do
_LONG = 1 << 20  # of a line without an end, which is written in parts then
_TRUE = ("true", "1", "True")


@dataclass(frozen=True)
class LogOptions:
    """What to show of a log. `since` is a time in nanoseconds since the epoch."""

    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    tail: int | None = None
    since: int | None = None
    limit: int | None = None

    @staticmethod
    def of(query: Mapping[str, str]) -> "LogOptions":
        """Read a query. Raises Problem."""
        try:
            numbers = {name: int(query[name]) for name in _LEAST if query.get(name)}
            moment = _nanoseconds(since) if (since := query.get("sinceTime")) else None
        except ValueError as error:
            raise problems.bad_request(str(error)) from None
        wrong = [name for name, number in numbers.items() if number < _LEAST[name]]
        if wrong:
            text = f"Invalid value: {numbers[wrong[0]]}: must be greater than"
            text += f"{' or equal to' * (not _LEAST[wrong[0]])} 0"
            cause = problems.Cause("FieldValueInvalid", wrong[0], text)
            raise problems.invalid("PodLogOptions", "", [cause])
        if "sinceSeconds" in numbers:
            moment = time.time_ns() - numbers["sinceSeconds"] * 10**9
        follow, previous, stamps = (query.get(name) in _TRUE for name in _FLAGS)
        sizes = (numbers.get("tailLines"), moment, numbers.get("limitBytes"))
        return LogOptions(follow, previous, stamps, *sizes)


def _nanoseconds(time_: str) -> int:
    """Read RFC 3339 to the last digit: a float, and datetime, would be off by some lines."""
    whole, fraction = re.sub(r"\.\d+", "", time_), re.search(r"\.(\d{1,9})", time_)
    seconds = int(datetime.fromisoformat(whole).timestamp())
    return seconds * 10**9 + (int(fraction[1].ljust(9, "0")) if fraction else 0)


def _stamp(nanoseconds: int) -> bytes:
    seconds, rest = divmod(nanoseconds, 10**9)
    moment = datetime.fromtimestamp(seconds, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{rest:09d}Z ".encode()


class Writer:
    """Writes the log of one container, whose lines may come in pieces and from two streams."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._file: BinaryIO = path.open("wb", buffering=0)
        self._begun = {1: b"", 2: b""}
        self._last = 0
        self.beginning = 0  # how often it has begun anew
        self._waiting: list[asyncio.Future[None]] = []
        self._parting = 0  # the stream whose last line is written but has no end yet

    def write(self, stream: int, data: bytes) -> None:
        """Take what a stream had; only whole lines are written at once."""
        *lines, self._begun[stream] = (self._begun[stream] + data).split(b"\n")
        if lines:
            self._put(stream, lines, b"\n")
        if len(self._begun[stream]) > _LONG:
            rest, self._begun[stream] = self._begun[stream], b""
            self._put(stream, [rest], b"")

    def close(self) -> None:
        """Write what has no end of line, and let the readers finish."""
        for stream, rest in self._begun.items():
            if rest:
                self._put(stream, [rest], b"")
        self._file.close()
        self._wake()

    @property
    def closed(self) -> bool:
        """Whether nothing more will come."""
        return self._file.closed

    async def more(self) -> None:
        """Wait until there is more to read, or no more to come."""
        future = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        await future

    def _put(self, stream: int, lines: list[bytes], end: bytes) -> None:
        first = b""
        if self._parting == stream:
            first = lines.pop(0) + (b"\n" if lines or end else b"")
        elif self._parting:
            first = b"\n"
        self._last = max(time.time_ns(), self._last + 1)
        if lines:
            prefix, nanoseconds = _stamp(self._last)[:20], self._last % 10**9
            if nanoseconds + len(lines) < 10**9:
                stamped = [
                    b"%b%09dZ %b" % (prefix, nanoseconds + i, x) for i, x in enumerate(lines)
                ]
            else:
                stamped = [_stamp(self._last + i) + line for i, line in enumerate(lines)]
            self._last += len(lines)
            first += b"\n".join(stamped) + end
        if self._file.tell() > _MOST:
            self._file.seek(0)
            self._file.truncate()
            self.beginning += 1
        self._parting = 0 if first.endswith(b"\n") else stream
        self._file.write(first)
        self._wake()

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)


@dataclass
class Logs:
    """All logs, by the pod's uid and the container's id."""

    folder: Path
    open: dict[str, Writer] = field(default_factory=dict)

    def path(self, uid: str, container_id: str) -> Path:
        """Return the file of a log."""
        return self.folder / uid / f"{container_id.rpartition('/')[2]}.log"

    def writer(self, uid: str, container_id: str) -> Writer:
        """Begin a log."""
        writer = Writer(self.path(uid, container_id))
        self.open[container_id] = writer
        return writer

    def close(self, container_id: str) -> None:
        """End a log."""
        self.open.pop(container_id).close()

    def read(self, pod: Json, container: str, options: LogOptions) -> AsyncIterator[bytes]:
        """Return what there is of a log, and what comes, in chunks. Raises Problem."""
        name = named(pod, container)
        if not pod["spec"].get("nodeName"):
            return _lines(None, None, options)
        container_id = _written(pod, name, previous=options.previous)
        path = self.path(pod["metadata"]["uid"], container_id)
        if not path.is_file():
            text = f"unable to retrieve container logs for {container_id}"
            return _lines(None, None, options, text.encode())
        return _lines(path, self.open.get(container_id), options)

    def end_of(self, uid: str, container_id: str) -> str:
        """Return the last lines, for a termination message."""
        with self.path(uid, container_id).open("rb") as file:
            _seek_tail(file, _TAIL_LINES)
            text = b"".join(line[_STAMP:] for line in file)
        return text[-_TAIL_BYTES:].decode(errors="replace")


def named(pod: Json, container: str) -> str:
    """Return the container that is meant. Raises Problem."""
    spec, name = pod["spec"], pod["metadata"]["name"]
    names = [one["name"] for one in spec["containers"]]
    first = [one["name"] for one in spec.get("initContainers") or ()]
    if container in (*names, *first):
        return container
    if container:
        raise problems.bad_request(f"container {container} is not valid for pod {name}")
    if len(names) == 1:
        return str(names[0])
    choice = f"choose one of: [{' '.join(names)}]"
    if first:
        choice += f" or one of the init containers: [{' '.join(first)}]"
    raise problems.bad_request(f"a container name must be specified for pod {name}, {choice}")


def _written(pod: Json, name: str, *, previous: bool) -> str:
    """Return the id of the container whose log is meant, as the kubelet finds it."""
    status = pod.get("status") or {}
    where = f'container "{name}" in pod "{pod["metadata"]["name"]}"'
    statuses = [*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())]
    found = next((one for one in statuses if one["name"] == name), None)
    if not found:
        raise problems.bad_request(f"{where} is not available")
    last = found["lastState"].get("terminated", {}).get("containerID", "")
    if previous and not last:
        raise problems.bad_request(f"previous terminated {where} not found")
    state = found["state"]
    if not previous and ("running" in state or state.get("terminated", {}).get("containerID")):
        return str(found["containerID"])
    if not last:
        reason = state.get("waiting", {}).get("reason")
        why = f"waiting to start: {reason}" if reason else "waiting to start - no logs yet"
        raise problems.bad_request(f"{where} is {why}")
    return str(last)


def _seek_tail(file: BinaryIO, lines: int) -> None:
    """Go to where the last lines begin."""
    end = position = file.seek(0, 2)
    missing = lines + 1
    while position and missing > 0 and lines:
        size = min(_CHUNK, position)
        position -= size
        file.seek(position)
        block = file.read(size)
        if position + size == end and not block.endswith(b"\n"):
            missing -= 1
        found = block.count(b"\n")
        if found >= missing:
            at = len(block)
            for _ in range(missing):
                at = block.rindex(b"\n", 0, at)
            position += at + 1
        missing -= found
    file.seek(position if lines else end)


async def _lines(
    path: Path | None, writer: Writer | None, options: LogOptions, instead: bytes = b""
) -> AsyncIterator[bytes]:
    if path is None:
        if instead:
            yield instead
        return
    left = options.limit if options.limit is not None else -1
    with path.open("rb", buffering=_CHUNK) as file:
        if options.tail is not None:
            _seek_tail(file, options.tail)
        selection = _Selection(file, options, writer)
        while left:
            data = selection.next()
            if data:
                data = data[:left] if left > 0 else data
                left = max(left - len(data), 0) if left > 0 else left
                yield data
                await asyncio.sleep(0)
            elif not (options.follow and writer):
                return
            elif writer.closed:
                options, writer = options, None  # once more: what was written last
            else:
                await writer.more()


class _Selection:
    """The lines of a file that are asked for, as they are asked for."""

    def __init__(self, file: BinaryIO, options: LogOptions, writer: Writer | None) -> None:
        self._file = file
        self._writer = writer
        self._beginning = writer.beginning if writer else 0
        self._cut = 0 if options.timestamps else _STAMP
        self._since = _stamp(options.since) if options.since is not None else b""
        self._fresh = True  # at the beginning of a line

    def next(self) -> bytes:
        """Return the next chunk; nothing at the end."""
        found, size = [], 0
        if self._writer and self._beginning != self._writer.beginning:
            self._beginning, self._fresh = self._writer.beginning, True
            self._file.seek(0, 2)  # else what is in the buffer would be read again
            self._file.seek(0)
        while size < _CHUNK:
            line = self._file.readline(_CHUNK)
            if not line:
                break
            shown = line
            if self._fresh:
                self._since = b"" if line >= self._since else self._since
                shown = line[self._cut :]
            self._fresh = line.endswith(b"\n")
            if not self._since:
                found.append(shown)
                size += len(line)
        return b"".join(found)
