"""Find which node of a running task hangs, from what its nodes print and where they are."""

import re
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from kubectl_sky.observe.ranks import RankActivity
from kubectl_sky.words import age

_ALL_SILENT = timedelta(minutes=10)  # after which it is told that no node prints, whatever it does
_MAX_NAMED = 8  # ranks
# Frames and kernel functions in which a program waits for others, and not for itself.
_WAITS = re.compile(
    r"all_?reduce|all_?gather|reduce_scatter|all_?to_?all|broadcast|barrier|recv|accept|connect"
    r"|\bwait\b|synchronize|\bjoin\b|sk_wait_data|wait_woken|inet_csk|tcp_recvmsg|unix_stream_read"
    r"|ep_poll|poll_schedule_timeout|do_poll|do_select|pipe_read|futex",
    re.I,
)


class Hang(Struct, frozen=True):
    """Which nodes hang, and what the others do."""

    text: str
    silence: timedelta  # since one of them has printed last
    ranks: tuple[int, ...] = ()
    more: str = ""
    is_certain: bool = True  # else they may compute


def list_silent(ranks: Sequence[RankActivity], now: datetime) -> list[RankActivity]:
    """Return the nodes that are silent for unusually long; none if only a few print at all.

    In many programs only rank 0 prints; others have printed something at their start.
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
    return silent if not others or len(silent) <= others else []


def find_hang(ranks: Sequence[RankActivity], now: datetime) -> Hang | None:
    """Return which nodes hang; None if none is silent, or if those that are go on computing.

    If all are silent, it is those that stand elsewhere than most, or that are a step behind.
    """
    silent = list_silent(ranks, now)
    if not silent:
        return None
    printing = [it for it in ranks if it.last_output and it not in silent]
    if printing:
        return _describe_minority(silent, printing, now)

    since = min(silence for it in silent if (silence := it.silence(now)) is not None)
    odd = _find_odd(ranks)
    peers = [it for it in ranks if it not in odd]
    if odd and not all(it.moves for it in odd):
        text = f"{_subject(odd)} {_stand(odd)} for {age.duration(since)}"
        return Hang(text, since, _numbers(odd), f"; {_describe_peers(peers)}{_usage(odd)}")

    places = {it.place for it in ranks}
    waits = len(places) == 1 and all(_WAITS.search(place) for place in places)
    if waits and not any(it.moves for it in ranks):
        text = f"all {len(ranks)} ranks have been in {places.pop()} for {age.duration(since)}"
        return Hang(text, since, _numbers(ranks), "; they wait for each other or for the network")
    if since >= _ALL_SILENT:
        text = f"no rank has printed anything for {age.duration(since)}"
        return Hang(text, since, _numbers(ranks), is_certain=False)
    return None


def describe_look(ranks: Sequence[RankActivity], now: datetime | None) -> str:
    """Return what was seen of nodes of which none hangs; empty if none was looked at."""
    if not ranks or now is None:
        return ""
    if not any(it.last_output for it in ranks):
        return f"its {len(ranks)} ranks print nothing"
    if not list_silent(ranks, now):
        return f"its {len(ranks)} ranks print as usual"
    if any(it.moves for it in ranks):
        return f"its {len(ranks)} ranks are silent, and go on computing"
    return f"its {len(ranks)} ranks are silent; what they do is not known"


def _describe_minority(
    silent: Sequence[RankActivity], printing: Sequence[RankActivity], now: datetime
) -> Hang:
    """Return that a few nodes are silent while the others print."""
    since = min(silence for it in silent if (silence := it.silence(now)) is not None)
    intervals = sorted(it.interval for it in printing if it.interval is not None)
    usual = intervals[len(intervals) // 2] if intervals else 0.0
    every = "second" if usual < 1.5 else age.duration(timedelta(seconds=usual))
    rest = f"the other {len(printing)} print" if printing[1:] else "the other prints"
    have = "have" if silent[1:] else "has"
    text = f"{_subject(silent)} {have} printed nothing for {age.duration(since)}"
    place = f"; it is in {silent[0].place}" if silent[0].place and not silent[1:] else ""
    return Hang(text, since, _numbers(silent), f"; {rest} every {every}{place}{_usage(silent)}")


def _find_odd(ranks: Sequence[RankActivity]) -> list[RankActivity]:
    """Return the nodes that most others wait for, or else those that are a step behind."""
    groups = defaultdict[str, list[RankActivity]](list)
    for it in ranks:
        groups[it.place].append(it)
    behind = [it for it in ranks if it.is_behind]
    waiting = max(groups.values(), key=len, default=[])
    if len(waiting) * 2 <= len(ranks):  # of two nodes, the one that waits
        waiting = [it for it in ranks if _WAITS.search(it.place)]

    elsewhere = [it for it in ranks if it not in waiting]
    is_known = "" not in groups and all(_WAITS.search(it.place) for it in waiting)
    if is_known and waiting and len(elsewhere) * 2 <= len(ranks):
        return elsewhere or behind
    return behind


def _describe_peers(peers: Sequence[RankActivity]) -> str:
    subject = f"the other {len(peers)}" if peers[1:] else "the other"
    place = peers[0].place if len({it.place for it in peers}) == 1 else ""
    if place:
        return f"{subject} wait{'' if peers[1:] else 's'} in {place}"
    return f"{subject} {'are' if peers[1:] else 'is'} further: {peers[0].last_line}"


def _stand(odd: Sequence[RankActivity]) -> str:
    verb = "have" if odd[1:] else "has"
    place = odd[0].place
    if place and len({it.place for it in odd}) == 1:
        return f"{verb} been in {place}"
    return f"{verb} printed nothing after: {odd[0].last_line}" if not place else f"{verb} not moved"


def _subject(ranks: Sequence[RankActivity]) -> str:
    named = ", ".join(str(it.rank) for it in ranks[:_MAX_NAMED])
    more = f" and {len(ranks) - _MAX_NAMED} more" if len(ranks) > _MAX_NAMED else ""
    return f"rank{'s' if ranks[1:] else ''} {named}{more}"


def _usage(ranks: Sequence[RankActivity]) -> str:
    return "" if ranks[1:] else ranks[0].usage


def _numbers(ranks: Sequence[RankActivity]) -> tuple[int, ...]:
    return tuple(it.rank for it in ranks)
