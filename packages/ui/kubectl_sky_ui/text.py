"""Text of the cluster on the screen: never markup, and without control characters.

Names, reasons and log lines are other people's text. Textual parses strings as markup, so that all
of it becomes `Text`.
"""

from collections.abc import Mapping, Sequence

from rich.cells import cell_len
from rich.console import Group
from rich.padding import Padding
from rich.text import Text

from kubectl_sky.errors import SkyError
from kubectl_sky.observe.escapes import harmless, plain
from kubectl_sky.observe.findings import Cause
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.observe.verdict import Diagnosis, StageResult

MIN_LAST_COLUMN = 20  # cells of the last column before other columns are left out
_PADDING = 2  # cells beside each column
_MAX_TEXT = 1000  # characters on one line
MAX_LINE_BYTES = 2000  # bytes of a log line that are shown
_MAX_COLOURS = 100  # of a log line; with more, each character would cost memory
_STYLES = {
    **dict.fromkeys(("failed", "error:", StageResult.PROBLEM), "red"),
    **dict.fromkeys(("running", StageResult.PASSED), "green"),
    **dict.fromkeys(("pending", "warning:"), "yellow"),
}
# Those of `logs`: readable on dark and light backgrounds.
_NODE_STYLES = ("cyan", "green", "yellow", "magenta", "blue")


def one_line(text: str) -> str:
    if not text.isprintable():
        text = " ".join(plain(text).split())
    return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}…"


def style(text: str) -> Text:
    return Text(one_line(text), _STYLES.get(text, ""), no_wrap=True, overflow="ellipsis")


def error_text(error: SkyError, hint: str = "") -> Text:
    hint = hint or error.hint
    what = f"{error.what}; {hint}" if hint else error.what
    return Text.assemble(("error: ", "red"), one_line(what), no_wrap=True, overflow="ellipsis")


def log_text(line: bytes) -> Text:
    """Return a log line with its colours, and without other escape sequences."""
    cut = line[:MAX_LINE_BYTES]
    safe = harmless(cut).decode() + ("…" if cut != line else "")
    text = Text.from_ansi(safe) if "\x1b" in safe else Text(safe)
    if len(text.spans) > _MAX_COLOURS:
        text = Text(text.plain)
    text.expand_tabs(8)
    return text


def node_prefix(prefix: str, rank: int) -> Text:
    return Text(f"{one_line(prefix)} | ", _NODE_STYLES[rank % len(_NODE_STYLES)])


def column_widths(
    titles: Sequence[str], rows: Sequence[Sequence[str]], columns: int, cut: Sequence[str]
) -> Mapping[str, int]:
    """Return the columns of a table that fit, with their widths.

    The columns of `cut` are left out in this order until the rest fits, with a part of the last
    column. Other columns are at most a quarter of the screen wide, unless room is left.
    """
    wanted = {
        title: max([len(title), *(cell_len(row[index]) for row in rows)])
        for index, title in enumerate(titles)
    }
    widths = {title: min(width, max(columns // 4, 12)) for title, width in wanted.items()}
    last = titles[-1]

    def room() -> int:
        return columns - sum(width + _PADDING for title, width in widths.items() if title != last)

    for title in cut:
        needed = MIN_LAST_COLUMN + _PADDING if last in widths else 0
        if room() >= needed:
            break
        widths.pop(title, None)
    if last in widths:
        widths[last] = max(room() - _PADDING, len(last))
        return widths
    return {title: min(wanted[title], width + max(room(), 0)) for title, width in widths.items()}


def verdict_text(verdict: Diagnosis) -> Group:
    parts: list[Text | Padding] = [Text(one_line(verdict.headline), "bold"), Text()]
    for stage, step in verdict.stages:
        parts.append(Text.assemble(f"{stage:<12}", (str(step), _STYLES.get(step, "dim"))))
        for finding in verdict.findings:
            if finding.stage is stage:
                parts += _cause(finding, verdict.task)
    if verdict.unread:
        kinds = ", ".join(verdict.unread)
        parts += [Text(), Text(f"not checked, because you may not list them: {one_line(kinds)}")]
    return Group(*parts)


def _cause(finding: Cause, task: TaskStatus) -> list[Padding]:
    what = finding.cause(task.num_nodes, task.title)
    lines = Text(one_line(what)), Text(one_line(f"next: {finding.then}"), "italic")
    return [Padding(line, (0, 0, 0, 4)) for line in lines]


def key_of(task: TaskStatus) -> str:
    return f"{task.namespace}/{task.id}"


def name_of(task: TaskStatus) -> str:
    return f"{task.member.title}/{task.name}" if task.member else task.name
