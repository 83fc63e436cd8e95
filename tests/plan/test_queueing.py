"""Queues, flex-start nodes and service accounts."""

import pytest
from msgspec.structs import replace

from kubectl_sky.errors import SkyError, UserError
from kubectl_sky.plan import pod_options, queueing
from kubectl_sky.spec.kubernetes import Kubernetes
from kubectl_sky.spec.task import Resources, Task
from kubectl_sky.words.facts import Queues
from kubectl_sky.words.settings import Settings
from tests.builders import FACTS, make_notes, make_plan, make_task

TEAM = Settings(queue="team")


@pytest.mark.parametrize(
    ("asked", "expected"), [(None, "team"), ("mine", "mine"), ("", None)], ids=str
)
def test_queue_of_task_overrides_settings(asked: str | None, expected: str | None) -> None:
    assert queueing.queue(Kubernetes(queue=asked), TEAM) == expected


def test_queue_notes_name_queue_and_separate_admission() -> None:
    mine = Kubernetes(queue="a")
    (note,) = queueing.notes(Task(), TEAM)
    assert note == "settings: the task is queued in team"
    assert list(queueing.notes(Task(kubernetes=mine), TEAM)) == []
    together = Task(kubernetes=mine, num_nodes=2, backend="indexed")
    assert list(queueing.notes(together, TEAM)) == []
    (note,) = queueing.notes(Task(kubernetes=mine, num_nodes=2), TEAM)
    assert note.startswith("queue: Kueue admits nodes one by one")


def test_flex_start_adds_selector_or_annotation() -> None:
    asked = Kubernetes(flex_start=True, run_seconds=600)
    assert queueing.node_selector(asked, Settings()) == {"cloud.google.com/gke-flex-start": "true"}
    assert queueing.annotations(asked) == {}
    queued = Kubernetes(flex_start=True, run_seconds=600, queue="q", annotations={"a": "b"})
    assert queueing.node_selector(queued, Settings()) == {}
    assert queueing.annotations(queued) == {
        "a": "b",
        "provreq.kueue.x-k8s.io/maxRunDurationSeconds": "600",
    }


@pytest.mark.parametrize(
    ("named", "context", "expected"),
    [
        ({}, "prod", None),
        ({"*": "a"}, "prod", "a"),
        ({"*": "a"}, "", "a"),
        ({"prod-*": "a", "*": "b"}, "prod-eu", "a"),
        ({"prod-*": "a", "*": "b"}, "dev", "b"),
        ({"prod-*": "a", "*": "b"}, "", None),
        ({"prod": "a"}, "", None),
    ],
)
def test_account_is_chosen_by_context_pattern(
    named: dict[str, str], context: str, expected: str | None
) -> None:
    assert pod_options.find_account(named, context) == expected
    assert pod_options.account_depends_on_context(named, context) == (
        bool(named) and expected is None
    )


def test_account_missing_for_context_is_user_error() -> None:
    with pytest.raises(UserError, match='no service account is set for the context "dev"; add one'):
        pod_options.find_account({"prod": "a"}, "dev")


QUEUED = Task(kubernetes=Kubernetes(queue="gold"), resources=Resources(priority_class="urgent"))


@pytest.mark.parametrize(
    ("queues", "says"),
    [
        (Queues(installed=False), "the queue gold, and Kueue is not installed"),
        (
            Queues(names=("silver", "blue")),
            'queue "gold" not found in namespace "team-a"; existing queues',
        ),
        (Queues(names=()), "the namespace has no LocalQueue"),
        (
            Queues(names=(), elsewhere=("team-b",)),
            "the namespace has no LocalQueue; one of this name is in team-b, and is only for tasks",
        ),
    ],
)
def test_queue_unavailable_is_refused(queues: Queues, says: str) -> None:
    assert says in refusal(QUEUED, queues)
    assert refusal(Task(), queues) == ""


@pytest.mark.parametrize("queues", [None, Queues(), Queues(names=("silver", "gold"))])
def test_queue_existing_or_unknown_is_accepted(queues: Queues | None) -> None:
    assert refusal(QUEUED, queues) == ""


def refusal(task: Task, queues: Queues | None) -> str:
    """Return why a task cannot be queued; empty if it can."""
    try:
        queueing.check(task, replace(FACTS, queues=queues), Settings())
    except SkyError as error:
        return str(error)
    return ""


def test_queue_priority_class_of_kueue_becomes_label() -> None:
    plan = make_plan(QUEUED, replace(FACTS, queues=Queues(classes=("urgent",))))
    assert plan.queueing["kueue.x-k8s.io/priority-class"] == "urgent"
    assert plan.priority_class is None
    plan = make_plan(QUEUED, FACTS, Settings())
    assert plan.queueing == {"kueue.x-k8s.io/queue-name": "gold"}
    assert plan.priority_class == "urgent", "Kueue also uses a PriorityClass of pods"


CLASSES = {"-1000..-1": "low", "500..1000": "high", "0..1000": "usual", "700": "urgent"}


@pytest.mark.parametrize(
    ("priority", "expected"),
    [(-1000, "low"), (-1, "low"), (0, "usual"), (600, "high"), (700, "urgent"), (1000, "high")],
)
def test_priority_uses_class_of_narrowest_range(priority: int, expected: str) -> None:
    settings = Settings(priority_classes=CLASSES)
    task = make_task(resources=Resources(priority=priority))
    plan = make_plan(task, FACTS, settings)
    assert plan.priority_class == expected
    assert plan.annotations["kubectl-sky/priority"] == str(priority)
    assert list(make_notes(task, FACTS, settings)) == []


def test_priority_class_of_file_overrides_settings() -> None:
    task = make_task(resources=Resources(priority=700, priority_class="mine"))
    settings = Settings(priority_classes=CLASSES)
    assert make_plan(task, FACTS, settings).priority_class == "mine"


def test_priority_without_class_is_annotation_with_note() -> None:
    task = make_task(resources=Resources(priority=3))
    plan = make_plan(task, FACTS, Settings(priority_classes={"5": "high"}))
    assert plan.priority_class is None
    assert plan.annotations["kubectl-sky/priority"] == "3"
    (note,) = make_notes(task, FACTS, Settings())
    assert note.startswith("priority: 3 is written as the annotation kubectl-sky/priority only; ")


def test_priority_not_set_writes_nothing() -> None:
    plan = make_plan(make_task(), FACTS, Settings(priority_classes=CLASSES))
    assert plan.priority_class is None
    assert "kubectl-sky/priority" not in plan.annotations


def test_queue_max_duration_is_a_minute_after_deadline_of_job() -> None:
    plan = make_plan(replace(QUEUED, max_duration="1h"))
    assert (plan.max_seconds, plan.queueing["kueue.x-k8s.io/max-exec-time-seconds"]) == (
        3600,
        "3660",
    )
