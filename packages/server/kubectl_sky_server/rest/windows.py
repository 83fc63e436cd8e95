"""Which rows of a list a page shows: filtered, counted and sorted as the page asks."""

import heapq
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Literal

from msgspec import Struct
from pydantic import BaseModel, ConfigDict, Field

from kubectl_sky.observe.documents import Task

_LABEL = re.compile("([^=!]+)(!?)==?(.*)")
_COLUMNS = "name|status|nodes|gpus|user|namespace|age"
Status = Literal["", "pending", "running", "completed", "failed"]


class Window(BaseModel):
    """The rows of a list that a page shows."""

    model_config = ConfigDict(frozen=True)

    rows: int | None = Field(
        default=None,
        ge=1,
        le=1000,
        description="Only so many rows, as events `rows`; else all tasks.",
    )
    filter: str = Field(
        default="",
        max_length=500,
        description="Words that the name, id, user, namespace, GPUs or image has, or LABEL=VALUE.",
    )
    status: Status = Field(default="", description="Only tasks with this status.")
    since: int | None = Field(
        default=None, ge=1, le=100_000, description="Only tasks that have changed in so many hours."
    )
    sort: str = Field(
        default="age",
        pattern=f"^-?({_COLUMNS})$",
        description="A column; `-age`: oldest first.",
    )


class Row(Struct, frozen=True):
    """What a window compares of a task."""

    status: str
    updated_at: str
    text: str
    labels: Mapping[str, str]
    values: Mapping[str, str | int]  # by the name of a column

    @classmethod
    def of(cls, task: Task) -> "Row":
        metadata = task.metadata
        accelerators = metadata.resources.accelerators or ""
        words = (task.name, task.task_id, task.username, metadata.namespace)
        gpus = re.search(r":(\d{1,9})", accelerators)
        return cls(
            status=task.status,
            updated_at=task.updated_at,
            text=" ".join([*words, accelerators, metadata.image]).lower(),
            labels=metadata.labels,
            values={
                "name": f"{metadata.pipeline_name or ''}/{task.name}".lower(),
                "status": task.status,
                "nodes": metadata.num_nodes,
                "gpus": int(gpus[1]) * metadata.num_nodes if gpus else 0,
                "user": task.username,
                "namespace": metadata.namespace,
            },
        )


Key = tuple[str, str, str]


class Found(Struct, frozen=True):
    """The tasks of a window in its order, and how many of each status match."""

    keys: tuple[Key, ...]
    counts: dict[str, int]


def find(window: Window, newest_first: Iterable[tuple[Key, Row]]) -> Found:
    """Find the tasks of a window."""
    matches = _matcher(window)
    matching = [(key, row) for key, row in newest_first if matches(row)]
    counts = Counter(row.status for _, row in matching)
    shown = [it for it in matching if window.status in ("", it[1].status)]
    return Found(_choose(window, shown), dict(counts))


def join(window: Window, parts: Iterable[Found], newest_first: Sequence[tuple[Key, Row]]) -> Found:
    """Find the tasks of a window in what was found in several lists."""
    counts = sum((Counter(part.counts) for part in parts), Counter[str]())
    return Found(_choose(window, newest_first), dict(counts))


def _choose(window: Window, shown: Sequence[tuple[Key, Row]]) -> tuple[Key, ...]:
    column = window.sort.removeprefix("-")
    is_descending = window.sort.startswith("-")
    rows = window.rows or len(shown)
    if column == "age":
        by_age = reversed(shown) if is_descending else shown
        chosen = list(islice(by_age, rows))
    else:
        choose = heapq.nlargest if is_descending else heapq.nsmallest  # both are stable
        chosen = choose(rows, shown, lambda it: it[1].values[column])
    return tuple(key for key, _ in chosen)


def _matcher(window: Window) -> Callable[[Row], bool]:
    words: list[str] = []
    labels: list[tuple[str, bool, str]] = []
    for word in re.split(r"[\s,]+", window.filter):
        if label := _LABEL.fullmatch(word):
            labels.append((label[1], not label[2], label[3]))
        elif word:
            words.append(word.lower())

    cutoff = ""
    if window.since:
        cutoff = f"{datetime.now(UTC) - timedelta(hours=window.since):%Y-%m-%dT%H:%M:%SZ}"

    def matches(row: Row) -> bool:
        return (
            row.updated_at >= cutoff
            and all(word in row.text for word in words)
            and all((row.labels.get(key) == value) is wanted for key, wanted, value in labels)
        )

    return matches
