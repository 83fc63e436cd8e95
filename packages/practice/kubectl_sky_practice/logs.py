"""Logs of containers: written to one file each, and read as `kubectl logs` asks for them."""

import asyncio
import re
import time
from collections import deque
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from kubectl_sky_practice import problems
from kubectl_sky_practice.problems import Json

_TIMESTAMP_SIZE = 31  # bytes, with the space after it
_CHUNK = 1 << 16
_MESSAGE_BYTES = 2048
_MESSAGE_LINES = 80  # of a log as a termination message
_FLAGS = ("follow", "previous", "timestamps")
_NUMBERS = ("tailLines", "sinceSeconds", "limitBytes")
_MAX_LINE_BYTES = 1 << 20  # longer lines are split
_TRUE = ("true", "1", "True")


@dataclass(frozen=True)
class LogOptions:
    """What to show of a log. `since` is in nanoseconds since the epoch."""

    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    tail: int | None = None
    since: int | None = None
    limit: int | None = None

    @staticmethod
    def parse(query: Mapping[str, str]) -> "LogOptions":
        """Read a query. Raises Problem."""
        try:
            numbers = {name: int(query[name]) for name in _NUMBERS if query.get(name)}
            since = _nanoseconds(text) if (text := query.get("sinceTime")) else None
        except ValueError as error:
            raise problems.bad_request(str(error)) from None
        if "sinceSeconds" in numbers:
            since = time.time_ns() - numbers["sinceSeconds"] * 10**9
        follow, previous, timestamps = (query.get(name) in _TRUE for name in _FLAGS)
        tail = numbers.get("tailLines")
        limit = numbers.get("limitBytes")
        return LogOptions(follow, previous, timestamps, tail, since, limit)


def _nanoseconds(timestamp: str) -> int:
    """Read RFC 3339 to the last digit, which neither a float nor datetime does."""
    whole = re.sub(r"\.\d+", "", timestamp)
    fraction = re.search(r"\.(\d{1,9})", timestamp)
    seconds = int(datetime.fromisoformat(whole).timestamp())
    return seconds * 10**9 + (int(fraction[1].ljust(9, "0")) if fraction else 0)


