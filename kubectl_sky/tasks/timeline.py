"""`status --timeline`: read what tells when the nodes of tasks were queued, scheduled and run."""

from collections.abc import Sequence
from datetime import UTC

from kubectl_sky.cluster.session import Session
from kubectl_sky.observe.nodes import State
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.observe.timeline import Timeline, task_timeline
from kubectl_sky.tasks import doctor
from kubectl_sky.tasks.setups import SetupReader


def read(session: Session, tasks: Sequence[TaskStatus]) -> Timeline:
    timelines = []
    for task in tasks:
        snapshot, _ = doctor.snapshot(session, task)
        current = snapshot.task or task
        setups = SetupReader(session).read([current], (State.RUNNING, State.FAILED))
        timelines.append(task_timeline(snapshot, current, setups))
    return Timeline(now=session.now().astimezone(UTC).replace(microsecond=0), tasks=timelines)
