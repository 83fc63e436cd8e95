"""`queues fairshare`: the PriorityClasses of fair share, as a user may see them."""

from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct
from msgspec.structs import asdict

from kubectl_sky.cluster import objects
from kubectl_sky.cluster.session import Session
from kubectl_sky.fairshare.model_state import LABEL, OWNER, QUEUE, RECOVERS, State
from kubectl_sky.words import kinds

if TYPE_CHECKING:
    from kubectl_sky.words import models

Json = dict[str, Any]


class ClassStatus(Struct, frozen=True):
    """A PriorityClass; `owner` is empty if it is only listed in the settings.

    `count` are finished PodGroups that still lower the value. `recovers` is the time of the next
    step, or empty. The numbers are None if the annotations are invalid.
    """

    name: str
    queue: str
    owner: str
    value: int
    base: int | None
    count: int | None
    running: int | None
    recovers: str

    @classmethod
    def read(cls, item: Json) -> "ClassStatus":
        annotations, state = item["metadata"].get("annotations") or {}, State.read(item)
        return cls(
            name=item["metadata"]["name"],
            queue=annotations.get(QUEUE, ""),
            owner=annotations.get(OWNER, ""),
            value=item["value"],
            base=state.base if state else None,
            count=state.count if state else None,
            running=len(state.running) if state else None,
            recovers=_time(annotations.get(RECOVERS, "")),
        )

    def as_json(self) -> "models.FairShareClass":
        return cast("models.FairShareClass", asdict(self))


def list_classes(session: Session) -> list[ClassStatus]:
    """Return the classes by queue and owner. Raises ClusterError."""
    items = objects.list_all(session, kinds.PRIORITY_CLASS, label_selector=LABEL)
    return sorted(
        map(ClassStatus.read, items), key=lambda status: (status.queue, status.owner, status.name)
    )


def _time(text: str) -> str:
    """Return a time, or nothing if an admin has damaged it."""
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return ""
    return text
