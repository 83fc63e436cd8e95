"""Find which rank is behind in which collective, by the dumps of PyTorch's flight recorders.

Ranks are PyTorch's here: of processes, of which a node may run several.
"""

from collections import Counter, defaultdict
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
Bits = Annotated[str, Meta(pattern="^[0-9a-f]*$")]


class Call(Struct, frozen=True):
    """A collective that a process has begun so many seconds ago, and the program's line."""

    sequence: Count
    operation: str
    frame: str = ""
    age: Count = 0

    @property
    def name(self) -> str:
        return f"{_clean(self.operation)} #{self.sequence}"


class Group(Struct, frozen=True):
    """What a process has done in a process group; `pending` is the first that is not completed.

    The members are the bits of a hexadecimal number; Gloo does not tell them.
    """

    id: str
    name: str
    members: Bits
    last: Call | None = None
    pending: Call | None = None

    @property
    def ranks(self) -> list[int]:
        bits = f"{int(self.members or '0', 16):b}"
        return [rank for rank, bit in enumerate(reversed(bits)) if bit == "1"]


class Recording(Struct, frozen=True):
    """The dump of a process, so many seconds old."""

    rank: Count
    age: Count
    groups: tuple[Group, ...] = ()
    has_p2p: bool = False


class Lag(Struct, frozen=True):
    """A pending collective: who waits in it, who has not begun it, and of whom it is not known."""

    group: str
    waiting: dict[Call, list[int]]
    behind: list[int]
    last: str  # that those have begun, if it is the same
    earlier: list[int]  # whose dumps are older than the collective
    unknown: list[int]  # who have no dump
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
        if self.earlier:
            parts.append(f"{_name(self.earlier)} dumped earlier")
        if self.unknown:
            parts.append(f"no dump of {_name(self.unknown)}")
        if not self.has_members:
            parts.append("which other ranks belong to it is not in the dumps")
        return "; ".join(parts)


class Comparison(Struct, frozen=True):
    """What the dumps of a task tell; what is no consequence of something else comes first."""

    ages: tuple[int, int]  # seconds, of the newest and the oldest dump
    nodes: dict[int, int]  # by rank
    lags: list[Lag]
    has_p2p: bool = False
    not_compared: str = ""  # why

    @property
    def lines(self) -> list[str]:
        if self.not_compared:
            return [f"{self._title}: {self.not_compared}: not compared"]
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
        ages = dict.fromkeys(age.duration(timedelta(seconds=seconds)) for seconds in self.ages)
        return f"flight recorder, {' to '.join(ages)} ago"


def read(line: str) -> Recording:
    """Return what flight_recorder.py prints of a dump, which is untrusted. Raises ValueError."""
    try:
        recording: Recording = decoder(Recording).decode(line)
    except msgspec.DecodeError as error:
        raise ValueError(str(error)) from None
    return recording


def compare(
    recordings: Mapping[int, Sequence[Recording]], *, independent: bool = False
) -> Comparison | None:
    """Return what the dumps of each node tell together; None if there are none.

    A rank whose dump is more than a minute older than the newest counts as one without a dump.
    Nothing is compared if a rank is not one process: nodes run independently of each other, or
    they share a folder.
    """
    pairs = [(it, node) for node, dumps in recordings.items() for it in dumps]
    if not pairs:
        return None
    newest = min(it.age for it, _ in pairs)
    if why := _find_ambiguity(pairs, independent=independent):
        oldest = max(it.age for it, _ in pairs)
        return Comparison((newest, oldest), {}, [], not_compared=why)

    recent = [(it, node) for it, node in pairs if it.age - newest <= _TOGETHER]
    nodes = {it.rank: node for it, node in recent}
    ages = {it.rank: it.age for it, _ in recent}
    groups = defaultdict[tuple[str, str], dict[int, Group]](dict)
    for it, _ in recent:
        for group in it.groups:
            groups[group.id, group.members][it.rank] = group
    lags = [lag for it in groups.values() if (lag := _find_lag(it, ages))]
    waiting = {rank for lag in lags for ranks in lag.waiting.values() for rank in ranks}
    lags.sort(key=lambda lag: all(rank in waiting for rank in lag.behind))
    has_p2p = any(it.has_p2p for it, _ in recent)
    return Comparison((newest, max(ages.values())), nodes, lags, has_p2p)


def _find_ambiguity(pairs: Sequence[tuple[Recording, int]], *, independent: bool) -> str:
    """Return why the same rank may be several processes; empty if it is one."""
    counts = Counter(it.rank for it, _ in pairs)
    nodes = tuple(sorted({node for _, node in pairs}))
    if independent and nodes[1:]:
        return f"{spans(nodes)} run independently"
    repeated = tuple(sorted({node for it, node in pairs if counts[it.rank] > 1}))
    has = "have" if repeated[1:] else "has"
    return f"{spans(repeated)} {has} dumps of the same ranks" if repeated else ""


def _find_lag(states: Mapping[int, Group], ages: Mapping[int, int]) -> Lag | None:
    """Return the first collective of a group in which somebody waits.

    Ranks with a dump that does not have the group have begun nothing in it. A dump tells nothing
    about a collective that was begun later.
    """
    pending = {rank: it.pending for rank, it in states.items() if it.pending}
    if not pending:
        return None
    sequence = min(call.sequence for call in pending.values())
    calls = {rank: call for rank, call in sorted(pending.items()) if call.sequence == sequence}
    waiting = defaultdict[str, list[int]](list)
    for rank, call in calls.items():
        waiting[call.operation].append(rank)
    begun = max(call.age for call in calls.values())

    first = next(iter(states.values()))
    members = first.ranks
    lasts = {rank: it.last for rank, it in states.items()}
    missing = {
        rank: last
        for rank in members or sorted(states)
        if not ((last := lasts.get(rank)) and last.sequence >= sequence)
    }
    behind = [rank for rank in missing if rank in ages and ages[rank] < begun]
    names = {last.name if (last := missing[rank]) else "" for rank in behind}
    same = names.pop() if len(names) == 1 else ""
    return Lag(
        _clean(first.name),
        {calls[ranks[0]]: ranks for ranks in waiting.values()},
        behind,
        last=same,
        earlier=[rank for rank in missing if rank in ages and ages[rank] >= begun],
        unknown=[rank for rank in missing if rank not in ages],
        has_members=bool(members),
    )


def _name(ranks: Iterable[int]) -> str:
    """Format ranks as ranges: `ranks 0-6, 9`."""
    pairs = ranges(sorted(ranks))
    parts = [str(first) if first == last else f"{first}-{last}" for first, last in pairs]
    more = f" and {len(parts) - _MAX_NAMED} more ranges" if len(parts) > _MAX_NAMED else ""
    noun = "rank" if parts[0].isdigit() and len(parts) == 1 else "ranks"
    return f"{noun} {', '.join(parts[:_MAX_NAMED])}{more}"


def _clean(text: str) -> str:
    return " ".join(plain(text[:_MAX_TEXT]).split())
