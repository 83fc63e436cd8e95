"""What is told beside a plan."""

from kubectl_sky.settings import Settings
from kubectl_sky.spec.task import Resources
from tests.plan.test_resolve import FACTS, make_notes, make_task


def test_a_context_is_for_submit() -> None:
    (note,) = make_notes(make_task(1, Resources(context="west")), FACTS, Settings())
    assert note.startswith("infra: submit uses context west, ")
