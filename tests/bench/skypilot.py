"""Ask SkyPilot itself: `python -m tests.bench.skypilot freeze|fuzz [NUMBER [SEED [FILE…]]]`.

`freeze` asks it again for every text of tests/spec/verdicts.tsv, and for texts on standard input,
one a line with `\\n` for a new line. `fuzz` changes those texts, or files, at random and prints
where our verdict differs from SkyPilot's.
"""

import json
import os
import random
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.bench.mutations import mutated
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


def fuzz(count: int, seed: int, files: Sequence[str]) -> None:
    """Print where we and SkyPilot differ on changed texts, one a line."""
    chance = random.Random(seed)
    known = [Path(file).read_text(encoding="utf-8") for file in files] or list(verdicts.table())
    texts = list(dict.fromkeys(mutated(chance.choice(known), chance) for _ in range(count)))
    for text, result in zip(texts, ask(texts), strict=True):
        wrong = verdicts.disagreement(text, result)
        if wrong:
            print(f"{verdicts.escaped(text)}\t{wrong}\t{result or ''}")


def main(command: str, number: str = "2000", seed: str = "0", *files: str) -> None:
    """Do what the command line asks for."""
    if command == "freeze":
        lines = [] if sys.stdin.isatty() else sys.stdin.read().splitlines()
        freeze([verdicts.unescaped(line) for line in lines if line])
    else:
        fuzz(int(number), int(seed), files)


if __name__ == "__main__":
    main(*sys.argv[1:])
