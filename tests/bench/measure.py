"""Run whole programs in turn, and say how long they took, their processor's time and memory.

A table is printed; with `--write` it also takes the place of the one of its name in
docs/performance.md or docs/scale.md, between `<!-- table NAME -->` and `<!-- end -->`.
"""

import json
import os
import re
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.cluster import cache

Commands = Mapping[str, Sequence[str]]
Row = Sequence[str]

ROOT = Path(__file__).parent.parent.parent
PAGES = (ROOT / "docs" / "performance.md", ROOT / "docs" / "scale.md")
WRITE = "--write"
ONCE = Path(__file__).parent / "once.py"


def environment() -> dict[str, str]:
    """Return that of the user, by which modules are compiled once, as wherever it is installed."""
    return {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}


def arguments() -> list[str]:
    """Return the names of the tables to make; empty for all."""
    return [text for text in sys.argv[1:] if text != WRITE]


def installed() -> Path:
    """Install this checkout as a user does, from a wheel; return the folder of its programs."""
    folder = ROOT / "build" / "bench" / "venv"
    cache.say(f"installs the wheel into {folder}")
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
    pip = [str(folder / "bin" / "pip"), "install", "--quiet", f"{ROOT}[practice,server]"]
    subprocess.run(pip, check=True, env=environment())
    return folder / "bin"


@dataclass(frozen=True)
class Run:
    """One run of a program; the output is read to its end and counted."""

    seconds: float
    processor: float
    megabytes: float
    lines: int


def once(command: Sequence[str], environment: Mapping[str, str]) -> Run:
    """Run a program, which has to go well."""
    done = subprocess.run(
        [sys.executable, "-S", str(ONCE), *command],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    answer = json.loads(done.stdout)
    code, said = answer.pop("code"), answer.pop("said")
    if code:
        raise SystemExit(f"`{' '.join(command)}` failed ({code}): {said}")
    return Run(**answer)


def in_turn(
    commands: Commands, environment: Mapping[str, str], rounds: int
) -> dict[str, list[Run]]:
    """Run each command once a round, so that a machine that slows down slows all of them."""
    runs: dict[str, list[Run]] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            runs[name].append(once(command, environment))
    return runs


def median(runs: Sequence[Run]) -> float:
    """Return the median of the seconds."""
    return statistics.median(run.seconds for run in runs)


def compared(runs: Mapping[str, Sequence[Run]], first: str = "") -> list[Row]:
    """Return a row of medians for each command; the ratio is of its seconds to those of the first.

    The columns are: name, s, min to max, processor s, MB, lines, ratio.
    """
    base = median(runs[first or next(iter(runs))])
    rows: list[Row] = []
    for name, durations in runs.items():
        seconds = [run.seconds for run in durations]
        processor = statistics.median(run.processor for run in durations)
        megabytes = max(run.megabytes for run in durations)
        spread = f"{min(seconds):.2f} to {max(seconds):.2f}"
        row = (name, f"{median(durations):.2f}", spread, f"{processor:.2f}", f"{megabytes:.0f}")
        rows.append((*row, f"{durations[0].lines:,}", f"{median(durations) / base:.2f}"))
    return rows


COMPARED = ("s", "min to max", "processor s", "MB", "lines", "ratio")


def table(name: str, head: Row, rows: Sequence[Row]) -> None:
    """Print a table, and with `--write` put it into the page that has its name."""
    lines = ["| " + " | ".join(row) + " |" for row in (head, *rows)]
    text = "\n".join([lines[0], "|" + "---|" * len(head), *lines[1:]])
    print(f"\n{name}\n{text}", flush=True)
    if WRITE in sys.argv:
        _write(name, text)


def _write(name: str, text: str) -> None:
    mark = re.compile(
        rf"(?<=<!-- table {re.escape(name)} -->\n\n).*?(?=\n\n<!-- end -->)", re.DOTALL
    )
    for page in PAGES:
        page.write_text(mark.sub(lambda _: text, page.read_text()))
