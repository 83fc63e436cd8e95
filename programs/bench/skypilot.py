"""An environment with SkyPilot, which is made once."""

import json
import os
import subprocess
import venv
from pathlib import Path
from typing import Any

from tests.cluster import cache

VERSION = "0.14.1"


def python() -> Path:
    """Return the Python of an environment with SkyPilot; make it, of half a gigabyte, if needed.

    SKYPILOT_PYTHON names an existing one.
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


def run_script(name: str, home: Path) -> Any:
    """Return what a script beside this file prints as JSON about the installed SkyPilot."""
    done = subprocess.run(
        [str(python()), "-W", "ignore", str(Path(__file__).with_name(name))],
        check=True,
        capture_output=True,
        text=True,
        env={"PATH": os.defpath, "HOME": str(home), "SKYPILOT_DISABLE_USAGE_COLLECTION": "1"},
    )
    return json.loads(done.stdout)
