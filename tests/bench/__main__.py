"""Time whole commands in turn and print tables: `python -m tests.bench [commands|language|files]`.

Each round runs every command once, so that a machine that slows down slows all of them; what counts
is the ratio to the first, and not a time.
"""

import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

from tests.bench import files, language, measure
from tests.cluster import machine

ROUNDS = 21
ROOT = Path(__file__).parent.parent.parent
EXAMPLE = str(ROOT / "examples" / "05-multi-node.yaml")


def commands() -> dict[str, list[str]]:
    """What is timed; the first is what the others are measured by."""
    kubectl = str(machine.kubectl())
    sky = str(Path(sys.executable).parent / "kubectl-sky")
    found = {
        "`kubectl version --client`": [kubectl, "version", "--client"],
        "`kubectl kustomize`": [kubectl, "kustomize", str(kustomization())],
        "`python -c pass`": [sys.executable, "-c", "pass"],
        "`kubectl-sky --help`": [sky, "--help"],
        "`kubectl-sky validate`": [sky, "validate", EXAMPLE],
        "`kubectl-sky render`": [sky, "render", EXAMPLE, "--id", "bench001"],
    }
    packed = shutil.which("kubectl-sky", path=os.environ.get("PACKED", ""))
    if packed:
        found["packed `kubectl-sky --help`"] = [packed, "--help"]
        found["packed `kubectl-sky render`"] = [packed, "render", EXAMPLE, "--id", "bench001"]
    return found


def kustomization() -> Path:
    """The rendered example as kustomize's input: the same objects, read and written again."""
    folder = ROOT / "build" / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "kubectl_sky", "render", EXAMPLE, "--id", "bench001"]
    rendered = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
    (folder / "all.yaml").write_text(rendered.stdout)
    (folder / "kustomization.yaml").write_text("resources: [all.yaml]\n")
    return folder


def once(command: list[str]) -> float:
    """Seconds that a command takes from its start to its end."""
    begun = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=measure.environment())
    return time.perf_counter() - begun


def whole() -> None:
    """Print the table of commands, in milliseconds and as ratios of medians."""
    timed = commands()
    seconds: dict[str, list[float]] = {name: [] for name in timed}
    for turn in range(ROUNDS + 2):
        for name, command in timed.items():
            taken = once(command)
            if turn >= 2:  # the first two fill caches
                seconds[name].append(taken)
    base = statistics.median(next(iter(seconds.values())))
    print("| command | median ms | min to max ms | ratio |\n|---|---|---|---|")
    for name, all_of in seconds.items():
        median = statistics.median(all_of)
        spread = f"{min(all_of) * 1000:.0f} to {max(all_of) * 1000:.0f}"
        print(f"| {name} | {median * 1000:.0f} | {spread} | {median / base:.1f} |")


TABLES = {"commands": whole, "language": language.table, "files": files.table}

for name in sys.argv[1:] or TABLES:
    TABLES[name]()
