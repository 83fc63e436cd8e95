"""SkyPilot's priorities."""

import pytest

from kubectl_sky.settings import Settings
from kubectl_sky.spec.task import Resources
from tests.plan.test_resolve import FACTS, make_notes, make_plan, make_task

CLASSES = {"-1000..-1": "low", "500..1000": "high", "0..1000": "usual", "700": "urgent"}


@pytest.mark.parametrize(
    ("priority", "expected"),
    [(-1000, "low"), (-1, "low"), (0, "usual"), (600, "high"), (700, "urgent"), (1000, "high")],
)
def test_the_narrowest_range_counts(priority: int, expected: str) -> None:
    settings = Settings(priority_classes=CLASSES)
    task = make_task(resources=Resources(priority=priority))
    plan = make_plan(task, FACTS, settings)
    assert plan.priority_class == expected
    assert plan.annotations["kubectl-sky/priority"] == str(priority)
    assert list(make_notes(task, FACTS, settings)) == []


def test_the_file_s_class_wins() -> None:
    task = make_task(resources=Resources(priority=700, priority_class="mine"))
    settings = Settings(priority_classes=CLASSES)
    assert make_plan(task, FACTS, settings).priority_class == "mine"


def test_without_a_class_it_is_written_down() -> None:
    task = make_task(resources=Resources(priority=3))
    plan = make_plan(task, FACTS, Settings(priority_classes={"5": "high"}))
    assert plan.priority_class is None
    assert plan.annotations["kubectl-sky/priority"] == "3"
    (note,) = make_notes(task, FACTS, Settings())
    assert note.startswith("priority: 3 is written as the annotation kubectl-sky/priority only; ")


def test_silence_writes_nothing() -> None:
    plan = make_plan(make_task(), FACTS, Settings(priority_classes=CLASSES))
    assert plan.priority_class is None
    assert "kubectl-sky/priority" not in plan.annotations
