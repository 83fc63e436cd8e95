"""Whole numbers that objects of the cluster state, within bounds: anybody may have written them."""

NODES = 100_000  # of one task: Kubernetes' own limit for the pods of an Indexed Job
ALL_NODES = 300_000  # of all tasks of a list: about 300 MB

_DIGITS = 12  # longer numbers are beyond every bound


def whole(value: object, most: int = NODES + 1) -> int:
    """Return a number, or a text of digits, cut to the range 0 to `most`; 0 for anything else."""
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value) if len(value.lstrip("0")) <= _DIGITS else most
    return max(0, min(value, most)) if type(value) is int else 0