def _timestamp(nanoseconds: int) -> bytes:
    seconds, rest = divmod(nanoseconds, 10**9)
    moment = datetime.fromtimestamp(seconds, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{rest:09d}Z ".encode()


class Writer:
    """Writes the log of one container: whole lines of two streams, each with a timestamp."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._file: BinaryIO = path.open("wb", buffering=0)
        self._incomplete = {1: b"", 2: b""}
        self._last_timestamp = 0
        self._waiting: list[asyncio.Future[None]] = []

    def write(self, stream: int, data: bytes) -> None:
        *lines, rest = (self._incomplete[stream] + data).split(b"\n")
        if len(rest) > _MAX_LINE_BYTES:
            lines.append(rest)
            rest = b""
        self._incomplete[stream] = rest
        if lines:
            self._put(b"\n".join([*self._stamped(lines), b""]))

    def close(self) -> None:
        if rests := [rest for rest in self._incomplete.values() if rest]:
            self._put(b"\n".join(self._stamped(rests)))
        self._file.close()
        self._wake()

    @property
    def closed(self) -> bool:
        return self._file.closed

    async def changed(self) -> None:
        future = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        await future

    def _stamped(self, lines: list[bytes]) -> list[bytes]:
        """Put a unique timestamp before each line, so that readers can resume after any line."""
        first = max(time.time_ns(), self._last_timestamp + 1)
        self._last_timestamp = first + len(lines)
        return [_timestamp(first + i) + line for i, line in enumerate(lines)]

    def _put(self, data: bytes) -> None:
        self._file.write(data)
        self._wake()

    def _wake(self) -> None:
        waiting = self._waiting
        self._waiting = []
        for future in waiting:
            if not future.done():
                future.set_result(None)


class Logs:
    """The logs of a node, by the pod's uid and the container's id."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._open: dict[str, Writer] = {}

    def path(self, uid: str, container_id: str) -> Path:
        return self.folder / uid / f"{container_id.rpartition('/')[2]}.log"

    def writer(self, uid: str, container_id: str) -> Writer:
        writer = self._open[container_id] = Writer(self.path(uid, container_id))
        return writer

    def close(self, container_id: str) -> None:
        self._open.pop(container_id).close()

    def read(self, pod: Json, container: str, options: LogOptions) -> AsyncIterator[bytes]:
        """Return a log in chunks. Raises Problem."""
        name = container_name(pod, container)
        if not pod["spec"].get("nodeName"):
            return _text(b"")
        container_id = _container_id(pod, name, previous=options.previous)
        path = self.path(pod["metadata"]["uid"], container_id)
        if not path.is_file():
            return _text(f"unable to retrieve container logs for {container_id}".encode())
        return _chunks(path, self._open.get(container_id), options)

    def termination_message(self, uid: str, container_id: str) -> str:
        with self.path(uid, container_id).open("rb") as file:
            _seek_tail(file, _MESSAGE_LINES)
            text = b"".join(line[_TIMESTAMP_SIZE:] for line in file)
        return text[-_MESSAGE_BYTES:].decode(errors="replace")


def container_name(pod: Json, name: str) -> str:
    """Return the name of a container of a pod; by default of the only one. Raises Problem."""
    spec = pod["spec"]
    pod_name = pod["metadata"]["name"]
    names = [container["name"] for container in spec["containers"]]
    init_names = [container["name"] for container in spec.get("initContainers") or ()]
    if name in (*names, *init_names):
        return name
    if name:
        raise problems.bad_request(f"container {name} is not valid for pod {pod_name}")
    if len(names) == 1:
        return str(names[0])
    choice = f"choose one of: [{' '.join(names)}]"
    if init_names:
        choice += f" or one of the init containers: [{' '.join(init_names)}]"
    raise problems.bad_request(f"a container name must be specified for pod {pod_name}, {choice}")


def _container_id(pod: Json, name: str, *, previous: bool) -> str:
    """Return the id of the container whose log is shown, as the kubelet chooses it."""
    status = pod.get("status") or {}
    about = f'container "{name}" in pod "{pod["metadata"]["name"]}"'
    statuses = [*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())]
    match = next((status for status in statuses if status["name"] == name), None)
    if not match:
        raise problems.bad_request(f"{about} is not available")

    last = match["lastState"].get("terminated", {}).get("containerID", "")
    if previous and not last:
        raise problems.bad_request(f"previous terminated {about} not found")

    state = match["state"]
    if not previous and ("running" in state or state.get("terminated", {}).get("containerID")):
        return str(match["containerID"])

    if not last:
        reason = state.get("waiting", {}).get("reason")
        why = f"waiting to start: {reason}" if reason else "waiting to start - no logs yet"
        raise problems.bad_request(f"{about} is {why}")
    return str(last)


def _seek_tail(file: BinaryIO, lines: int) -> None:
    starts: deque[int] = deque(maxlen=lines)
    end = 0
    for line in file:
        starts.append(end)
        end += len(line)
    file.seek(starts[0] if starts else end)


async def _text(text: bytes) -> AsyncIterator[bytes]:
    yield text


async def _chunks(path: Path, writer: Writer | None, options: LogOptions) -> AsyncIterator[bytes]:
    with path.open("rb", buffering=_CHUNK) as file:
        if options.tail is not None:
            _seek_tail(file, options.tail)
        reader = _Reader(file, options)
        limit = options.limit

        while limit is None or limit > 0:
            complete = not writer or writer.closed
            if data := reader.next()[:limit]:
                limit = None if limit is None else limit - len(data)
                yield data
                await asyncio.sleep(0)
            elif complete or not options.follow or not writer:
                return
            else:
                await writer.changed()


class _Reader:
    def __init__(self, file: BinaryIO, options: LogOptions) -> None:
        self._file = file
        self._hidden = 0 if options.timestamps else _TIMESTAMP_SIZE
        self._since = _timestamp(options.since) if options.since is not None else b""
        self._starts_line = True  # whether the next line is a whole one

    def next(self) -> bytes:
        """Return the next chunk; nothing at the end of the file."""
        data = bytearray()
        while len(data) < _CHUNK and (line := self._file.readline(_CHUNK)):
            if self._starts_line and line >= self._since:
                self._since = b""
            if not self._since:
                data += line[self._hidden :] if self._starts_line else line
            self._starts_line = line.endswith(b"\n")
        return bytes(data)
