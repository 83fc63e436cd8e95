"""The logs of a task or a node, live."""

from collections import deque
from collections.abc import Iterable
from time import monotonic
from typing import ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import RichLog

from kubectl_sky.observe.nodes import NodeStatus
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky_ui.feeds import MAX_LINES, LogFeed, LogLine
from kubectl_sky_ui.text import one_line
from kubectl_sky_ui.view import GENERAL, View

_INTERVAL = 0.05  # seconds between two looks for new lines
_LINES_AT_ONCE = 50
_WRITE_SECONDS = 0.02  # so that keys are answered while many lines arrive


class _Lines(RichLog):
    """Lines that scroll to the end, until the user moves up."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "scroll_down", show=False),
        Binding("k", "scroll_up", show=False),
        Binding("g", "scroll_home", show=False),
        Binding("G", "scroll_end", show=False),
    ]

    def __init__(self) -> None:
        super().__init__(max_lines=MAX_LINES, min_width=0, wrap=True, id="content")

    @property
    def is_held(self) -> bool:
        """Whether more lines would move those that the user reads."""
        return not self.auto_scroll and len(self.lines) >= MAX_LINES

    def action_scroll_up(self) -> None:
        self.auto_scroll = False
        super().action_scroll_up()

    def action_page_up(self) -> None:
        self.auto_scroll = False
        super().action_page_up()

    def action_scroll_home(self) -> None:
        self.auto_scroll = False
        super().action_scroll_home()

    def action_scroll_end(self) -> None:
        self.auto_scroll = True
        super().action_scroll_end()


class LogView(View):
    """The newest lines of a task or of one node."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "toggle_scroll", "Scroll"),
        Binding("t", "toggle_times", "Times"),
        Binding("w", "toggle_wrap", "Wrap"),
        *GENERAL,
    ]

    def __init__(self, task: TaskStatus, node: NodeStatus | None = None) -> None:
        super().__init__()
        self._subject = task
        self._node = node
        self._times = False
        self._width = 0
        self._skipped = 0
        self._feed: LogFeed | None = None
        self._kept: deque[LogLine] = deque(maxlen=MAX_LINES)
        self._pending: deque[LogLine] = deque(maxlen=MAX_LINES)

    def content(self) -> Widget:
        return _Lines()

    def heading(self) -> str:
        node = f" {self._node.name}" if self._node else ""
        return f"logs {self._subject.name}{node} {self._subject.id}"

    def idle_status(self) -> Text:
        lines = self.query_one(_Lines)
        waiting = self._feed.waiting_for if self._feed else None
        if waiting:
            seconds = int(monotonic() - waiting.since)
            return Text(f"{one_line(waiting.text)} · {seconds // 60}:{seconds % 60:02}", "yellow")
        if not lines.auto_scroll:
            return Text("scrolling is stopped; G goes on")
        if self._skipped:
            return Text(f"{self._skipped:,} lines skipped: they come faster than they can be shown")
        return Text()

    def on_mount(self) -> None:
        super().on_mount()
        ranks = [self._node.index] if self._node else []
        self._feed = LogFeed(self.sky.session, self._subject, ranks)
        self.sky.in_background("logs", self._feed.run)
        self.set_interval(_INTERVAL, self._take)

    def on_unmount(self) -> None:
        if self._feed:
            self._feed.stop.set()

    def _take(self) -> None:
        if not self.query(_Lines) or not self.query_one(_Lines).size:
            return
        deadline = monotonic() + _WRITE_SECONDS
        while not self.query_one(_Lines).is_held and monotonic() < deadline:
            if not self._take_some():
                break

    def _take_some(self) -> bool:
        if self._pending:
            count = min(len(self._pending), _LINES_AT_ONCE)
            self._write([self._pending.popleft() for _ in range(count)])
            return True
        lines, skipped = self._feed.take(_LINES_AT_ONCE) if self._feed else ([], 0)
        if skipped:
            self._skipped += skipped
            lines.insert(0, LogLine(Text(f"{skipped:,} lines skipped", "yellow")))
        self._kept.extend(lines)
        self._write(lines)
        return bool(lines)

    def _write(self, lines: Iterable[LogLine]) -> None:
        widget = self.query_one(_Lines)
        columns = widget.scrollable_content_region.width
        for line in lines:
            if self.filter.lower() in line.text.plain.lower():
                text = line.shown(self._times)
                width = columns if widget.wrap else max(text.cell_len, 1)
                widget.write(text, width=width)

    def _rewrite(self) -> None:
        """Write the kept lines again, some at a time, because they look different now."""
        self.query_one(_Lines).clear()
        self._pending = deque(self._kept, maxlen=MAX_LINES)

    def set_filter(self, text: str) -> None:
        if text != self.filter:
            super().set_filter(text)
            self._rewrite()

    def on_resize(self) -> None:
        super().on_resize()
        if self._width not in (0, self.size.width):
            self._rewrite()
        self._width = self.size.width

    def action_toggle_times(self) -> None:
        self._times = not self._times
        self._rewrite()

    def action_toggle_wrap(self) -> None:
        widget = self.query_one(_Lines)
        widget.wrap = not widget.wrap
        self._rewrite()

    def action_toggle_scroll(self) -> None:
        widget = self.query_one(_Lines)
        if widget.auto_scroll:
            widget.auto_scroll = False
        else:
            widget.action_scroll_end()
        self.update_view()
