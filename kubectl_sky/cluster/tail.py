"""Read one container's log to its end, across reconnects, each line exactly once."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from random import SystemRandom
from threading import Event
from time import monotonic

from msgspec import Struct

from kubectl_sky.cluster import kubelets, objects
from kubectl_sky.cluster.backoff import Backoff
from kubectl_sky.cluster.loglines import (
    MAX_LINE_BYTES,
    LineSplitter,
    ResumePosition,
    sort_keys,
    split_messages,
    timestamp_of,
    without_timestamps,
)
from kubectl_sky.cluster.session import Session
from kubectl_sky.cluster.transport import Stream
from kubectl_sky.errors import (
    ClusterError,
    KubeletUnreachable,
    NoEarlierLog,
    NotFound,
    Unreachable,
    UserError,
)
from kubectl_sky.words import kinds, names
from kubectl_sky.words.pod_objects import ContainerState, Pod

# The kubelet's answer for a container that has not started or not restarted yet.
_NOT_STARTED = re.compile(
    r'container "[^"]*" in pod "[^"]*" (is waiting to start.*|is not available|is terminated)'
)
_MAX_ERROR_BYTES = 1000  # bytes shown of an error that the kubelet returns instead of a log
_MAX_SINCE_SECONDS = 100 * 365 * 86_400  # nanoseconds of an API server have 64 bits
_CHUNK_BYTES = 65536
_KEPT_BYTES = 10 << 20  # of a log; the default of kubelets, which then begin a new file
_LONG_BYTES = 128 << 10  # of the part that is left: no shorter log is asked about
_POLL_INTERVAL = 0.5  # seconds between two checks of a container that has not started
_SETTLE_SECONDS = 0.5  # seconds: the status may say terminated before the last lines are written
_LAST_TRIES_SECONDS = 10.0  # seconds that a silent kubelet has, when nothing is followed any more
_SILENCE_SECONDS = 150.0  # seconds without data before reconnecting: the connection may be dead


@dataclass(frozen=True)
class LogSource:
    """A container whose log is read; `rank` and `title` are the task's node, for the output.

    `terminated` is set by a watch when the container has terminated for good. Without a watch, the
    pod is requested instead. The log of an earlier pod is a previous one as it is.
    """

    namespace: str
    pod: str
    container: str
    rank: int = 0
    terminated: Event | None = field(default=None, compare=False)
    is_earlier_pod: bool = False
    title: str = field(default="", compare=False)

    @cached_property
    def stream(self) -> str:
        return names.log_stream(self.pod, self.container)

    @property
    def name(self) -> str:
        return self.title or f"pod {self.pod}"

    @property
    def writer(self) -> str:
        """What writes the log: the pod, if it is the task's container."""
        pod = f"pod {self.pod}"
        is_own = self.container in ("", names.CONTAINER)
        return pod if is_own else f"container {self.container} of {pod}"


class LogOptions(Struct, frozen=True):
    """Which lines to read: the same as the `kubectl logs` flags of these names.

    `positions` has the positions, by stream, of logs that were read before. Raises UserError.
    """

    follow: bool = False
    tail: int | None = None
    since_seconds: int | None = None
    since_time: str = ""  # RFC 3339
    timestamps: bool = False
    previous: bool = False
    positions: Mapping[str, str] = {}

    def __post_init__(self) -> None:
        if (self.since_seconds or 0) > _MAX_SINCE_SECONDS:
            raise UserError("since: longer than 100 years", "leave it out to read all lines")

    @property
    def is_partial(self) -> bool:
        """Whether a log may be read from within a second on."""
        return self.tail is not None or self.since_seconds is not None or bool(self.since_time)


class Batch(Struct, frozen=True):
    """Lines that arrived together, without newlines, and their times; or only a note for the user.

    `final_newline` is False if the last line ends the log without a newline. If `is_live`, all
    lines that existed when reading began were read.
    """

    source: LogSource
    lines: list[bytes]
    times: list[bytes] = []
    final_newline: bool = True
    note: str = ""
    is_live: bool = False


