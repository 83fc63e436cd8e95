"""The terminal as the user interface of an action: results, notes and logs."""

import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from kubectl_sky.cli import output
from kubectl_sky.errors import Problem, UserError
from kubectl_sky.observe.logs import Form, Lines, LogFormat, Origin, differing
from kubectl_sky.tasks.ui import UI, WaitingLine
from kubectl_sky.words import bounded, names

if TYPE_CHECKING:
    from kubectl_sky.spec.dangers import Danger


def write(block: bytes) -> None:
    """Write bytes unchanged and flush at once, also for the reader of a pipe."""
    sys.stdout.buffer.write(block)
    sys.stdout.buffer.flush()


class Printer:
    """Print formatted log lines to stdout, or to one file per node in a folder."""

    def __init__(
        self, form: Form | None = None, folder: str | None = None, limit: int | None = None
    ) -> None:
        """Print at most `limit` bytes of the lines of each log."""
        form = form or Form()
        self.filters = bool(form.filters or folder or limit)
        self._limit = limit
        self._printed_bytes: Counter[str] = Counter()  # by stream
        self._folder = Path(folder) if folder else None
        self._started_files: set[Path] = set()
        self._unfinished: dict[Path | None, str] = {}  # by file: the log whose line has no newline
        if self._folder:
            plain = LogFormat.RAW if form.output is LogFormat.TEXT else form.output
            self._form = replace(form, output=plain)
        else:
            self._form = replace(
                form, color=output.colored(sys.stdout), terminal=sys.stdout.isatty()
            )

    def finish(self) -> None:
        """Print what is left when all lines have been read."""

    def __call__(self, lines: Lines, final_newline: bool) -> None:
        """Print lines; `final_newline` is False if the last has no newline."""
        if self._limit is not None:
            lines = list(self._cut(lines, self._limit))
        if not lines:
            return
        if not self._folder:
            write(self._block(None, lines, final_newline))
            return
        try:
            for title, group in groupby(lines, lambda pair: _file(pair[0])):
                path = self._folder / title
                node_lines = list(group)
                complete = final_newline or node_lines[-1] is not lines[-1]
                is_started = path in self._started_files
                if not is_started:
                    path.parent.mkdir(parents=True, exist_ok=True)
                # Files are not kept open: there may be thousands.
                with path.open("ab" if is_started else "wb") as file:
                    file.write(self._block(path, node_lines, complete))
                self._started_files.add(path)
        except OSError as error:
            message = f"cannot write to {error.filename or self._folder}: {bounded.reason(error)}"
            raise UserError(message, "choose another folder with --output-dir") from None

    def _cut(self, lines: Lines, limit: int) -> Iterator[tuple[Origin, bytes]]:
        """Yield what is left of the lines of each log up to the limit, line breaks included."""
        for origin, line in lines:
            space = limit - self._printed_bytes[origin.stream]
            self._printed_bytes[origin.stream] += len(line) + 1
            if space > 0:
                yield origin, line[:space]

    def _block(self, path: Path | None, lines: Lines, final_newline: bool) -> bytes:
        """Return the output for these lines, after the line of another log without a newline."""
        block = self._form.block(lines, final_newline)
        first = lines[0][0].stream
        last = lines[-1][0].stream
        if block:
            if self._unfinished.pop(path, first) != first:
                block = b"\n" + block
            if not block.endswith(b"\n"):
                self._unfinished[path] = last
        return block


class RankDifferences(Printer):
    """Keep lines until all have been read, then print those that the ranks do not share."""

    def __init__(self, printer: Printer, stamped: bool) -> None:
        self._printer = printer
        self._stamped = stamped
        self.filters = True
        self._lines: list[tuple[Origin, bytes]] = []

    def __call__(self, lines: Lines, final_newline: bool) -> None:
        self._lines += lines

    def finish(self) -> None:
        if lines := differing(self._lines, self._stamped):
            self._printer(lines, True)
        elif self._lines:
            ranks = {origin.rank for origin, _ in self._lines}
            output.note("all ranks have the same lines" if len(ranks) > 1 else "only one rank")


def _file(origin: Origin) -> str:
    """Return the log file name of a container; names from the server cannot form a path."""
    container = "" if origin.container == names.CONTAINER else f"-{origin.container}"
    return re.sub(r"[^A-Za-z0-9._-]", "_", f"{origin.task}-{origin.title}{container}.log")


class Terminal(UI):
    """Print results and logs on stdout, notes and progress on stderr."""

    def __init__(self, printer: Printer | None = None) -> None:
        self._printer = printer or Printer()
        self.filters_logs = self._printer.filters

    def problems(self, problems: Sequence[Problem]) -> None:
        output.problems(problems)

    def review(self, dangers: "Sequence[Danger]") -> None:
        from kubectl_sky.spec.dangers import list_first

        output.notes(list_first(dangers))

    def note(self, text: str) -> None:
        output.note(text)

    def notes(self, items: Iterable[object]) -> None:
        output.notes(items)

    @property
    def live(self) -> bool:
        return output.is_live()

    def waiting(self, task_id: str, waiting: WaitingLine | None) -> None:
        """Show what a task waits for: on a live line, or a line for each change."""
        if self.live:
            output.live.set(task_id, waiting)
        else:
            super().waiting(task_id, waiting)

    def following(self, task_id: str, title: str) -> None:
        """Show the state of a followed task in the title; a terminal without colours has none."""
        if self.live and output.colored(sys.stderr):
            output.live.set_title(task_id, title)

    def logs(self, lines: Lines, final_newline: bool) -> None:
        with output.live.hidden(final_newline):
            self._printer(lines, final_newline)

    @contextmanager
    def printing_rest(self) -> Iterator[None]:
        """Print at the end what the printer keeps until then, also if the task has failed."""
        try:
            yield
        finally:
            self._printer.finish()

    def progress(self, label: str, total: int) -> AbstractContextManager[Callable[[int], object]]:
        return output.progress(label, total)

    def transfer(self, label: str, size: int) -> AbstractContextManager[Callable[[int], object]]:
        return output.transfer(label, size)
