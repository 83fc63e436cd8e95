"""Run a part of the tests, say how long it took, and run what failed once more.

usage: part.py NAME COMMAND…

A test that fails runs again, alone, after all others: at most five of them, for whom the command
has to be pytest. The report, a file named by PARTS, gets a line of each part, and why it failed.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

MOST = 5
REASONS = 3
REASON_CHARACTERS = 1000
TESTS_FAILED = 1  # exit code of pytest
_CACHE = "lastfailed"  # pytest's name of the list


class Outcome(NamedTuple):
    """What a command came to: what passed only alone, and why tests failed at first."""

    code: int
    alone: Sequence[str] = ()
    reasons: Sequence[str] = ()


def run_tests(command: Sequence[str], cache: Path) -> Outcome:
    """Run pytest, and what failed once more, alone."""
    results = cache / "results.xml"
    flags = ("-o", f"cache_dir={cache}", f"--junit-xml={results}")
    code = subprocess.call([*command, *flags, f"--maxfail={MOST + 1}"])
    failed = read_failed(cache)
    reasons = read_reasons(results)
    if len(failed) > MOST:
        write(f"more than {MOST} tests failed: they are not run again")
        return Outcome(TESTS_FAILED, reasons=reasons)
    if code != TESTS_FAILED or not failed:
        return Outcome(code, reasons=reasons)

    write(f"running again, alone: {len(failed)} of the tests")
    again = ("--last-failed", "--last-failed-no-failures=none", "--numprocesses=0")
    code = subprocess.call([*command, *flags, *again])
    return Outcome(code, sorted(failed - read_failed(cache)), reasons)


def read_reasons(results: Path) -> list[str]:
    """Return why tests failed, each reason once."""
    if not results.exists():
        return []
    found = {
        (problem.get("message") or "")[:REASON_CHARACTERS]
        for kind in ("failure", "error")
        for problem in ElementTree.parse(results).iter(kind)
    }
    return sorted(found)[:REASONS]


def read_failed(cache: Path) -> set[str]:
    """Return the tests that failed last, as pytest keeps them."""
    files = list(cache.rglob(_CACHE))
    return {test for file in files for test in json.loads(file.read_text())}


def write(line: str) -> None:
    """Print a line, at once: the output of other programs follows."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def report(lines: Sequence[str]) -> None:
    """Print what a part came to, and keep it for the end of all parts."""
    for line in lines:
        write(line)
    if path := os.environ.get("PARTS"):
        with Path(path).open("a") as file:
            file.writelines(f"{line}\n" for line in lines)


def main() -> int:
    """Run the command line; return the exit code of the command."""
    name, *command = sys.argv[1:]
    started = time.monotonic()

    if Path(command[0]).name == "pytest":
        with tempfile.TemporaryDirectory() as folder:
            outcome = run_tests(command, Path(folder))
    else:
        outcome = Outcome(subprocess.call(command))

    minutes, seconds = divmod(round(time.monotonic() - started), 60)
    end = f"failed with exit code {outcome.code}" if outcome.code else "passed"
    lines = [f"{name}: {end} after {minutes} min {seconds} s"]
    if outcome.alone:
        lines += ["passed only alone:", *(f"  {test}" for test in outcome.alone)]
    for reason in outcome.reasons:
        lines += ["why tests failed:", *(f"  {line}" for line in reason.splitlines())]
    report(lines)
    return outcome.code


if __name__ == "__main__":
    sys.exit(main())
