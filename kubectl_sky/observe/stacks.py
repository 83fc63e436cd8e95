"""Read where the programs of a task's nodes are, as stacks.sh prints it, and fold equal ones."""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Annotated

from msgspec import Struct
from msgspec.structs import replace

from kubectl_sky.observe.escapes import plain
from kubectl_sky.words.documents import Document, Note

_MAX_FRAMES = 100
_MAX_TEXT = 200  # frames of a stack, characters of a line
_MAX_LINE = 500  # characters of a line of a log
_MAX_SHOWN = 8  # stacks in the summary
_DUMP = re.compile(r'^Current thread 0x.*\n((?:  File "[^"\n]*", line \d+ in .*(?:\n|$))*)', re.M)
_FRAME = re.compile(r'"(?:[^"\n]*/)?([^"/\n]*)", line (\d+) in (.*)')
_USED = re.compile(r"^@used ((?:\d{1,20} ?){2,4})$", re.M)
_MAX_PLACES = 2  # of a rank, that are named
_MOVED_BYTES = 1 << 16  # between two dumps: more than signals of life
_MOVED_TICKS = 30  # hundredths of a second
FAULTHANDLER = "faulthandler"
PROC = "proc"


class Stack(Struct, frozen=True, rename={"ranks": "nodes"}):
    """Where processes are, by the frames of their main threads."""

    command: Annotated[str, Note("program and its file: `python train.py`")]
    source: Annotated[str, Note("`py-spy`, `faulthandler` or `proc`")]
    frames: Annotated[tuple[str, ...], Note("the innermost first")] = ()
    ranks: Annotated[tuple[int, ...], Note("ranks")] = ()


class Dump(Struct, frozen=True):
    """What the processes of a node do at one moment."""

    stacks: tuple[Stack, ...]
    unread: tuple[str, ...] = ()
    ticks: int = 0  # hundredths of a second of a processor, which they have used
    bytes: int = 0  # that they have read and written

    @property
    def places(self) -> tuple[str, ...]:
        """The innermost frames of different processes."""
        return tuple(sorted({_place(stack) for stack in self.stacks if stack.frames}))


class Stacks(Document, frozen=True, kw_only=True):
    """Where the nodes of a task are: `stacks TASK`. Stacks of most nodes come first."""

    task_id: str
    stacks: list[Stack]
    unread: Annotated[dict[str, list[int]], Note("what could not be read, with the ranks")]

    @property
    def summary(self) -> str:
        shown = [f"{count_ranks(it.ranks)}: {_place(it)}" for it in self.stacks[:_MAX_SHOWN]]
        return " · ".join(shown + ["…"] * (len(self.stacks) > len(shown)))


def count_ranks(ranks: Sequence[int]) -> str:
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"{len(ranks)} ranks"


def _place(stack: Stack) -> str:
    frame = stack.frames[0] if stack.frames else "no frames"
    return f"{stack.command}: {frame}" if stack.source == PROC else frame


def read(text: str, log: str = "") -> Dump:
    """Return what the output of stacks.sh tells.

    The log has the frames of faulthandler, in the order of its signals. Both are untrusted text.
    """
    lines_of_log = (line[:_MAX_LINE] for line in log.split("\n"))
    stacks = []
    dumps = iter(_DUMP.findall("\n".join(lines_of_log)))
    unread = [_clean(what) for what in re.findall(r"^@unread (.*)", text, re.M)]

    for block in re.split(r"^@process ", text, flags=re.M)[1:]:
        command, *lines = block.split("\n")
        frames = [_clean(line) for line in lines if line.strip() and not line.startswith("@")]
        source = next(re.finditer(r"^@source (\S+)", block, re.M), None)
        source_name = _clean(source[1]) if source else PROC
        stack = Stack(_title(command), source_name)

        if stack.source == FAULTHANDLER:
            calls = _FRAME.findall(next(dumps, ""))
            frames = [_clean(f"{name} ({file}:{line})") for file, line, name in calls]
        stacks.append(replace(stack, frames=tuple(frames[:_MAX_FRAMES])))
    used = [list(map(int, numbers.split())) for numbers in _USED.findall(text)]
    ticks = sum(sum(numbers[:2]) for numbers in used)
    return Dump(tuple(stacks), tuple(unread), ticks, sum(sum(numbers[2:]) for numbers in used))


def fold(task_id: str, dumps: Mapping[int, Dump]) -> Stacks:
    """Return equal stacks once, with their ranks."""
    ranks = defaultdict[Stack, set[int]](set)
    unread = defaultdict[str, set[int]](set)
    for rank, dump in dumps.items():
        for stack in dump.stacks:
            ranks[stack].add(rank)
        for what in dump.unread:
            unread[what].add(rank)
    folded = [replace(stack, ranks=tuple(sorted(members))) for stack, members in ranks.items()]
    folded.sort(key=lambda stack: (-len(stack.ranks), stack.ranks))
    not_read = {what: sorted(members) for what, members in unread.items()}
    return Stacks(task_id=task_id, stacks=folded, unread=not_read)


def name_places(dumps: Mapping[int, Dump]) -> dict[int, str]:
    """Return where the program of each rank is: the frame by which the ranks differ, if they do.

    Programs of several processes are compared as a whole.
    """
    everywhere = set[str]()
    if dumps:
        everywhere = set.intersection(*(set(dump.places) for dump in dumps.values()))

    def name(dump: Dump) -> str:
        own = [place for place in dump.places if place not in everywhere]
        return ", ".join((own or list(dump.places))[:_MAX_PLACES])

    return {rank: name(dump) for rank, dump in dumps.items()}


def has_moved(before: Dump, after: Dump) -> bool:
    """Return whether programs have gone on between two dumps.

    Where Python's frames are known, those tell it; a program that waits may use a processor.
    """
    if after.bytes - before.bytes >= _MOVED_BYTES:
        return True
    if any(stack.source != PROC for stack in after.stacks):
        return set(after.stacks) != set(before.stacks)
    return after.ticks - before.ticks >= _MOVED_TICKS


def _title(command: str) -> str:
    """Return a program and its file: without options, which differ between ranks."""
    first, *words = _clean(command).split() or [""]
    file = next((word for word in words if not word.startswith("-")), "")
    return " ".join(word.rpartition("/")[2] for word in (first, file)).strip()


def _clean(text: str) -> str:
    return " ".join(plain(text).split())[:_MAX_TEXT]
