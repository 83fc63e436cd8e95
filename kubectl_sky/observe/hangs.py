"""Find which node of a running task hangs, from what its nodes print and where they are."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta

from msgspec import Struct
from msgspec.structs import replace

from kubectl_sky.observe.ranks import MIN_LINES, RankActivity
from kubectl_sky.words import age

_ALL_SILENT = timedelta(minutes=10)  # after which it is told that no node prints, whatever it does
_MAX_NAMED = 8  # ranks


class Hang(Struct, frozen=True):
    """Which nodes hang, and what the others do."""

    text: str
    silence: timedelta  # since one of them has printed last
    ranks: tuple[int, ...] = ()
    more: str = ""
    is_certain: bool = True  # else they may compute


def list_silent(ranks: Sequence[RankActivity], now: datetime) -> list[RankActivity]:
    """Return the nodes that are silent for unusually long; none if only a few print at all.

    In many programs only rank 0 prints; others have printed something at their start. Those without
    a rhythm have the limit of the others, and count only beside a majority that prints.
    """
    silences = [(it, silence) for it in ranks if (silence := it.silence(now)) is not None]
    limits = sorted(it.limit for it, _ in silences if it.limit is not None)
    usual = limits[len(limits) // 2] if limits else _ALL_SILENT.total_seconds()
    silent = [
        it
        for it, silence in silences
        if silence.total_seconds() >= (usual if it.limit is None else it.limit)
    ]
    others = len(silences) - len(silent)
    if others and others <= len(silent):
        silent = [it for it in silent if it.limit is not None]
    return silent if not others or len(silent) <= others else []


def find_hang(ranks: Sequence[RankActivity], now: datetime) -> Hang | None:
    """Return which nodes hang; None if none is silent, or if those that are go on computing.

    If all are silent, it is those that stand elsewhere than most, or that are a step behind. What
    PyTorch's flight recorder tells is only added.
    """
    hang = _find_hang(ranks, now)
    recorded = next((it.flight_recorder for it in ranks if it.flight_recorder), "")
    return replace(hang, more=f"{hang.more}; {recorded}") if hang and recorded else hang


def _find_hang(ranks: Sequence[RankActivity], now: datetime) -> Hang | None:
    silent = list_silent(ranks, now)
    if not silent:
        return None
    printing = [it for it in ranks if it.last_output and it not in silent]
    if printing:
        return _find_minority(silent, printing, now)

    since = _shortest(silent, now)
    if odd := _find_odd(ranks, since):
        peers = [it for it in ranks if it not in odd]
        more = f"; {_describe_peers(peers)}{_usage(odd)}"
        return Hang(_describe(odd, since), since, _numbers(odd), more, _is_certain(odd))
    if since < _ALL_SILENT:
        return None

    text = f"no rank has printed anything for {age.duration(since)}"
    positions = {it.position for it in ranks}
    position = next(iter(positions)) if len(positions) == 1 else ""
    more = f"; all are in {position}" if position else ""
    return Hang(text, since, _numbers(ranks), more, is_certain=False)


def describe_look(ranks: Sequence[RankActivity], now: datetime | None, on_hang: str = "") -> str:
    """Return what was seen of nodes of which none hangs; empty if none was looked at.

    With `on_hang`, also what that waits for.
    """
    if not ranks or now is None:
        return ""
    total = len(ranks)
    printing = sum(bool(it.last_output) for it in ranks)
    if not printing:
        return f"its {total} ranks print nothing"
    silent = list_silent(ranks, now)
    if not silent:
        if printing < total:
            return _print_on(ranks, now)
        unknown = [it for it in ranks if it.limit is None]
        if not unknown:
            return f"its {total} ranks print as usual"
        have = "have" if unknown[1:] else "has"
        waits = "; on_hang waits for more" if on_hang else ""
        return (
            f"{_subject(unknown)} {have} printed fewer than {MIN_LINES} lines,"
            f" too few to be compared{waits}"
        )
    odd = _find_odd(ranks, _ALL_SILENT) if len(silent) == printing else []
    if odd and odd[0].position:
        peers = [it for it in ranks if it not in odd]
        goes_on = "go" if odd[1:] else "goes"
        return f"{_subject(odd)} {goes_on} on in {odd[0].position}; {_describe_peers(peers)}"
    moving = sum(bool(it.moves or it.is_busy) for it in silent)
    known = f"{moving} of them go on" if moving else "what they do is not known"
    return f"{len(silent)} of its {total} ranks are silent; {known}"


def _print_on(ranks: Sequence[RankActivity], now: datetime) -> str:
    limit = _ALL_SILENT.total_seconds()
    going_on = sum(
        silence.total_seconds() < (it.limit or limit)
        for it in ranks
        if (silence := it.silence(now)) is not None
    )
    return f"{going_on} of its {len(ranks)} ranks print as usual"


def _find_minority(
    silent: Sequence[RankActivity], printing: Sequence[RankActivity], now: datetime
) -> Hang | None:
    """Return that a few nodes are silent while the others print; None if those go on.

    A node that waits may wait for the next step. One without a rhythm may never print again.
    """
    silent = [
        it
        for it in silent
        if not (it.moves or it.is_busy or it.waits) and (it.limit is not None or it.position)
    ]
    if not silent:
        return None
    since = _shortest(silent, now)
    intervals = sorted(it.interval for it in printing if it.interval is not None)
    usual = intervals[len(intervals) // 2] if intervals else 0.0
    every = "second" if usual < 1.5 else age.duration(timedelta(seconds=usual))
    rest = f"the other {len(printing)} print" if printing[1:] else "the other prints"
    have = "have" if silent[1:] else "has"
    text = f"{_subject(silent)} {have} printed nothing for {age.duration(since)}"
    position = f"; it is in {silent[0].position}" if silent[0].position and not silent[1:] else ""
    more = f"; {rest} every {every}{position}{_usage(silent)}"
    return Hang(text, since, _numbers(silent), more, _is_certain(silent))


def _find_odd(ranks: Sequence[RankActivity], since: timedelta) -> list[RankActivity]:
    """Return the nodes that most others wait for, or else those that are a step behind.

    Not those that go on, unless for very long.
    """
    groups = defaultdict[str, list[RankActivity]](list)
    for it in ranks:
        groups[it.position].append(it)
    waiting = max(groups.values(), key=len, default=[])
    if len(waiting) * 2 <= len(ranks):  # of two nodes, the one that waits
        waiting = [it for it in ranks if it.waits]

    odd = [it for it in ranks if it not in waiting]
    is_known = "" not in groups and bool(waiting) and all(it.waits for it in waiting)
    if not (is_known and odd and len(odd) * 2 <= len(ranks)):
        odd = [it for it in ranks if it.is_behind]
    is_long = since >= _ALL_SILENT
    return [it for it in odd if is_long or not (it.moves or it.is_busy)]


def _is_certain(odd: Sequence[RankActivity]) -> bool:
    """Whether nodes are known to stand."""
    return all(it.moves is False and it.is_busy is False for it in odd)


def _shortest(silent: Sequence[RankActivity], now: datetime) -> timedelta:
    return min(silence for it in silent if (silence := it.silence(now)) is not None)


def _describe_peers(peers: Sequence[RankActivity]) -> str:
    subject = f"the other {len(peers)}" if peers[1:] else "the other"
    position = peers[0].position if len({it.position for it in peers}) == 1 else ""
    if position:
        return f"{subject} wait{'' if peers[1:] else 's'} in {position}"
    return f"{subject} {'are' if peers[1:] else 'is'} further: {peers[0].last_line}"


def _describe(odd: Sequence[RankActivity], since: timedelta) -> str:
    have = "have" if odd[1:] else "has"
    positions = {it.position for it in odd}
    position = next(iter(positions)) if len(positions) == 1 else ""
    what = f"been in {position}" if position else "not gone on"
    last = "" if position else f", after: {odd[0].last_line}"
    return f"{_subject(odd)} {have} {what} for {age.duration(since)}{last}"


def _subject(ranks: Sequence[RankActivity]) -> str:
    named = ", ".join(str(it.rank) for it in ranks[:_MAX_NAMED])
    more = f" and {len(ranks) - _MAX_NAMED} more" if len(ranks) > _MAX_NAMED else ""
    return f"rank{'s' if ranks[1:] else ''} {named}{more}"


def _usage(ranks: Sequence[RankActivity]) -> str:
    return "" if ranks[1:] else ranks[0].usage


def _numbers(ranks: Sequence[RankActivity]) -> tuple[int, ...]:
    return tuple(it.rank for it in ranks)
