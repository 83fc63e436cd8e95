"""A deeper look at a task may say more than a shallow one, but nothing else."""

from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from kubectl_sky.observe import status
from kubectl_sky.observe.nodes import State
from kubectl_sky.observe.signals import ALL_PODS, TaskSnapshot
from kubectl_sky.observe.verdict import Diagnosis, judge
from kubectl_sky.words import kinds
from kubectl_sky.workloads import registry
from kubectl_sky.workloads.workload import LATE
from tests.observe.test_agreement import BACKENDS, happened
from tests.observe.test_doctor import SNAPSHOTS, load
from tests.observe.world import EVENTS, World
from tests.reading import read_jobs, read_pods

_OWN = (kinds.POD.kind, *(kind.kind for kind in registry.KINDS))
_NEAR = (
    kinds.EVENT.kind,
    kinds.QUEUED_WORKLOAD.kind,
    kinds.POD_GROUP.kind,
    kinds.GANG.resource,
    kinds.NODE.kind,
    ALL_PODS,
)
DEPTHS = (_OWN, (*_OWN, *_NEAR))  # what list reads of each task, and what status does


def cut(seen: TaskSnapshot) -> list[TaskSnapshot]:
    """Return the same moment as shallower commands see it, the shallowest first, and as it is."""
    shallow = []
    for depth in DEPTHS:
        objects = {kind: items for kind, items in seen.objects.items() if kind in depth}
        shallow.append(replace(seen, logs={}, objects=objects))
    return [*shallow, seen]


def told(verdict: Diagnosis) -> str:
    """Return all that a verdict says."""
    findings = [text for it in verdict.findings for text in (it.headline, it.what, it.evidence)]
    return "\n".join([verdict.task.note, *verdict.task.causes.values(), *findings])


def failure(verdict: Diagnosis) -> tuple[str, str] | None:
    """Return the node that failed first, and how it ended."""
    first = verdict.task.first_failure
    return (first.name, first.end) if first else None


def check(seen: TaskSnapshot) -> None:
    verdicts = []
    for part in cut(seen):
        (task,) = status.tasks(read_jobs(part.workloads), read_pods(part.of(kinds.POD)))
        verdicts.append(judge(task, part))

    for shallow, deep in pairwise(verdicts):
        assert deep.task.state is shallow.task.state
        assert failure(deep) == failure(shallow)
        for text in shallow.task.causes.values():
            assert text in told(deep)
        if shallow.cause and not shallow.cause.mere:
            assert deep.cause
            assert deep.cause.rule == shallow.cause.rule

    for verdict in verdicts:
        assert verdict.findings or verdict.task.state is not State.FAILED
    first = verdicts[-1].task.first_failure
    cause = verdicts[-1].cause
    if first and first.reason == LATE:
        assert cause
        assert cause.rule in ("deadline", "pod-deadline")


@pytest.mark.parametrize("name", sorted(path.stem for path in SNAPSHOTS.glob("*.json")))
def test_recorded_snapshot_says_the_same_at_each_depth(name: str) -> None:
    check(load(name))


@settings(max_examples=300, deadline=None)
@example(2, ("jobs", 0), [(World.delete_job, 0), (World.expire, 1)])
@given(
    st.integers(1, 4),
    BACKENDS,
    st.lists(st.tuples(st.sampled_from(EVENTS), st.integers(0, 3)), max_size=12),
)
def test_task_after_random_events_says_the_same_at_each_depth(
    nodes: int, backend: tuple[str, int], events: list[tuple[Callable[..., None], int]]
) -> None:
    name, limit = backend
    world = World.submitted(nodes, limit, name)
    happened(world, events)
    if world.owned():
        check(world.snapshot())
