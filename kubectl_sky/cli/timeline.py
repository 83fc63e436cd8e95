"""Format timelines: a bar for each node, and how long each phase took."""

import shutil
import sys
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from kubectl_sky.cli import output
from kubectl_sky.observe.timeline import NodeTimeline, Phase, Span, Timeline
from kubectl_sky.words import age

_MARKS = {
    Phase.QUEUED: ".",
    Phase.SCHEDULING: ":",
    Phase.STARTING: "-",
    Phase.IMAGE: "=",
    Phase.FILES: "+",
    Phase.MEETING: "~",
    Phase.SETUP: "*",
    Phase.RUN: "#",
    Phase.UNKNOWN: "?",
}
_WIDTH = 80  # characters of a line if stdout is no terminal
_MAX_WIDTH = 120
_MAX_NAME = 16
_MAX_ROWS = 20
_UNKNOWN = "?: events are kept for about an hour"

Row = tuple[str, NodeTimeline]


def format_timeline(timeline: Timeline) -> str:
    rows, omitted = _rows(timeline)
    if not any(node.phases for _, node in rows):
        return "no node has started or is queued"
    lines = [*_bars(rows, timeline.now), "", _times(rows, timeline)]
    if any(node.unknown for _, node in rows):
        lines.append(_UNKNOWN)
    if omitted:
        lines.append(f"… and {output.count(omitted, 'more node')}; `-o json` has all")
    return "\n".join(lines)


def _rows(timeline: Timeline) -> tuple[list[Row], int]:
    """Return the first nodes of each task, and how many there are besides."""
    limit = max(_MAX_ROWS // len(timeline.tasks), 1)
    rows: list[Row] = []
    omitted = 0
    for task in timeline.tasks:
        alone = len(task.nodes) == 1
        for node in task.nodes[:limit]:
            name = node.name if len(timeline.tasks) == 1 else task.name
            if len(timeline.tasks) > 1 and not alone:
                name = f"{task.name}/{node.index}"
            rows.append((name + (f" ({node.restarts}x)" if node.restarts else ""), node))
        omitted += len(task.nodes[limit:])
    return rows, omitted


def _bars(rows: Sequence[Row], now: datetime) -> Iterator[str]:
    """Yield an axis and a bar for each node, all with the same scale."""
    spans = [span for _, node in rows for span in node.phases]
    begin = min(span.start for span in spans)
    end = max(span.end or now for span in spans)

    cells = [output.cell(name) for name, _ in rows]
    names = [name if len(name) <= _MAX_NAME else f"{name[: _MAX_NAME - 1]}…" for name in cells]
    column = max(map(len, names)) + 2
    terminal = shutil.get_terminal_size().columns if sys.stdout.isatty() else _WIDTH
    width = max(min(terminal, _MAX_WIDTH) - column - 1, 10)

    scale = age.duration(end - begin)
    yield f"{'':<{column}}0s{scale:>{width - 2}}"
    for name, (_, node) in zip(names, rows, strict=True):
        bar = "".join(
            _mark(node.phases, begin, end, (at + 0.5) / width, now) for at in range(width)
        )
        yield f"{name:<{column}}{bar}".rstrip()


def _mark(
    spans: Sequence[Span], begin: datetime, end: datetime, share: float, now: datetime
) -> str:
    """Return the mark of the phase at a share of the whole time; blank if there is none."""
    time = begin + (end - begin) * share
    for span in spans:
        if span.start <= time < (span.end or now):
            return _MARKS[Phase(span.phase)]
    return " "


def _times(rows: Sequence[Row], timeline: Timeline) -> str:
    """Format how long each phase took: of several nodes, the fastest and the slowest."""
    everything = rows
    if len(timeline.tasks) == 1:  # also the nodes that have no bar
        everything = [(node.name, node) for node in timeline.tasks[0].nodes]

    lines = []
    for phase, mark in _MARKS.items():
        times = [
            (seconds, name, node)
            for name, node in everything
            if (seconds := node.seconds(phase, timeline.now)) is not None
        ]

        if not times:
            continue
        fastest = min(times, key=lambda item: item[0])
        slowest = max(times, key=lambda item: item[0])

        cells = [f"{mark} {phase}"]
        if len(everything) == 1:
            first = next(span for span in fastest[2].phases if span.phase is phase)
            start = age.timestamp(first.start)
            cells += [start, _text(fastest[0], fastest[2], phase)]
        else:
            cells += [
                f"{_text(item[0], item[2], phase)}   {item[1]}" for item in (fastest, slowest)
            ]
        lines.append(cells)

    if len(everything) == 1:
        return output.table(["PHASE", "START", "FOR"], lines)
    return output.table(["PHASE", "FASTEST", "SLOWEST"], lines)


def _text(seconds: int, node: NodeTimeline, phase: Phase) -> str:
    goes_on = any(span.phase is phase and span.end is None for span in node.phases)
    return age.duration(timedelta(seconds=seconds)) + (" so far" if goes_on else "")
