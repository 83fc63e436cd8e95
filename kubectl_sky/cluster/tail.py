"""Read one container's log to its end, through lost connections, each line once."""

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from threading import Event
from time import monotonic

from kubectl_sky import kinds
from kubectl_sky.cluster import objects
from kubectl_sky.cluster.backoff import Backoff
from kubectl_sky.cluster.loglines import LONGEST, Cutter, Place, stamp, stamped, without_stamps
from kubectl_sky.cluster.session import Json, Session
from kubectl_sky.cluster.transport import Stream
from kubectl_sky.errors import ClusterError, NotFound, Unreachable

# What the node answers for a container that has not started, or not yet again.
_IDLE = re.compile(
    r'container "[^"]*" in pod "[^"]*" (is waiting to start.*|is not available|is terminated)'
)
_TEXT = 1000  # bytes of what a node writes in place of a log that are shown
_AGAIN = 0.5  # seconds between two looks at a container that waits to start
_SETTLING = 0.5  # seconds: a container may be told to have ended before its last lines are written
_SILENCE = 150.0  # seconds without a byte after which another connection is made: it may be dead


@dataclass(frozen=True)
class LogSource:
    """A container whose log is read; the rank is the node's, for whoever prints the lines."""

    namespace: str
    pod: str
    container: str
    rank: int = 0


@dataclass(frozen=True)
class LogOptions:
    """Which lines: as the flags of `kubectl logs` of the same names."""

    follow: bool = False
    tail: int | None = None
    since_seconds: int | None = None
    timestamps: bool = False
    previous: bool = False


@dataclass(frozen=True)
class Batch:
    """Lines that came together, without newlines; or a note for the user and no lines.

    `whole` is False where the last line is the end of a log that does not end with a newline.
    """

    source: LogSource
    lines: list[bytes]
    whole: bool = True
    note: str = ""


