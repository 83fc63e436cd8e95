"""An environment with SkyPilot, which is made once."""

import os
import subprocess
import venv
from pathlib import Path

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
