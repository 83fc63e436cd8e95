"""Time SkyPilot: run with the Python of an environment that has it.

Standard input has one JSON text a line; standard output the seconds that each took, `null` for what
is refused.
"""

import contextlib
import importlib
import io
import json
import os
import sys
import tempfile
import time
from pathlib import Path


def seconds(text: str, file: Path) -> float | None:
    """Time `Task.from_yaml`; None for what it refuses."""
    file.write_text(text, encoding="utf-8")
    task = importlib.import_module("sky").Task
    begun = time.process_time()
    try:
        task.from_yaml(str(file))
    except Exception:  # noqa: BLE001 - SkyPilot raises whatever it likes
        return None
    return time.process_time() - begun


def main() -> None:
    """Answer for each line."""
    folder = Path(tempfile.mkdtemp())
    os.environ["HOME"] = str(folder)
    os.chdir(folder)
    answers = sys.stdout
    for line in sys.stdin:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            taken = seconds(json.loads(line), folder / "task.yaml")
        answers.write(json.dumps(taken) + "\n")
    answers.flush()


if __name__ == "__main__":
    main()
