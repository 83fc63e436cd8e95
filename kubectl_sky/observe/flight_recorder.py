"""Find which rank is behind in which collective, by the dumps of PyTorch's flight recorders.

Ranks are PyTorch's here: of processes, of which a node may run several.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from kubectl_sky.observe.escapes import plain
from kubectl_sky.observe.findings import ranges, spans
from kubectl_sky.words import age
from kubectl_sky.words.decoding import decoder

_TOGETHER = 60  # seconds in which all processes dump after the same timeout
_MAX_NAMED = 8  # ranges of ranks
_MAX_TOLD = 4  # collectives
_MAX_TEXT = 200  # characters of a name

Count = Annotated[int, Meta(ge=0, lt=1 << 53)]


class Call(Struct, frozen=True):
    """A collective that a process has begun, and the line of the program that did so."""

    sequence: Count
    operation: str
    frame: str = ""

    @property
    def name(self) -> str:
        return f"{_clean(self.operation)} #{self.sequence}"


class Group(Struct, frozen=True):
    """What a process has done in a process group; `pending` is the first that is not completed.

    Gloo does not tell the members.
    """

    id: str
    name: str
    members: tuple[Count, ...]
    last: Call | None = None
    pending: Call | None = None


class Recording(Struct, frozen=True):
    """The dump of a process, so many seconds old."""

    rank: Count
    age: Count
    groups: tuple[Group, ...] = ()
    has_p2p: bool = False


class Lag(Struct, frozen=True):
    """A pending collective: who waits in it, who has not begun it, and who has no dump."""

    group: str
    waiting: dict[Call, list[int]]
    behind: list[int]
    last: str  # that those have begun, if it is the same
    unknown: list[int]
    has_members: bool  # else there may be more

    def describe(self, nodes: Mapping[int, int]) -> str:
        """Return it in a sentence, which names the nodes of ranks that have other numbers."""
        parts = []
        for call, ranks in self.waiting.items():
            waits = "wait" if ranks[1:] else "waits"
            frame = f" ({_clean(call.frame)})" if call.frame else ""
            parts.append(f"{_name(ranks)} {waits} in {call.name} of group {self.group}{frame}")
        if self.behind:
            places = sorted({nodes[rank] for rank in self.behind})
            differ = any(rank != node for rank, node in nodes.items())
            where = f" on {spans(tuple(places))}" if differ else ""
            has, its = ("have", "their") if self.behind[1:] else ("has", "its")
            last = f" ({its} last: {self.last}, completed)" if self.last else ""
            parts.append(f"{_name(self.behind)}{where} {has} not begun it{last}")
        if self.unknown:
            parts.append(f"no dump of {_name(self.unknown)}")
        if not self.has_members:
            parts.append("which other ranks belong to it is not in the dumps")
        return "; ".join(parts)


class Comparison(Struct, frozen=True):
    """What the dumps of a task tell; what is no consequence of something else comes first."""

    age: int  # seconds, of the newest dump
    nodes: dict[int, int]  # by rank
    lags: list[Lag]
    has_p2p: bool = False

    @property
    def lines(self) -> list[str]:
        lines = [lag.describe(self.nodes) for lag in self.lags[:_MAX_TOLD]]
        if not lines:
            lines.append(f"no collective is pending in the dumps of {_name(self.nodes)}")
        if len(self.lags) > _MAX_TOLD:
            lines.append(f"{len(self.lags) - _MAX_TOLD} more collectives are pending")
        if self.has_p2p:
            lines.append("sends and receives are not compared")
        return [f"{self._title}: {line}" for line in lines]

    @property
    def by_node(self) -> dict[int, str]:
        """The first pending collective, at the first node that has not begun it."""
        lag = next((lag for lag in self.lags if lag.behind), None)
        return (
            {self.nodes[lag.behind[0]]: f"{self._title}: {lag.describe(self.nodes)}"} if lag else {}
        )

    @property
    def _title(self) -> str:
        return f"flight recorder, {age.duration(timedelta(seconds=self.age))} ago"


def read(line: str) -> Recording:
    """Return what flight_recorder.py prints of a dump, which is untrusted. Raises ValueError."""
    try:
        recording: Recording = decoder(Recording).decode(line)
    except msgspec.DecodeError as error:
        raise ValueError(str(error)) from None
    return recording


def compare(recordings: Mapping[int, Sequence[Recording]]) -> Comparison | None:
    """Return what the dumps of each node tell together; None if there are none.

    A rank whose dump is more than a minute older than the newest counts as one without a dump.
    """
    pairs = [(it, node) for node, them in recordings.items() for it in them]
    if not pairs:
        return None
    newest = min(it.age for it, _ in pairs)
    recent = [(it, node) for it, node in pairs if it.age - newest <= _TOGETHER]
    nodes = {it.rank: node for it, node in recent}

    groups = defaultdict[tuple[str, tuple[int, ...]], dict[int, Group]](dict)
    for it, _ in recent:
        for group in it.groups:
            groups[group.id, group.members][it.rank] = group
    lags = [lag for it in groups.values() if (lag := _find_lag(it, nodes))]
    waiting = {rank for lag in lags for ranks in lag.waiting.values() for rank in ranks}
    lags.sort(key=lambda lag: all(rank in waiting for rank in lag.behind))
    return Comparison(newest, nodes, lags, any(it.has_p2p for it, _ in recent))


def _find_lag(states: Mapping[int, Group], known: Iterable[int]) -> Lag | None:
    """Return the first collective of a group in which somebody waits.

    Ranks with a dump that does not have the group have begun nothing in it.
    """
    pending = {rank: it.pending for rank, it in states.items() if it.pending}
    if not pending:
        return None
    sequence = min(call.sequence for call in pending.values())
    waiting = defaultdict[str, list[int]](list)
    for rank, call in sorted(pending.items()):
        if call.sequence == sequence:
            waiting[call.operation].append(rank)
    first = next(iter(states.values()))
    members = sorted(set(first.members) or states)
    lasts = {rank: it.last for rank, it in states.items()}
    behind = {
        rank: last
        for rank in members
        if rank in known and not ((last := lasts.get(rank)) and last.sequence >= sequence)
    }
    names = {last.name if last else "" for last in behind.values()}
    by_call = {pending[ranks[0]]: ranks for ranks in waiting.values()}
    same = names.pop() if len(names) == 1 else ""
    return Lag(
        _clean(first.name),
        by_call,
        list(behind),
        same,
        [rank for rank in members if rank not in known],
        has_members=bool(first.members),
    )


def _name(ranks: Iterable[int]) -> str:
    """Format ranks as ranges: `ranks 0-6, 9`."""
    found = ranges(sorted(ranks))
    parts = [str(first) if first == last else f"{first}-{last}" for first, last in found]
    more = f" and {len(parts) - _MAX_NAMED} more ranges" if len(parts) > _MAX_NAMED else ""
    noun = "rank" if parts[0].isdigit() and len(parts) == 1 else "ranks"
    return f"{noun} {', '.join(parts[:_MAX_NAMED])}{more}"


def _clean(text: str) -> str:
    return " ".join(plain(text[:_MAX_TEXT]).split())
