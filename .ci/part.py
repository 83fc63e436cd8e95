"""Run a part of the tests, say how long it took, and run what failed once more.

usage: part.py NAME COMMAND…

A test that fails runs again, alone, after all others: at most five of them, for whom the command
has to be pytest. The report, a file named by PARTS, gets a line of each part.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

MOST = 5
TESTS_FAILED = 1  # exit code of pytest
_CACHE = "lastfailed"  # pytest's name of the list


def run_tests(command: Sequence[str], cache: Path) -> tuple[int, list[str]]:
    """Run pytest, and what failed alone; return its exit code and what passed only then."""
    folder = ("-o", f"cache_dir={cache}")
    code = subprocess.call([*command, *folder, f"--maxfail={MOST + 1}"])
    failed = read_failed(cache)
    if len(failed) > MOST:
        write(f"more than {MOST} tests failed: they are not run again")
        return TESTS_FAILED, []
    if code != TESTS_FAILED or not failed:
        return code, []

    write(f"running again, alone: {len(failed)} of the tests")
    again = ("--last-failed", "--last-failed-no-failures=none", "--numprocesses=0")
    code = subprocess.call([*command, *folder, *again])
    return code, sorted(failed - read_failed(cache))


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

    alone: list[str] = []
    if Path(command[0]).name == "pytest":
        with tempfile.TemporaryDirectory() as folder:
            code, alone = run_tests(command, Path(folder))
    else:
        code = subprocess.call(command)

    minutes, seconds = divmod(round(time.monotonic() - started), 60)
    outcome = f"failed with exit code {code}" if code else "passed"
    lines = [f"{name}: {outcome} after {minutes} min {seconds} s"]
    if alone:
        lines += ["passed only alone:", *(f"  {test}" for test in alone)]
    report(lines)
    return code


if __name__ == "__main__":
    sys.exit(main())
