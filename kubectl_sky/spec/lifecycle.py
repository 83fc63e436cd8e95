"""When nodes restart, and when a finished task is deleted: `job_recovery` and `autostop`."""

import re
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from kubectl_sky.errors import Problem
from kubectl_sky.spec import schema
from kubectl_sky.spec.document import Data, Document, Path, printable

STRATEGIES = ("FAILOVER", "EAGER_NEXT_REGION", "none")
_NONE = "NONE"
_STEP_REGEX: Path = ("config", "kubectl_sky", "step_regex")
MAX_INTEGER = 2**31 - 1  # Kubernetes counts restarts and seconds in 32 bits


class Recovery(Struct, frozen=True):
    """Restart a node that the cluster evicts or deletes, and a node that fails.

    `restarts` is the limit of restarts after a failure; failures with one of `exit_codes` do not
    count.
    """

    restarts: int = 0
    exit_codes: tuple[int, ...] = ()


class OnHang(Struct, frozen=True):
    """What is done when a node hangs: `dump`, `fail` or `restart`, and after how much silence."""

    action: str
    after: str = "10m"

    @property
    def ends(self) -> bool:
        """Whether the program of the node is ended."""
        return self.action != "dump"

    def __str__(self) -> str:
        return f"{self.action} {self.after}"


def on_hang(value: Data) -> OnHang | None:
    if isinstance(value, str):
        return OnHang(value)
    return OnHang(**value) if isinstance(value, dict) else None


def recovery(value: Data) -> Recovery | None:
    if value is None or _strategy(value) == _NONE:
        return None
    if not isinstance(value, dict):
        return Recovery()
    codes = value.get("recover_on_exit_codes")
    codes = codes if isinstance(codes, list) else [codes]
    return Recovery(
        restarts=min(value.get("max_restarts_on_errors") or 0, MAX_INTEGER),
        exit_codes=tuple(sorted({code for code in codes if code})),
    )


def _strategy(value: Data) -> str:
    strategy = value.get("strategy") if isinstance(value, dict) else value
    return strategy.upper() if isinstance(strategy, str) else ""


def _rule(document: Document) -> Iterator[Problem]:
    for path, values in document.resources.maps:
        field_path = (*path, "job_recovery")
        value = values.get("job_recovery")
        if value is not None:
            yield from _name(document, field_path, value)
            yield from _useless(document, field_path, value)


def _name(document: Document, where: Path, value: Data) -> Iterator[Problem]:
    """Report strategies that are unknown, or ignored because there is one cluster.

    In SkyPilot, a strategy looks for another region or provider.
    """
    strategy = value.get("strategy") if isinstance(value, dict) else value
    path = (*where, "strategy") if isinstance(value, dict) else where
    if not isinstance(strategy, str) or strategy.upper() == _NONE:
        return
    if strategy.upper() not in STRATEGIES:
        message = f'expected one of {", ".join(STRATEGIES)}, got "{printable(strategy)}"'
        yield document.problem(path, message, schema.closest(strategy, STRATEGIES))
        return
    message = "ignored: there is one cluster, and nowhere else to go"
    hint = "a node that is taken away starts again here"
    yield document.unused(path, message, hint)


def _useless(document: Document, where: Path, value: Data) -> Iterator[Problem]:
    if not isinstance(value, dict):
        return
    fields = ("max_restarts_on_errors", "recover_on_exit_codes")
    if _strategy(value) == _NONE:
        for field in (name for name in fields if value.get(name) is not None):
            message = "ignored: with the strategy none nothing starts again"
            yield document.unused((*where, field), message, "leave strategy out", key=True)
        return
    codes = value.get(fields[1])
    for index, code in enumerate(codes if isinstance(codes, list) else [codes]):
        if code == 0 and not isinstance(code, bool):
            path = (*where, fields[1], index) if isinstance(codes, list) else (*where, fields[1])
            yield document.unused(path, "ignored: what ends with 0 has not failed")


class Hook(Struct, frozen=True):
    """A script for when a node is told to stop: why is not known, so the first event counts."""

    run: str
    event: str
    timeout: int  # seconds


_EVENTS = ("preemption", "stop", "down")
_HOOK_SECONDS = 3600  # SkyPilot's default


def hooks(config: Mapping[str, Any] | None) -> tuple[Hook, ...]:
    items = (config or {}).get("hooks") or ()
    return tuple(
        Hook(
            item["run"],
            next(event for event in _EVENTS if event in (item.get("events") or _EVENTS)),
            item.get("timeout") or _HOOK_SECONDS,
        )
        for item in items
    )


RULES = ((frozenset({"job_recovery"}), (_rule,)),)


def _steps(document: Document) -> Iterator[Problem]:
    """Report an expression for steps that is none, or has no number to count."""
    text = document.get(*_STEP_REGEX)
    if not isinstance(text, str):
        return
    try:
        with warnings.catch_warnings(category=FutureWarning, action="error"):
            groups = re.compile(text).groups
    except (re.error, FutureWarning, RecursionError, OverflowError) as error:
        yield document.problem(_STEP_REGEX, f"no regular expression: {error}")
        return
    if groups not in (1, 2):
        message = f"expected one or two groups, the numbers that count; it has {groups}"
        yield document.problem(_STEP_REGEX, message, r'such as "round (\d+)"')


CONFIG_RULES = (_steps,)


MIN_TTL = 60  # seconds; a client that follows a task must see it finish
_DEFAULT_IDLE = 5  # minutes, SkyPilot's default


def is_deleted_when_finished(autostop: Data) -> bool:
    """Report whether to delete a finished task; autostop needs `down` for it."""
    return isinstance(autostop, dict) and autostop.get("down") is True


def ttl_seconds(autostop: Data) -> int | None:
    """Return the seconds until a finished task is deleted; None keeps it."""
    if not isinstance(autostop, dict) or not is_deleted_when_finished(autostop):
        return None
    minutes = autostop.get("idle_minutes")
    idle = _DEFAULT_IDLE if minutes is None else int(str(minutes))
    return min(max(idle * 60, MIN_TTL), MAX_INTEGER)
