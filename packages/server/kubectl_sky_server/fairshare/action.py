"""`queues fairshare`: the PriorityClasses of fair share, as a user may see them."""

from datetime import datetime
from typing import Annotated, Any

from msgspec import Struct

from kubectl_sky.cluster import objects
from kubectl_sky.cluster.session import Session
from kubectl_sky.plan.fair_share import LABEL, QUEUE
from kubectl_sky.words import kinds
from kubectl_sky.words.core_objects import PriorityClass
from kubectl_sky.words.documents import Document, Note
from kubectl_sky_server.fairshare.model_state import OWNER, RECOVERS, State

Json = dict[str, Any]


class FairShareClass(Struct, frozen=True):
    """A PriorityClass of fair share; numbers are null if its annotations are invalid."""

    name: str
    queue: str
    owner: Annotated[str, Note("empty for a class that the settings list")]
    value: int
    base: Annotated[int | None, Note("value without penalty")]
    count: Annotated[int | None, Note("finished PodGroups that lower the value")]
    running: Annotated[int | None, Note("running PodGroups that lower the value")]
    recovers: Annotated[str, Note("time of the next step of the recovery, or empty")]

    @classmethod
    def read(cls, item: PriorityClass) -> "FairShareClass":
        annotations = item.metadata.annotations
        state = State.read(annotations)
        base = state.base if state else None
        count = state.count if state else None
        running = len(state.running) if state else None

        return cls(
            name=item.metadata.name,
            queue=annotations.get(QUEUE, ""),
            owner=annotations.get(OWNER, ""),
            value=item.value,
            base=base,
            count=count,
            running=running,
            recovers=_time(annotations.get(RECOVERS, "")),
        )


class FairShareList(Document, frozen=True, kw_only=True):
    """The PriorityClasses of fair share: `queues fairshare`."""

    classes: list[FairShareClass]


def list_classes(session: Session) -> list[FairShareClass]:
    """Return the classes by queue and owner. Raises ClusterError."""
    items = objects.list_all(session, kinds.PRIORITY_CLASS, label_selector=LABEL)
    return sorted(
        map(FairShareClass.read, items),
        key=lambda status: (status.queue, status.owner, status.name),
    )


def _time(text: str) -> str:
    """Return a time, or nothing if an admin has damaged it."""
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return ""
    return text
