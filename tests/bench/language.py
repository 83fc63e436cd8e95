"""Time reading and checking task files beside SkyPilot, and print a table.

Both read the same files: the public ones beside the checkout that SkyPilot takes for one task, else
the examples. What is written in Python is timed by the processor's time, which a busy machine does
not stretch; whole commands by the clock, in turn.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.bench import measure, skypilot
from tests.spec.test_corpus import CORPUS, rows

FILES = 1000
ROUNDS = 5
ROOT = measure.ROOT
WRONG = "name: hello\nresources: {cpu: 2}\nrun: echo hello\n"  # SkyPilot sees it without its server


def texts() -> dict[str, float]:
    """Return texts of one task each, with the seconds that SkyPilot takes, warm, on average."""
    public = [CORPUS / row["file"] for row in rows() if row["sky_0_14_1"] == "accept"]
    examples = [file.read_text() for file in public or sorted((ROOT / "examples").glob("*.yaml"))]
    taken = skypilot.seconds(examples * (ROUNDS + 1))
    warm = [taken[start :: len(examples)][1:] for start in range(len(examples))]
    return {
        text: statistics.fmean(filter(None, seconds))
        for text, seconds in zip(examples, warm, strict=True)
        if None not in seconds
    }


def many(texts: list[str], folder: Path) -> float:
    """Return the processor's seconds of one run over many files, its start included."""
    for number in range(FILES):
        (folder / f"{number}.yaml").write_text(texts[number % len(texts)])
    command = [str(Path(sys.executable).parent / "kubectl-sky"), "validate"]
    command += [str(folder / f"{number}.yaml") for number in range(FILES)]
    return min(processor(command) for _ in range(ROUNDS))


def processor(command: list[str]) -> float:
    """Return the seconds that a command has of the processor."""
    before = os.times()
    subprocess.run(command, check=True, capture_output=True, env=measure.environment())
    after = os.times()
    return (
        after.children_user + after.children_system - before.children_user - before.children_system
    )


def cold(file: Path) -> tuple[float, float]:
    """Return the median seconds that we and SkyPilot take to refuse a file, from start to end."""
    ours = [str(Path(sys.executable).parent / "kubectl-sky"), "validate", str(file)]
    theirs = [str(skypilot.python().parent / "sky"), "launch", "--dryrun", "-y", str(file)]
    taken: dict[int, list[float]] = {0: [], 1: []}
    for _ in range(ROUNDS + 1):
        for which, command in enumerate((ours, theirs)):
            begun = time.perf_counter()
            done = subprocess.run(
                command, check=False, capture_output=True, env=measure.environment()
            )
            taken[which].append(time.perf_counter() - begun)
            assert done.returncode, "the file is wrong, and both have to say so"
    return statistics.median(taken[0][1:]), statistics.median(taken[1][1:])


def table() -> None:
    """Print the table."""
    known = texts()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ours = many(list(known), folder) / FILES * 1000
        (folder / "wrong.yaml").write_text(WRONG)
        first, second = (seconds * 1000 for seconds in cold(folder / "wrong.yaml"))
    theirs = statistics.fmean(known.values()) * 1000
    head = ("ms", "kubectl-sky", f"SkyPilot {skypilot.VERSION}", "ratio")
    rows = (
        (f"a file: `validate` of {FILES:,} files / warm `Task.from_yaml`", ours, theirs, 2),
        ("a wrong file, cold: `validate` / `sky launch --dryrun`", first, second, 0),
    )
    measure.table(
        "language",
        head,
        [
            (what, f"{one:.{digits}f}", f"{other:.{digits}f}", f"1 : {other / one:.1f}")
            for what, one, other, digits in rows
        ],
    )
