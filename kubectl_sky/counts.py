"""Read counts from cluster objects, within bounds: the objects are untrusted."""

NODES = 100_000  # of one task: Kubernetes' limit for the pods of an Indexed Job
ALL_NODES = 300_000  # of all tasks in a list: about 300 MB

_DIGITS = 12  # longer numbers exceed every bound


def bounded_int(value: object, maximum: int = NODES + 1) -> int:
    """Return a number, or a string of digits, limited to the range 0 to `maximum`.

    Anything else gives 0.
    """
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value) if len(value.lstrip("0")) <= _DIGITS else maximum
    return max(0, min(value, maximum)) if type(value) is int else 0