class Tail:
    """One reading of one log. `stop` may be set, and `close` called, from any thread."""

    def __init__(
        self, session: Session, source: LogSource, options: LogOptions, stop: Event | None = None
    ) -> None:
        self._session = session
        self._source = source
        self._options = options
        self._stop = stop or Event()
        self._backoff = Backoff(self._stop)
        self._place = Place()
        self._cutter = Cutter()
        self._stream: Stream | None = None
        self._told = ""
        self._begun = 0.0

    def close(self) -> None:
        """Hang up."""
        self._stop.set()
        if self._stream:
            self._stream.close()

    def batches(self) -> Iterator[Batch]:
        """Yield the log; when following, until the container has ended for good.

        An end of the answer is believed only when the container has ended and its last line is
        there, a moment later as well: load balancers end long answers, and containerd tells of an
        end while it is still writing down what it has read. What is there already is read before
        following, as nodes send line by line to who follows, which costs both sides much more.
        Raises ClusterError.
        """
        last = not self._options.follow
        behind = self._options.follow and self._options.tail != 0
        try:
            while not self._stop.is_set():
                try:
                    known = self._place.last
                    yield from self._read(follow=not (last or behind), last=last)
                    if last and (self._place.last == known or not self._options.follow):
                        break
                    last = self._ended()
                    if last and not self._stop.wait(_SETTLING) and self._have_all():
                        break
                    if not (last or behind):
                        self._stop.wait(_AGAIN)
                    behind = False
                except Unreachable as error:
                    self._backoff.wait_or_raise(error)
        except NotFound:
            yield from self._note(f"pod {self._source.pod} is gone")
        yield from self._rest()

    def _read(self, *, follow: bool, last: bool) -> Iterator[Batch]:
        """Ask once, and yield what is new in the answer; the last time also why there is none."""
        self._cutter = Cutter()
        self._place.resume()
        source = self._source
        path = objects.path(kinds.POD, source.namespace, source.pod, "log")
        try:
            opened = self._session.stream(path, self._query(follow=follow), _silence())
        except Unreachable:
            raise
        except NotFound:
            self._pod()  # else its node does not know it yet
            yield from self._idle("is not known to its node yet", last=last)
            return
        except ClusterError as error:
            idle = _IDLE.search(error.what)
            if not idle:
                raise type(error)(f"logs of pod {source.pod}: {error.what}", error.then) from None
            yield from self._idle(idle[1], last=last)
            return
        with opened as self._stream:
            self._backoff.opened()
            self._begun = self._begun or monotonic()
            for chunk in opened:
                if self._stop.is_set():
                    return
                yield from self._chunk(chunk)

    def _chunk(self, chunk: bytes) -> Iterator[Batch]:
        lines, notes = stamped(self._cutter.feed(chunk))
        yield from self._new(lines)
        if self._cutter.cut:
            yield from self._note(
                f"pod {self._source.pod} writes a line of more than {LONGEST >> 20} MiB,"
                " of which only the beginning is shown"
            )
        for note in notes:
            yield from self._unavailable(note)

    def _new(self, lines: list[bytes]) -> Iterator[Batch]:
        lines = self._place.fresh(lines)
        if self._place.rotated:
            self._place.rotated = False
            if not started_since(self._pod(), self._source.container, self._place.last):
                yield from self._note(
                    f"the log of pod {self._source.pod} was rotated while the connection was lost;"
                    " lines may be missing"
                )
        if lines:
            self._place.advance(lines)
            self._backoff.reset()
            yield Batch(self._source, self._plain(lines))

    def _query(self, *, follow: bool, tail: int | None = None) -> dict[str, str]:
        """Ask for what the user wants, or for what came since the connection was lost."""
        options = self._options
        query = {"timestamps": "true", "follow": str(follow).lower()}
        if self._source.container:
            query["container"] = self._source.container
        if options.previous:
            query["previous"] = "true"
        if tail is not None:
            return query | {"tailLines": str(tail)}
        if self._place.since:
            return query | {"sinceTime": self._place.since}
        # Asked again before any line has come: by the node's clock, and that goes on meanwhile.
        passed = int(monotonic() - self._begun) + 1 if self._begun else 0
        if options.follow and options.tail == 0 and passed:
            return query | {"sinceSeconds": str(passed)}
        if options.tail is not None and options.tail >= 0:
            query["tailLines"] = str(options.tail)
        if options.since_seconds:
            query["sinceSeconds"] = str(options.since_seconds + passed)
        return query

    def _idle(self, why: str, *, last: bool) -> Iterator[Batch]:
        """A container that has not started is waited for when following, else told about."""
        if last:
            yield from self._note(f"pod {self._source.pod} has no log: its container {why}")

    def _unavailable(self, line: bytes) -> Iterator[Batch]:
        why = line[:_TEXT].decode(errors="replace")
        pod = self._source.pod
        yield from self._note(f"the log of pod {pod} is not available any more: {why}")

    def _note(self, text: str) -> Iterator[Batch]:
        if text != self._told:  # a node that is asked again says the same again
            self._told = text
            yield Batch(self._source, [], note=text)

    def _rest(self) -> Iterator[Batch]:
        """The end of a log that does not end with a newline."""
        rest, notes = stamped([self._cutter.rest()])
        for note in filter(None, notes):
            yield from self._unavailable(note)
        rest = self._place.fresh(rest)
        if rest and not self._stop.is_set():
            yield Batch(self._source, self._plain(rest), whole=False)

    def _have_all(self) -> bool:
        """Compare the last line of a log that has ended with the last that was read."""
        query = self._query(follow=False, tail=1)
        path = objects.path(kinds.POD, self._source.namespace, self._source.pod, "log")
        try:
            with self._session.stream(path, query, _SILENCE) as stream:
                text = b""
                for chunk in stream:
                    text = (text + chunk)[:LONGEST]
                    if len(text) == LONGEST:
                        break
        except (NotFound, Unreachable):
            raise
        except ClusterError:
            return False  # whoever reads the whole finds out why
        rest = self._cutter.rest()
        return text == rest if rest else stamp(text) == self._place.last

    def _plain(self, lines: list[bytes]) -> list[bytes]:
        return lines if self._options.timestamps else without_stamps(lines)

    def _ended(self) -> bool:
        """Ask whether the container has ended for good. Raises NotFound when its pod is gone."""
        return ended(self._pod(), self._source.container)

    def _pod(self) -> Json:
        source = self._source
        return objects.get(self._session, kinds.POD, source.pod, source.namespace)


def _silence() -> float:
    """Not the same for all: a thousand silent logs are not asked for at once."""
    return _SILENCE * random.uniform(0.8, 1.2)


def ended(pod: Json, container: str) -> bool:
    """Say whether a container of a pod will write no more."""
    if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return True
    terminated = _state(pod, container).get("terminated")
    if not terminated:
        return False
    policy = pod["spec"].get("restartPolicy")
    done = policy == "Never" or (policy == "OnFailure" and terminated.get("exitCode") == 0)
    return done or "deletionTimestamp" in pod["metadata"]


def started_since(pod: Json, container: str, timestamp: bytes) -> bool:
    """Say whether a container has started again since a line was written, to the second."""
    state = _state(pod, container)
    started = next((one["startedAt"] for one in state.values() if one.get("startedAt")), None)
    if not started or not timestamp:
        return False
    try:
        written = datetime.fromisoformat(timestamp.decode()).replace(microsecond=0)
        return datetime.fromisoformat(started) >= written
    except (ValueError, TypeError):  # no time, such as the 99th of a month, or without a zone
        return False


def _state(pod: Json, container: str) -> Json:
    """The state of a container: one of waiting, running and terminated, with its details."""
    status: Json = pod.get("status") or {}
    every = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    states = (one.get("state") for one in every if container in ("", one["name"]))
    return next(states, None) or {}
