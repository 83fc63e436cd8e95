"""The text of timelines, and the graph and bars that only a terminal shows."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from kubectl_sky.cli import tasks, timeline
from kubectl_sky.observe import status
from kubectl_sky.observe.nodes import State
from kubectl_sky.observe.pipelines import PipelineStatus
from kubectl_sky.observe.timeline import NodeTimeline, Phase, Span, TaskTimeline, Timeline
from kubectl_sky.plan.pipeline import PipelineMember
from tests.builders import make_job
from tests.reading import read_jobs

START = datetime(2026, 1, 1, tzinfo=UTC)
(TASK,) = status.tasks(read_jobs([make_job()]), [])


def make_node(
    index: int, phases: Sequence[tuple[Phase, int | None]], unknown: tuple[Phase, ...] = ()
) -> NodeTimeline:
    """A node with phases of some seconds; the last one may go on."""
    spans = []
    at = START
    for phase, seconds in phases:
        end = None if seconds is None else at + timedelta(seconds=seconds)
        spans.append(Span(phase, at, end))
        at = end or at
    return NodeTimeline(index, f"node-{index}", State.RUNNING, 0, "", tuple(spans), unknown)


def shown(*nodes: NodeTimeline, now: int = 100) -> str:
    tasks = [TaskTimeline(TASK.id, TASK.name, TASK.state, nodes)]
    return timeline.format_timeline(Timeline(now=START + timedelta(seconds=now), tasks=tasks))


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("NO_COLOR", "1")


@pytest.mark.usefixtures("terminal")
def test_timeline_of_nodes_fits_60_columns() -> None:
    first = make_node(
        0, [(Phase.QUEUED, 20), (Phase.IMAGE, 30), (Phase.FILES, 10), (Phase.RUN, None)]
    )
    second = make_node(1, [(Phase.QUEUED, 40), (Phase.UNKNOWN, None)], (Phase.RUN,))
    text = shown(first, second)
    assert (
        text
        == """\
        0s                                             100s
node-0  ..........===============++++++####################
node-1  ....................???????????????????????????????

PHASE       FASTEST               SLOWEST
. queued    20s   node-0          40s   node-1
= image     30s   node-0          30s   node-0
+ files     10s   node-0          10s   node-0
# run       40s so far   node-0   40s so far   node-0
? unknown   60s so far   node-1   60s so far   node-1
?: events are kept for about an hour"""
    )


def test_timeline_of_one_node_has_the_times() -> None:
    text = shown(make_node(0, [(Phase.SCHEDULING, 5), (Phase.RUN, 95)]))
    assert text.splitlines()[-2:] == [
        ": scheduling   2026-01-01T00:00:00Z   5s",
        "# run          2026-01-01T00:00:05Z   95s",
    ]
    assert max(map(len, text.splitlines())) <= 80


def test_timeline_of_many_nodes_shows_the_first_and_sums_up_all() -> None:
    nodes = [make_node(index, [(Phase.RUN, 50 + index)]) for index in range(1000)]
    lines = shown(*nodes, now=2000).splitlines()
    assert len([line for line in lines if line.startswith("node-")]) == 20
    assert "# run   50s   node-0   17m   node-999" in lines
    assert lines[-1] == "… and 980 more nodes; `-o json` has all"


def test_timeline_without_any_time_says_so() -> None:
    assert shown(make_node(0, [])) == "no node has started or is queued"


def make_pipeline(*, parallel: bool) -> PipelineStatus:
    members = [PipelineMember("bcdf2345", "pipe", stage, 3, parallel) for stage in (1, 2, 3)]
    stages = tuple(
        replace(TASK, id=f"id-{member.stage}", name=f"stage-{member.stage}", member=member)
        for member in members
    )
    return PipelineStatus(members[0], stages)


@pytest.mark.usefixtures("terminal")
def test_pipeline_is_a_graph_on_a_terminal() -> None:
    serial = tasks.pipeline_details(make_pipeline(parallel=False)).splitlines()[-3:]
    assert [line.partition("id-")[0].rstrip() for line in serial] == ["1", "└─ 2", "  └─ 3"]
    group = tasks.pipeline_details(make_pipeline(parallel=True)).splitlines()[-3:]
    assert [line.partition("id-")[0].rstrip() for line in group] == ["├─ 1", "├─ 2", "└─ 3"]


def test_pipeline_has_plain_numbers_in_a_pipe() -> None:
    lines = tasks.pipeline_details(make_pipeline(parallel=False)).splitlines()[-3:]
    assert [line.split()[0] for line in lines] == ["1", "2", "3"]
