"""What SkyPilot says of texts: run with the Python of an environment that has SkyPilot.

Standard input has one JSON text a line; standard output one JSON text a line, `null` for what is
accepted, else the error. With `--time` it says instead how many seconds each text took, warm.
"""

import contextlib
import importlib
import io
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

VOLUMES = ("k8s-pvc", "k8s-hostpath", "runpod-network-volume")
CHARACTERS = 160


def verdict(text: str, file: Path) -> str | None:
    """Load as `sky launch` does, a variable that is still to be given counting as given."""
    file.write_text(text, encoding="utf-8")
    try:
        documents = [document for document in yaml.safe_load_all(text) if document is not None]
        if is_volume(documents):
            volumes = importlib.import_module("sky.volumes.volume")
            volumes.Volume.from_yaml_config(documents[0]).validate()
        else:
            dags = importlib.import_module("sky.utils.dag_utils")
            dags.load_dag_from_yaml(str(file), env_overrides=open_values(documents))
    except (Exception, SystemExit) as error:  # noqa: BLE001 - SkyPilot raises whatever it likes
        message = re.sub(r"\s+", " ", f"{type(error).__name__}: {error}")
        return message.replace(str(file), "task.yaml")[:CHARACTERS]
    return None


def is_volume(documents: list[Any]) -> bool:
    """Say whether `sky volumes apply` is what reads this."""
    if len(documents) != 1 or not isinstance(documents[0], dict):
        return False
    return documents[0].get("type") in VOLUMES and "run" not in documents[0]


def open_values(documents: list[Any]) -> list[tuple[str, str]] | None:
    """Return values for the variables that the documents leave to the command line."""
    variables = [document.get("envs") for document in documents if isinstance(document, dict)]
    names = {
        str(name)
        for values in variables
        if isinstance(values, dict)
        for name, value in values.items()
        if value is None
    }
    return [(name, "dummy") for name in sorted(names)] or None


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
    answer: Callable[[str, Path], object] = seconds if "--time" in sys.argv else verdict
    answers = sys.stdout
    for line in sys.stdin:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            verdict_of = answer(json.loads(line), folder / "task.yaml")
        answers.write(json.dumps(verdict_of) + "\n")
    answers.flush()


if __name__ == "__main__":
    main()
