"""Indexed completions of Jobs: the index of a pod, and the lists that a Job's status keeps."""

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType

from kubectl_sky.workloads.workload import Object, number

INDEX = "batch.kubernetes.io/job-completion-index"
FIELD = f"metadata.annotations['{INDEX}']"  # where a pod reads its own; labels have it since 1.28

FIRST: Mapping[str, str] = MappingProxyType({INDEX: "0"})


def count(item: Object) -> int:
    """Return how many indexes a Job has; at least one, whatever somebody made of it."""
    return max(int(item.get("spec", {}).get("completions") or 1), 1)


def index(pod: Object) -> int:
    """Return the index of a pod; old clusters say it in an annotation only."""
    text = pod["metadata"].get("annotations", {}).get(INDEX, "")
    return int(text) if text.isdecimal() else number(pod, INDEX)


@lru_cache(maxsize=256)
def listed(text: str) -> dict[int, int]:
    """Return the numbers of a list such as `1,3-5`, each with its place in the list."""
    found: list[int] = []
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return {number: place for place, number in enumerate(found)}


def within(item: Object, field: str, wanted: int) -> bool:
    """Say whether an index is in a list of a Job's status."""
    return wanted in listed(item.get("status", {}).get(field, ""))
