"""What is told beside a plan."""

from kubectl_sky.plan.notes import notes
from kubectl_sky.settings import Settings
from kubectl_sky.spec.recovery import Recovery
from kubectl_sky.spec.task import Resources
from tests.plan.test_resolve import FACTS, make_task


def test_nodes_start_again_alone() -> None:
    asked = Resources(recovery=Recovery(1))
    assert list(notes(make_task(1, asked), FACTS, Settings())) == []
    (note,) = notes(make_task(2, asked), FACTS, Settings())
    assert note.startswith("job_recovery: a node that starts again does so alone")
    assert list(notes(make_task(2), FACTS, Settings())) == []


def test_a_context_is_for_submit() -> None:
    (note,) = notes(make_task(1, Resources(context="west")), FACTS, Settings())
    assert note.startswith("infra: submit sends it to context west; ")
