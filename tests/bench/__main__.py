"""Time whole commands in turn and print tables: `python -m tests.bench [commands|language|files]`.

Each round runs every command once, so that a machine that slows down slows all of them; what counts
is the ratio to the first, and not a time. With `--write` the tables go into docs/performance.md.
"""

import os
import shutil
import statistics
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.bench import files, language, measure
from tests.cluster import machine

ROUNDS = 21
EXAMPLE = str(measure.ROOT / "examples" / "05-multi-node.yaml")
# How often as long as the first command each may take.
GOALS = {"--help": 1.0, "validate": 2.5, "render": 3.5}


def whole() -> None:
    """Print the table of commands."""
    programs = measure.installed()
    kubectl, sky = str(machine.kubectl()), str(programs / "kubectl-sky")
    ours = {
        "--help": ["--help"],
        "validate": ["validate", EXAMPLE],
        "render": ["render", EXAMPLE, "--id", "bench001"],
    }
    timed = {
        "`kubectl version --client`": [kubectl, "version", "--client"],
        "`kubectl kustomize`, of the same objects": [kubectl, "kustomize", kustomization(sky)],
        "`python -c pass`": [str(programs / "python"), "-c", "pass"],
        **{f"`kubectl-sky {name}`": [sky, *command] for name, command in ours.items()},
    }
    goals = {f"`kubectl-sky {name}`": f"{goal:.1f}" for name, goal in GOALS.items()}
    if packed := shutil.which("kubectl-sky", path=os.environ.get("PACKED", "")):
        timed["packed for krew: `--help`"] = [packed, *ours["--help"]]
        timed["packed for krew: `render`"] = [packed, *ours["render"]]
    runs = measure.in_turn(timed, measure.environment(), ROUNDS)
    imported = {
        f"`kubectl-sky {name}`": modules(programs / "python", command)
        for name, command in ours.items()
    }
    rows = []
    base = measure.median(next(iter(runs.values())))
    for name, durations in runs.items():
        milliseconds = [run.seconds * 1000 for run in durations]
        processor = statistics.median(run.processor for run in durations) * 1000
        spread = f"{min(milliseconds):.0f} to {max(milliseconds):.0f}"
        row = (name, f"{statistics.median(milliseconds):.0f}", spread, f"{processor:.0f}")
        ratio = f"{measure.median(durations) / base:.1f}"
        rows.append((*row, imported.get(name, ""), ratio, goals.get(name, "")))
    head = ("command", "median ms", "min to max ms", "processor ms", "modules", "ratio", "goal")
    measure.table("commands", head, rows)


def modules(python: Path, arguments: Sequence[str]) -> str:
    """Return how many modules a command imports, those of Python's own start included."""
    command = [str(python), "-X", "importtime", "-m", "kubectl_sky", *arguments]
    done = subprocess.run(
        command, check=True, capture_output=True, text=True, env=measure.environment()
    )
    return str(done.stderr.count("import time:") - 1)


def kustomization(sky: str) -> str:
    """Return a folder with the rendered example as kustomize's input: the same objects."""
    folder = measure.ROOT / "build" / "bench"
    command = [sky, "render", EXAMPLE, "--id", "bench001"]
    rendered = subprocess.run(command, check=True, capture_output=True, text=True)
    (folder / "all.yaml").write_text(rendered.stdout)
    (folder / "kustomization.yaml").write_text("resources: [all.yaml]\n")
    return str(folder)


TABLES = {"commands": whole, "language": language.table, "files": files.table}

for name in measure.arguments() or TABLES:
    TABLES[name]()
