"""Indexed completions of Jobs: pod indexes, and index lists in the Job status."""

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType

from kubectl_sky import bounded
from kubectl_sky.workloads.workload import Object, field, number

INDEX = "batch.kubernetes.io/job-completion-index"
FIELD = f"metadata.annotations['{INDEX}']"  # pod field with the index; also a label since 1.28

_HIGHEST = 1 << 31

FIRST: Mapping[str, str] = MappingProxyType({INDEX: "0"})


def count(item: Object) -> int:
    """Return the number of indexes of a Job; at least 1, even if it was edited."""
    return max(bounded.integer(field(item, ("spec", "completions"))), 1)


def index(pod: Object) -> int:
    """Return the index of a pod; old clusters set only the annotation."""
    text = pod["metadata"].get("annotations", {}).get(INDEX)
    return number(pod, INDEX) if text is None else bounded.integer(text)


@lru_cache(maxsize=8)  # the lists of one object; each has up to one entry per node
def listed(text: str) -> dict[int, int]:
    """Return the numbers of a list such as `1,3-5`, each with its position.

    A list longer than the maximum number of nodes is truncated.
    """
    numbers: list[int] = []
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        low, high = bounded.integer(first, _HIGHEST), bounded.integer(last or first, _HIGHEST)
        numbers += range(low, min(high + 1, low + bounded.NODES + 1 - len(numbers)))
    return {number: position for position, number in enumerate(numbers)}


def within(item: Object, field: str, requested: int) -> bool:
    """Return whether an index is in a list of the Job's status."""
    return requested in listed(item.get("status", {}).get(field, ""))