class Tail:
    """Read one log. Any thread may set `stop` or call `close`.

    If its cluster node does not respond, a followed log is requested again until `is_over`, or
    until the pod is deleted.
    """

    def __init__(
        self,
        session: Session,
        source: LogSource,
        options: LogOptions,
        stop: Event | None = None,
        is_over: Callable[[], bool] = lambda: False,
    ) -> None:
        self._session = session
        self._source = source
        self._options = options
        self._stop = stop or Event()
        self._backoff = Backoff(self._stop)
        self._is_over = is_over
        self._kubelet_backoff = Backoff(self._stop, _LAST_TRIES_SECONDS)
        self._is_kubelet_silent = False

        position = options.positions.get(source.stream)
        self._position = (
            ResumePosition.decode(position)
            if position
            else ResumePosition(partial=options.is_partial)
        )

        self._splitter = LineSplitter()
        self._rest = b""  # the last line so far, if the log had no newline after it
        self._stream: Stream | None = None
        self._last_note = ""
        self._opened_at = 0.0
        self._first = b""
        self._bytes = 0  # the time of the first line, and the size of all

    def close(self) -> None:
        self._stop.set()
        if self._stream:
            self._stream.close()

    def batches(self) -> Iterator[Batch]:
        """Yield the log; when following, until the container has terminated for good.

        Existing lines are read before following, because the kubelet sends single lines to
        followers, which costs both sides much more. Raises ClusterError.
        """
        try:
            if self._options.follow:
                yield from self._read_existing()
                yield from self._note_lost_beginning()
                yield Batch(self._source, [], is_live=True)
            yield from self._read_to_end()
            if not self._options.follow:
                yield from self._note_lost_beginning()
        except NoEarlierLog:
            raise
        except NotFound:
            yield from self._note(f"pod {self._source.pod} was deleted")
        except KubeletUnreachable as error:
            yield from self._remainder()
            yield from self._note(f"{self._describe(error)}; its log is incomplete")
            raise
        yield from self._remainder()

    def _read_existing(self) -> Iterator[Batch]:
        while self._options.tail != 0 and not self._stop.is_set():
            try:
                yield from self._read(follow=False, last=False)
                return
            except (Unreachable, KubeletUnreachable) as error:
                yield from self._wait_or_raise(error)

    def _read_to_end(self) -> Iterator[Batch]:
        """Yield the log, again after each lost connection.

        The end of a response counts only if the container has terminated and its last line was
        read, checked again a moment later: load balancers cut long responses, and containerd
        reports the end of a container while it still writes its log.
        """
        last = not self._options.follow
        while not self._stop.is_set():
            try:
                previous = self._position.last
                yield from self._read(follow=not last, last=last)
                if last and (self._position.last == previous or not self._options.follow):
                    return
                # A watch reports the end within moments; without its report the pod is requested.
                reported = self._source.terminated
                is_reported = reported and not self._stop.is_set() and reported.wait(_POLL_INTERVAL)
                last = is_reported or has_terminated(self._pod(), self._source.container)
                if last and not self._stop.wait(_SETTLE_SECONDS) and self._is_last_line_read():
                    return
                if not last:
                    self._stop.wait(_POLL_INTERVAL)
            except (Unreachable, KubeletUnreachable) as error:
                yield from self._wait_or_raise(error)

    def _wait_or_raise(self, error: Unreachable | KubeletUnreachable) -> Iterator[Batch]:
        """Wait before the next request; note once that the cluster node does not respond.

        Raises the error after the timeout, and NotFound if the pod was deleted.
        """
        if isinstance(error, Unreachable):
            self._backoff.wait_or_raise(error)
            return

        self._backoff.reset()  # the API server has answered
        named = kubelets.name_node(self._session, self._source.namespace, self._source.pod, error)
        if self._is_over() or not self._options.follow:
            self._kubelet_backoff.wait_or_raise(named)
            return
        if not self._is_kubelet_silent:
            self._is_kubelet_silent = True
            text = f"{self._describe(named)}; its log continues when it can be read"
            yield Batch(self._source, [], note=text)
            yield Batch(self._source, [], is_live=True)  # other logs do not wait for its lines
        self._kubelet_backoff.pause()

    def _describe(self, error: KubeletUnreachable) -> str:
        node = f"its cluster node {error.node}".rstrip()
        return f"{self._source.name}: {node} {error.problem}"

    def _read(self, *, follow: bool, last: bool) -> Iterator[Batch]:
        """Request the log once and yield new lines; if `last`, also why there are none."""
        self._rest = self._splitter.remainder() or self._rest
        self._splitter = LineSplitter()
        self._position.resume()
        source = self._source
        path = objects.path(kinds.POD, source.namespace, source.pod, "log")
        try:
            # With jitter, so that many quiet logs reconnect in turn.
            silence = _SILENCE_SECONDS * SystemRandom().uniform(0.8, 1.2)
            stream = self._session.stream(path, self._query(follow=follow), silence)
        except (Unreachable, KubeletUnreachable, NoEarlierLog):
            raise
        except NotFound:
            self._pod()  # if the pod exists, its kubelet does not know it yet
            yield from self._note_not_started("is not known to the kubelet yet", last=last)
            return
        except ClusterError as error:
            not_started = _NOT_STARTED.search(error.what)
            if not not_started:
                raise type(error)(f"logs of pod {source.pod}: {error.what}", error.hint) from None
            yield from self._note_not_started(not_started[1], last=last)
            return
        with stream as self._stream:
            self._backoff.opened()
            self._kubelet_backoff.reset()
            self._is_kubelet_silent = False
            self._opened_at = self._opened_at or monotonic()
            if self._stop.is_set():  # `close` came before the stream
                return
            for chunk in stream if follow else _join_chunks(stream):
                if self._stop.is_set():
                    return
                yield from self._read_chunk(chunk)

    def _read_chunk(self, chunk: bytes) -> Iterator[Batch]:
        lines, notes = split_messages(self._splitter.feed(chunk))
        yield from self._new_batch(lines)
        if self._splitter.truncated:
            yield from self._note(
                f"{self._source.writer} wrote a line longer than {MAX_LINE_BYTES >> 20} MiB;"
                " only its beginning is shown"
            )
        for note in notes:
            yield from self._unavailable(note)

    def _new_batch(self, lines: list[bytes]) -> Iterator[Batch]:
        lines = self._position.new_lines(lines)
        if self._position.rotated:
            self._position.rotated = False
            if not self._has_restarted():
                yield from self._note(
                    f"the log of {self._source.writer} was rotated while the connection was lost;"
                    " lines may be missing"
                )
            elif timestamp_of(self._rest):
                yield self._batch([self._rest])

        if lines:
            self._first = self._first or timestamp_of(lines[0])
            self._bytes += sum(map(len, lines))
            self._rest = b""
            self._position.advance(lines)
            self._backoff.reset()
            yield self._batch(lines)

    def _query(self, *, follow: bool, tail: int | None = None) -> dict[str, str]:
        """Query the lines the user wants, or those since the connection was lost."""
        options = self._options
        query = {"timestamps": "true", "follow": str(follow).lower()}
        if self._source.container:
            query["container"] = self._source.container
        if options.previous and not self._source.is_earlier_pod:
            query["previous"] = "true"
        if tail is not None:
            return query | {"tailLines": str(tail)}
        if self._position.since:
            return query | {"sinceTime": self._position.since}
        # A retry before the first line: `sinceSeconds` uses the node's clock, which has moved on.
        passed = int(monotonic() - self._opened_at) + 1 if self._opened_at else 0
        if options.follow and options.tail == 0 and passed:
            return query | {"sinceSeconds": str(passed)}
        if options.tail is not None and options.tail >= 0:
            query["tailLines"] = str(options.tail)
        if options.since_seconds:
            query["sinceSeconds"] = str(options.since_seconds + passed)
        since = {"sinceTime": options.since_time} if options.since_time else {}
        return query | since

    def _note_not_started(self, why: str, *, last: bool) -> Iterator[Batch]:
        """Note that a container has not started; when following, wait for it instead."""
        if last:
            source = self._source
            yield from self._note(f'container "{source.container}" in pod "{source.pod}" {why}')

    def _unavailable(self, line: bytes) -> Iterator[Batch]:
        why = line[:_MAX_ERROR_BYTES].decode(errors="replace")
        writer = self._source.writer
        yield from self._note(f"the log of {writer} is no longer available: {why}")

    def _note_lost_beginning(self) -> Iterator[Batch]:
        """Note that the beginning is gone, if the log begins too late for its size.

        A program that wrote at this rate from its start on has filled a file of the kubelet.
        """
        options = self._options
        if options.is_partial or options.previous or options.positions or self._bytes < _LONG_BYTES:
            return
        with suppress(NotFound, ValueError, TypeError):  # invalid times are no times
            started = _started_at(self._pod(), self._source.container)
            first, last = map(_time, (self._first, self._position.last))
            late = (first - started).total_seconds() if started else 0.0
            if late * self._bytes > _KEPT_BYTES * max((last - first).total_seconds(), 1.0):
                yield from self._note(
                    f"the log of {self._source.writer} begins at {first:%H:%M:%S} UTC,"
                    f" {late:.0f} s after the start: its cluster node keeps about 10 MiB"
                )

    def _note(self, text: str) -> Iterator[Batch]:
        if text != self._last_note:  # do not repeat the same note after a retry
            self._last_note = text
            yield Batch(self._source, [], note=text)

    def _remainder(self) -> Iterator[Batch]:
        """Yield the end of a log that does not end with a newline."""
        remaining, notes = split_messages([self._splitter.remainder()])
        for note in filter(None, notes):
            yield from self._unavailable(note)
        remaining = self._position.new_lines(remaining)
        if remaining and not self._stop.is_set():
            yield self._batch(remaining, final_newline=False)

    def _is_last_line_read(self) -> bool:
        """Compare the last line of a complete log with the last line read."""
        query = self._query(follow=False, tail=1)
        path = objects.path(kinds.POD, self._source.namespace, self._source.pod, "log")

        try:
            with self._session.stream(path, query, _SILENCE_SECONDS) as stream:
                text = b""
                for chunk in stream:
                    text = (text + chunk)[:MAX_LINE_BYTES]
                    if len(text) == MAX_LINE_BYTES:
                        break
        except (NotFound, Unreachable, KubeletUnreachable):
            raise
        except ClusterError:
            return False  # the next full read reports the reason

        rest = self._splitter.remainder()
        return text == rest if rest else timestamp_of(text) == self._position.last

    def _batch(self, lines: list[bytes], *, final_newline: bool = True) -> Batch:
        shown = lines if self._options.timestamps else without_timestamps(lines)
        return Batch(self._source, shown, sort_keys(lines), final_newline)

    def _has_restarted(self) -> bool:
        """Check whether the container restarted after the last line; False for a deleted pod."""
        with suppress(NotFound):
            return started_since(self._pod(), self._source.container, self._position.last)
        return False

    def _pod(self) -> Pod:
        source = self._source
        return objects.get(self._session, kinds.POD, source.pod, source.namespace)


