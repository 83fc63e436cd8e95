"""Ask SkyPilot itself again for every text of tests/spec/verdicts.tsv.

`python -m tests.bench.skypilot` also takes new texts on standard input, one a line with `\\n` for a
new line, and writes the table.
"""

import json
import os
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.cluster import cache
from tests.spec import verdicts

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


def ask(texts: Sequence[str], *flags: str) -> list[Any]:
    """Return the oracle's answer to each text."""
    lines = "".join(json.dumps(text) + "\n" for text in texts)
    environment = {"PATH": os.defpath, "SKYPILOT_DISABLE_USAGE_COLLECTION": "1"}
    command = [str(python()), "-W", "ignore", str(ORACLE), *flags]
    done = subprocess.run(
        command, input=lines, check=True, capture_output=True, text=True, env=environment
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def freeze(more: Sequence[str]) -> None:
    """Write the table of verdicts anew."""
    texts = list(dict.fromkeys([*verdicts.table(), *more]))
    verdicts.write(dict(zip(texts, ask(texts), strict=True)))


if __name__ == "__main__":
    lines = [] if sys.stdin.isatty() else sys.stdin.read().splitlines()
    freeze([verdicts.unescaped(line) for line in lines if line])
