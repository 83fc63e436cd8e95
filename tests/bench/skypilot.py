"""Time SkyPilot's own reading of task files, in an environment that is made once."""

import json
import os
import subprocess
import venv
from collections.abc import Sequence
from pathlib import Path

from tests.cluster import cache

VERSION = "0.14.1"
ORACLE = Path(__file__).parent / "oracle.py"


def python() -> Path:
    """Return the Python of an environment with SkyPilot; make it, of half a gigabyte, if needed.

    SKYPILOT_PYTHON names one that is there.
    """
    if given := os.environ.get("SKYPILOT_PYTHON"):
        return Path(given)
    folder = cache.ROOT / f"skypilot-{VERSION}"
    with cache.lock("skypilot"):
        if not (folder / "complete").exists():
            cache.say(f"installs SkyPilot {VERSION} into {folder}")
            venv.create(folder, with_pip=True, clear=True)
            package = f"skypilot[kubernetes]=={VERSION}"
            command = [str(folder / "bin" / "pip"), "install", "--quiet", package]
            subprocess.run(command, check=True)
            (folder / "complete").touch()
    return folder / "bin" / "python"


def seconds(texts: Sequence[str]) -> list[float | None]:
    """Return how long `Task.from_yaml` takes for each text; None for what it refuses."""
    lines = "".join(json.dumps(text) + "\n" for text in texts)
    environment = {"PATH": os.defpath, "SKYPILOT_DISABLE_USAGE_COLLECTION": "1"}
    command = [str(python()), "-W", "ignore", str(ORACLE)]
    done = subprocess.run(
        command, input=lines, check=True, capture_output=True, text=True, env=environment
    )
    return [json.loads(line) for line in done.stdout.splitlines()]
