"""Indexed completions of Jobs: the index of a pod, and the lists that a Job's status keeps."""

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType

from kubectl_sky import counts
from kubectl_sky.workloads.workload import Object, field, number

INDEX = "batch.kubernetes.io/job-completion-index"
FIELD = f"metadata.annotations['{INDEX}']"  # where a pod reads its own; labels have it since 1.28

_HIGHEST = 1 << 31

FIRST: Mapping[str, str] = MappingProxyType({INDEX: "0"})


def count(item: Object) -> int:
    """Return how many indexes a Job has; at least one, whatever somebody made of it."""
    return max(counts.whole(field(item, ("spec", "completions"))), 1)


def index(pod: Object) -> int:
    """Return the index of a pod; old clusters say it in an annotation only."""
    text = pod["metadata"].get("annotations", {}).get(INDEX)
    return number(pod, INDEX) if text is None else counts.whole(text)


@lru_cache(maxsize=8)  # the lists of one object: each may be as long as a task has nodes
def listed(text: str) -> dict[int, int]:
    """Return the numbers of a list such as `1,3-5`, each with its place in the list.

    A list that is too long for a task is cut.
    """
    found: list[int] = []
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        low, high = counts.whole(first, _HIGHEST), counts.whole(last or first, _HIGHEST)
        found += range(low, min(high + 1, low + counts.NODES + 1 - len(found)))
    return {number: place for place, number in enumerate(found)}


def within(item: Object, field: str, wanted: int) -> bool:
    """Say whether an index is in a list of a Job's status."""
    return wanted in listed(item.get("status", {}).get(field, ""))