def _join_chunks(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Join the small chunks of a server: a batch of 40 lines costs as much as one of 700."""
    part = bytearray()
    try:
        for chunk in chunks:
            part += chunk
            if len(part) >= _CHUNK_BYTES:
                yield bytes(part)
                part.clear()
    except ClusterError:
        yield bytes(part)  # before the connection was lost
        raise
    yield bytes(part)


def has_terminated(pod: Pod, container: str) -> bool:
    """Check whether a container of a pod has terminated and will not restart."""
    if pod.status.has_ended:
        return True
    terminated = _state(pod, container).terminated
    if not terminated:
        return False
    policy = _restart_policy(pod, container)
    done = policy == "Never" or (policy == "OnFailure" and terminated.exit_code == 0)
    return done or bool(pod.metadata.deletion_timestamp)


def _restart_policy(pod: Pod, container: str) -> str:
    """Return whether a container restarts; an init container does not after it has succeeded."""
    policy = pod.spec.restart_policy
    for init in pod.spec.init_containers:
        if init.name == container:
            return init.restart_policy or policy.replace("Always", "OnFailure")
    return policy


def started_since(pod: Pod, container: str, timestamp: bytes) -> bool:
    """Check whether a container restarted after a line was written, to the second."""
    with suppress(ValueError, TypeError):  # a damaged time, or one without a time zone
        started = _started_at(pod, container)
        return bool(started and timestamp and started >= _time(timestamp).replace(microsecond=0))
    return False


def _started_at(pod: Pod, container: str) -> datetime | None:
    state = _state(pod, container)
    active = state.running or state.terminated
    return datetime.fromisoformat(active.started_at) if active and active.started_at else None


def _time(timestamp: bytes) -> datetime:
    return datetime.fromisoformat(timestamp.decode())


def _state(pod: Pod, container: str) -> ContainerState:
    """Return a container's state: waiting, running or terminated, with its details."""
    statuses = pod.status.all_containers
    states = (entry.state for entry in statuses if container in ("", entry.name))
    return next(states, ContainerState())
