"""Run whole programs in turn, and say how long they took, their processor's time and memory."""

import os
import statistics
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Commands = Mapping[str, Sequence[str]]


def environment() -> dict[str, str]:
    """Return that of the user, by which modules are compiled once, as wherever it is installed."""
    return {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}


@dataclass(frozen=True)
class Run:
    """One run of a program; the output is read to its end and counted."""

    seconds: float
    processor: float
    megabytes: float
    lines: int


def once(command: Sequence[str], environment: Mapping[str, str]) -> Run:
    """Run a program, which has to go well."""
    begun = time.perf_counter()
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdout
        lines = 0
        while piece := process.stdout.read(1 << 20):
            lines += piece.count(b"\n")
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    taken = time.perf_counter() - begun
    if process.returncode:
        raise SystemExit(f"`{' '.join(command)}` failed ({process.returncode})")
    return Run(taken, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, lines)


def in_turn(
    commands: Commands, environment: Mapping[str, str], rounds: int
) -> dict[str, list[Run]]:
    """Run each command once a round, so that a machine that slows down slows all of them."""
    runs: dict[str, list[Run]] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            runs[name].append(once(command, environment))
    return runs


def table(title: str, runs: Mapping[str, Sequence[Run]]) -> None:
    """Print medians; the ratio is of the seconds to those of the first."""
    print(f"\n| {title} | s | min to max | processor s | MB | lines | ratio |")
    print("|---|---|---|---|---|---|---|")
    base = statistics.median(run.seconds for run in next(iter(runs.values())))
    for name, durations in runs.items():
        seconds = [run.seconds for run in durations]
        median = statistics.median(seconds)
        processor = statistics.median(run.processor for run in durations)
        spread = f"{min(seconds):.2f} to {max(seconds):.2f}"
        row = (
            f"{median:.2f} | {spread} | {processor:.2f} | {max(r.megabytes for r in durations):.0f}"
        )
        print(f"| {name} | {row} | {durations[0].lines:,} | {median / base:.2f} |", flush=True)
