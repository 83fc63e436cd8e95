"""Time whole commands in turn and print tables: `python -m tests.bench [commands|language|files]`.

Each round runs every command once, so that a machine that slows down slows all of them; what counts
is the ratio to the first, and not a time.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.bench import files, language, measure
from tests.cluster import machine

ROUNDS = 21
ROOT = Path(__file__).parent.parent.parent
EXAMPLE = str(ROOT / "examples" / "05-multi-node.yaml")


def commands() -> measure.Commands:
    """What is timed; the first is what the others are measured by."""
    kubectl = str(machine.kubectl())
    sky = str(Path(sys.executable).parent / "kubectl-sky")
    timed: dict[str, list[str]] = {
        "`kubectl version --client`": [kubectl, "version", "--client"],
        "`kubectl kustomize`": [kubectl, "kustomize", str(kustomization())],
        "`python -c pass`": [sys.executable, "-c", "pass"],
        "`kubectl-sky --help`": [sky, "--help"],
        "`kubectl-sky validate`": [sky, "validate", EXAMPLE],
        "`kubectl-sky render`": [sky, "render", EXAMPLE, "--id", "bench001"],
    }
    packed = shutil.which("kubectl-sky", path=os.environ.get("PACKED", ""))
    if packed:
        timed["packed `kubectl-sky --help`"] = [packed, "--help"]
        timed["packed `kubectl-sky render`"] = [packed, "render", EXAMPLE, "--id", "bench001"]
    return timed


def kustomization() -> Path:
    """The rendered example as kustomize's input: the same objects, read and written again."""
    folder = ROOT / "build" / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "kubectl_sky", "render", EXAMPLE, "--id", "bench001"]
    rendered = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
    (folder / "all.yaml").write_text(rendered.stdout)
    (folder / "kustomization.yaml").write_text("resources: [all.yaml]\n")
    return folder


def whole() -> None:
    """Print the table of commands."""
    measure.table("command", measure.in_turn(commands(), measure.environment(), ROUNDS))


TABLES = {"commands": whole, "language": language.table, "files": files.table}

for name in sys.argv[1:] or TABLES:
    TABLES[name]()
