"""Read where the programs of a task's nodes are, as stacks.sh prints it, and fold equal ones."""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Annotated

from msgspec import Struct
from msgspec.structs import replace

from kubectl_sky.observe import flight_recorder
from kubectl_sky.observe.escapes import plain
from kubectl_sky.observe.flight_recorder import Recording
from kubectl_sky.words.documents import Document, Note

_MAX_FRAMES = 100
_MAX_TEXT = 200  # frames of a stack, characters of a line
_MAX_LINE = 500  # characters of a line of a log
_MAX_SHOWN = 8  # stacks in the summary
_DUMP = re.compile(r'^Current thread 0x.*\n((?:  File "[^"\n]*", line \d+ in .*(?:\n|$))*)', re.M)
_FRAME = re.compile(r'"(?:[^"\n]*/)?([^"/\n]*)", line (\d+) in (.*)')
_USED = re.compile(r"^@used (\d{1,20}(?: \d{1,20}){1,3}) ?$", re.M)
_MAX_POSITIONS = 2  # of a rank, that are named
_MAX_OUTER = 3  # frames of Python in which a collective may be
# Functions, of Python and of the kernel, in which a program waits for others.
_WAITS = re.compile(
    r"all_?reduce|all_?gather|reduce_scatter|all_?to_?all|broadcast|barrier|recv|accept|connect$"
    r"|wait$|wait_all|synchronize|join$|sk_wait_data|wait_woken|inet_csk|tcp_recvmsg"
    r"|unix_stream_read|ep_poll|poll_schedule_timeout|do_poll|do_select|pipe_read|futex",
    re.I,
)
_MOVED_BYTES = 1 << 16  # between two dumps: more than signals of life
_BUSY_TICKS = 30  # hundredths of a second
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
    recordings: tuple[Recording, ...] = ()  # of PyTorch's flight recorders

    @property
    def positions(self) -> dict[str, bool]:
        """The innermost frames of different processes, and whether these wait there."""
        known = {_position(stack): _does_wait(stack) for stack in self.stacks if stack.frames}
        return dict(sorted(known.items()))


class Stacks(Document, frozen=True, kw_only=True):
    """Where the nodes of a task are: `stacks TASK`. Stacks of most nodes come first."""

    task_id: str
    stacks: list[Stack]
    unread: Annotated[dict[str, list[int]], Note("what could not be read, with the ranks")]
    flight_recorder: Annotated[
        tuple[str, ...],
        Note("what the dumps of PyTorch's flight recorders tell: which rank is behind"),
    ] = ()

    @property
    def summary(self) -> str:
        shown = [f"{count_ranks(it.ranks)}: {_position(it)}" for it in self.stacks[:_MAX_SHOWN]]
        return " · ".join(shown + ["…"] * (len(self.stacks) > len(shown)))


def count_ranks(ranks: Sequence[int]) -> str:
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"{len(ranks)} ranks"


def _position(stack: Stack) -> str:
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

    recordings = []
    for line in re.findall(r"^@recorder (.*)", text, re.M):
        try:
            recordings.append(flight_recorder.read(line))
        except ValueError as error:
            unread.append(_clean(f"flight recorder: {error}"))

    used = [list(map(int, numbers.split())) for numbers in _USED.findall(text)]
    ticks = sum(sum(numbers[:2]) for numbers in used)
    size = sum(sum(numbers[2:]) for numbers in used)
    return Dump(tuple(stacks), tuple(unread), ticks, size, tuple(recordings))


def fold(task_id: str, dumps: Mapping[int, Dump], *, independent: bool = False) -> Stacks:
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
    recordings = {rank: it.recordings for rank, it in dumps.items()}
    comparison = flight_recorder.compare(recordings, independent=independent)
    lines = tuple(comparison.lines) if comparison else ()
    return Stacks(task_id=task_id, stacks=folded, unread=not_read, flight_recorder=lines)


def find_positions(dumps: Mapping[int, Dump]) -> dict[int, tuple[str, bool]]:
    """Return where the program of each rank is, and whether it waits there.

    Where the ranks differ, only what not all of them do counts: a launcher does the same in each.
    """
    everywhere = set[str]()
    if dumps:
        everywhere = set.intersection(*(set(dump.positions) for dump in dumps.values()))

    def find(dump: Dump) -> tuple[str, bool]:
        own = {text: waits for text, waits in dump.positions.items() if text not in everywhere}
        shown = own or dump.positions
        return ", ".join([*shown][:_MAX_POSITIONS]), bool(shown) and all(shown.values())

    return {rank: find(dump) for rank, dump in dumps.items()}


def _does_wait(stack: Stack) -> bool:
    if stack.source == PROC:
        return bool(_WAITS.search(stack.frames[0].rpartition(" in ")[2]))
    functions = (frame.partition(" (")[0] for frame in stack.frames[:_MAX_OUTER])
    return any(map(_WAITS.search, functions))


def has_moved(before: Dump, after: Dump) -> bool:
    """Return whether programs have gone on between two dumps, by frames and by what they write."""
    if after.bytes - before.bytes >= _MOVED_BYTES:
        return True
    frames = [{it for it in dump.stacks if it.source != PROC} for dump in (before, after)]
    return frames[0] != frames[1]


def is_busy(before: Dump, after: Dump) -> bool:
    """Return whether programs have used a processor between two dumps; some do so as they wait."""
    return after.ticks - before.ticks >= _BUSY_TICKS


def _title(command: str) -> str:
    """Return a program and its file: without options, which differ between ranks."""
    first, *words = _clean(command).split() or [""]
    file = next((word for word in words if not word.startswith("-")), "")
    return " ".join(word.rpartition("/")[2] for word in (first, file)).strip()


def _clean(text: str) -> str:
    return " ".join(plain(text).split())[:_MAX_TEXT]
