"""Indexed completions of Jobs: the index of a pod, and the lists that a Job's status keeps."""

from kubectl_sky.workloads.workload import Object, number

INDEX = "batch.kubernetes.io/job-completion-index"
FIELD = f"metadata.annotations['{INDEX}']"  # where a pod reads its own; labels have it since 1.28


def count(item: Object) -> int:
    """Return how many indexes a Job has; at least one, whatever somebody made of it."""
    return max(int(item.get("spec", {}).get("completions") or 1), 1)


def index(pod: Object) -> int:
    """Return the index of a pod; old clusters say it in an annotation only."""
    text = pod["metadata"].get("annotations", {}).get(INDEX, "")
    return int(text) if text.isdecimal() else number(pod, INDEX)


def within(text: str, wanted: int) -> bool:
    """Say whether an index is in a list such as `1,3-5`."""
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        if int(first) <= wanted <= int(last or first):
            return True
    return False
