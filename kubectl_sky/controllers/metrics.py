"""What Prometheus reads of the controllers, as text: no package is needed for counters and gauges.

Labels name a controller and its loop, never a user, a namespace or a task.
"""

from collections.abc import Iterator, Mapping

from msgspec import Struct

PATH = "/metrics"
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_PREFIX = "kubectl_sky_controller_"


class Numbers(Struct, frozen=True):
    """The numbers of one loop; counters count from the start of the process as the leader.

    `seconds` is the time that its reconciles took. The queue has the keys that are due, and `lag`
    is how many seconds ago the first of them became so.
    """

    reconciles: int = 0
    errors: int = 0
    watch_errors: int = 0
    seconds: float = 0.0
    queue: int = 0
    running: int = 0
    lag: float = 0.0


# The name and the type of each metric, its help, and its field of Numbers.
_METRICS = (
    ("reconciles_total", "counter", "Reconciles of keys, failed ones included.", "reconciles"),
    ("errors_total", "counter", "Reconciles that failed and are retried.", "errors"),
    ("watch_errors_total", "counter", "Watches that were refused or cut off.", "watch_errors"),
    ("reconcile_seconds_total", "counter", "Seconds that reconciles took.", "seconds"),
    ("queue_length", "gauge", "Keys that are due and not being reconciled.", "queue"),
    ("running", "gauge", "Keys that are being reconciled.", "running"),
    ("lag_seconds", "gauge", "Seconds that the first key of the queue is overdue.", "lag"),
)

Loops = Mapping[tuple[str, str], Numbers]  # by the names of controller and loop


def text(names: tuple[str, ...], is_leader: bool, loops: Loops) -> str:
    """Return the text for Prometheus; a process that does not lead has no loops."""
    return "\n".join([*_leaders(names, is_leader), *_lines(loops)])


def _leaders(names: tuple[str, ...], is_leader: bool) -> Iterator[str]:
    yield from _head("leader", "gauge", "Whether this process holds the Leases of the controllers.")
    for name in names:
        yield f'{_PREFIX}leader{{controller="{name}"}} {int(is_leader)}'


def _lines(loops: Loops) -> Iterator[str]:
    for metric, kind, help_, field in _METRICS if loops else ():
        yield from _head(metric, kind, help_)
        for (controller, loop), numbers in loops.items():
            labels = f'{{controller="{controller}",loop="{loop}"}}'
            yield f"{_PREFIX}{metric}{labels} {getattr(numbers, field):.12g}"


def _head(metric: str, kind: str, help_: str) -> Iterator[str]:
    yield f"# HELP {_PREFIX}{metric} {help_}"
    yield f"# TYPE {_PREFIX}{metric} {kind}"
