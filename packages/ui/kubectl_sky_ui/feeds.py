"""Threads that read from the cluster, so that nothing blocks the screen."""

import math
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Sequence
from threading import Event, Lock

from msgspec import Struct
from rich.text import Text

from kubectl_sky.cluster.loglines import ResumePosition
from kubectl_sky.cluster.session import Session
from kubectl_sky.cluster.streams import LogOptions
from kubectl_sky.errors import ClusterError, Interrupted, SkyError, TaskFailed, Unreachable
from kubectl_sky.observe.logs import Lines, Origin
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.tasks.find import Scope
from kubectl_sky.tasks.follow import follow
from kubectl_sky.tasks.logs import LogRequest
from kubectl_sky.tasks.pending import watch_explained
from kubectl_sky.tasks.ui import UI, WaitingLine
from kubectl_sky_ui.text import MAX_LINE_BYTES, log_text, node_prefix, one_line

MAX_LINES = 5000  # log lines that are kept
_FIRST_LINES = 1000  # lines of each node that are read first
_MAX_TIME_BYTES = 40  # of the time before a line
_RETRY_SECONDS = 5.0
_CHECK_SECONDS = 5.0  # seconds between two checks of the connection


class TaskFeed:
    """Watch the tasks of a scope until `stop` is set; watch again after errors."""

    def __init__(
        self,
        session: Session,
        scope: Scope,
        show: Callable[["TaskFeed", Sequence[TaskStatus]], object],
        fail: Callable[["TaskFeed", SkyError], object],
    ) -> None:
        self.stop = Event()
        self._session = session
        self._scope = scope
        self._show = show
        self._fail = fail

    def run(self) -> None:
        while not self.stop.is_set():
            try:
                for update in watch_explained(self._session, self._scope):
                    if self.stop.is_set():
                        return
                    if update:
                        self._show(self, update.tasks)
            except SkyError as error:
                self._fail(self, error)
                self.stop.wait(_RETRY_SECONDS)


def check_connection(
    session: Session, report: Callable[[ClusterError | None], object], stop: Event
) -> None:
    """Report whether the API server answers, until `stop` is set.

    A watch retries for a minute before it fails; meanwhile what it has shown is old.
    """
    while not stop.wait(_CHECK_SECONDS):
        try:
            session.check_ready()
        except ClusterError as error:
            report(error)
        else:
            report(None)


class LogLine(Struct, frozen=True):
    """A line of a log, or a note about it, which has no time."""

    text: Text
    time: str = ""
    prefix: Text | None = None

    def shown(self, timestamps: bool) -> Text:
        time = (f"{self.time} ", "dim") if timestamps and self.time else ""
        return Text.assemble(self.prefix or "", time, self.text)


def _parse(origin: Origin, line: bytes) -> LogLine:
    time, _, text = line.partition(b" ")
    prefix = node_prefix(origin.prefix, origin.rank) if origin.prefix else None
    return LogLine(log_text(text), one_line(time.decode(errors="replace")), prefix)


class LogFeed(UI):
    """Follow the logs of a task as `logs -f` does, and keep the newest lines for the screen.

    `skipped` counts the lines that came faster than the screen took them.
    """

    def __init__(self, session: Session, task: TaskStatus, ranks: Collection[int]) -> None:
        self.stop = Event()
        self.waiting_for: WaitingLine | None = None
        self._session = session
        self._task = task
        self._ranks = ranks
        self._lock = Lock()
        self._lines: deque[tuple[Origin, bytes] | LogLine] = deque(maxlen=MAX_LINES)
        self._skipped = 0
        self._positions: dict[str, ResumePosition] = {}

    def take(self, limit: int) -> tuple[list[LogLine], int]:
        with self._lock:
            items = [self._lines.popleft() for _ in range(min(limit, len(self._lines)))]
            skipped = self._skipped
            self._skipped = 0
        # Lines that are skipped are not parsed.
        return [item if isinstance(item, LogLine) else _parse(*item) for item in items], skipped

    def run(self) -> None:
        while not self.stop.is_set():
            try:
                follow(self._session, self._task, self._request(), self)
                self.note(f"task {self._task.id} completed")
                return
            except Interrupted:
                return
            except Unreachable as error:
                self.note(f"{error.what}; retrying")
                self.stop.wait(_RETRY_SECONDS)
            except SkyError as error:
                text = error.what if isinstance(error, TaskFailed) else f"error: {error}"
                self.note(text, "red")
                return

    def _request(self) -> LogRequest:
        positions = {stream: position.encode() for stream, position in self._positions.items()}
        options = LogOptions(follow=True, tail=_FIRST_LINES, timestamps=True, positions=positions)
        return LogRequest(options, ranks=self._ranks, start_timeout=math.inf, stop=self.stop)

    @property
    def live(self) -> bool:
        return True

    def waiting(self, task_id: str, waiting: WaitingLine | None) -> None:
        self.waiting_for = waiting

    def note(self, text: str, style: str = "yellow") -> None:
        self._keep([LogLine(Text(one_line(text), style))])

    def logs(self, lines: Lines, final_newline: bool) -> None:
        by_stream = defaultdict[str, list[bytes]](list)
        for origin, line in lines:
            by_stream[origin.stream].append(line)
        for stream, texts in by_stream.items():
            self._positions.setdefault(stream, ResumePosition(partial=True)).advance(texts)
        limit = _MAX_TIME_BYTES + MAX_LINE_BYTES  # a line may have a mebibyte
        self._keep([(origin, line[:limit]) for origin, line in lines])

    def _keep(self, items: Sequence[tuple[Origin, bytes] | LogLine]) -> None:
        with self._lock:
            self._skipped += max(len(self._lines) + len(items) - MAX_LINES, 0)
            self._lines.extend(items)
