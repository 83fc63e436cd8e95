"""Collect notes for the user about a decided task."""

from collections.abc import Iterator

from kubectl_sky.facts import Facts
from kubectl_sky.plan import (
    buckets,
    defaults,
    high_speed_network,
    interactive,
    ports,
    priority,
    queueing,
    service_account,
    storage,
)
from kubectl_sky.plan.placement import Placement
from kubectl_sky.settings import Settings
from kubectl_sky.spec.task import Task


def notes(task: Task, placement: Placement, facts: Facts, settings: Settings) -> Iterator[str]:
    """Yield notes on the chosen candidate, missing cluster features and defaults."""
    yield from placement.notes
    yield from interactive.notes(task)
    context = placement.resources.context
    if context:  # cleared once a context has been chosen
        yield f"infra: submit uses context {context}, kubectl apply the current one"
    if note := priority.note(placement.resources, settings):
        yield note
    yield from defaults.notes(placement, settings)
    yield from storage.notes(task, facts)
    yield from storage.code_volume_notes(task, facts, settings)
    yield from buckets.notes(task.buckets, settings)
    yield from high_speed_network.notes(placement, facts)
    yield from ports.notes(task, placement.resources, settings)
    options = task.kubernetes
    yield from queueing.notes(task, settings)
    if service_account.depends_on_context(options.accounts, facts.context or context or ""):
        yield "remote_identity: the service account depends on kubectl's context; submit writes it"
