"""Compare the nodes of a running task: which of them have stopped printing."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from statistics import median
from typing import Annotated

from kubectl_sky.observe.failure import NOTE_PREFIX
from kubectl_sky.words import age
from kubectl_sky.words.documents import Note, Part, always

LINES = 2  # of the end of each log: they tell the time between two lines
_LEAST_SECONDS = 10.0  # of silence, while other nodes print
_INTERVALS = 10  # of the nodes, after which one counts as silent
_ALL_SILENT = timedelta(minutes=10)  # after which it is reported that no node prints


class RankActivity(Part, frozen=True):
    """What a running node does. Fields that are not known are left out."""

    rank: int
    restarts: int = always(0)
    last_output: Annotated[str, Note("when it printed its last line; never, if not set")] = ""
    interval: Annotated[float | None, Note("seconds between its last two lines")] = None
    cpus: Annotated[float | None, Note("that it uses, by the metrics API")] = None
    gpu_percent: Annotated[float | None, Note("mean utilization of its GPUs")] = None

    @property
    def usage(self) -> str:
        cpus = "" if self.cpus is None else f"; it uses {self.cpus:.3g} CPUs"
        return cpus + ("" if self.gpu_percent is None else f"; its GPUs: {self.gpu_percent:.0f}%")


def last_output(lines: Sequence[str]) -> tuple[str, float | None]:
    """Return when the last of some lines with timestamps was printed, and the seconds before it.

    Lines of entry.sh do not count.
    """
    pairs = [line.partition(" ") for line in lines]
    times = [age.parse(time) for time, _, text in pairs if not text.startswith(NOTE_PREFIX)]
    known = [time for time in times if time]
    if not known:
        return "", None
    seconds = (known[-1] - known[0]).total_seconds() if known[1:] else None
    return age.timestamp(known[-1]), seconds


def describe_silence(ranks: Sequence[RankActivity], now: datetime) -> str:
    """Return which nodes have printed nothing while others do, or all of them for 10 minutes.

    Empty if there are none. Nodes that never print are not compared, and neither is a minority
    that prints: in many programs only rank 0 does.
    """
    silences = {it.rank: now - last for it in ranks if (last := age.parse(it.last_output))}
    intervals = [it.interval for it in ranks if it.interval is not None]
    if silences and min(silences.values()) >= _ALL_SILENT:
        return f"no rank has printed anything for {age.duration(min(silences.values()))}"

    usual = median(intervals) if intervals else 0.0
    limit = timedelta(seconds=max(_LEAST_SECONDS, _INTERVALS * usual))
    silent = [it for it in ranks if silences.get(it.rank, timedelta(0)) >= limit]
    others = len(silences) - len(silent)
    if not silent or len(silent) > others:
        return ""

    names = ", ".join(str(it.rank) for it in silent)
    subject = f"ranks {names} have" if silent[1:] else f"rank {names} has"
    since = age.duration(min(silences[it.rank] for it in silent))
    every = "second" if usual < 1.5 else age.duration(timedelta(seconds=usual))
    rest = f"the other {others} print" if others > 1 else "the other prints"
    usage = "" if silent[1:] else silent[0].usage
    return f"{subject} printed nothing for {since}; {rest} every {every}{usage}"
