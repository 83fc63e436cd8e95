"""What the files of the corpus need that is not in them: values and local files."""

import os
from pathlib import Path
from typing import Any


def open_values(tasks: list[dict[str, Any]], field: str) -> tuple[str, ...]:
    """Return values for variables that have none in the file."""
    return tuple(
        f"{name}=dummy"
        for task in tasks
        for name, value in (task.get(field) or {}).items()
        if value is None
    )


def make_files(task: dict[str, Any]) -> None:
    """Create the local files that a task uploads."""
    for source in ((task.get("file_mounts") or {}) | {"": task.get("workdir")}).values():
        if isinstance(source, str) and "://" not in source:
            path = Path(os.path.expandvars(source)).expanduser()
            folder = source == task.get("workdir") or not path.suffix
            (path if folder else path.parent).mkdir(parents=True, exist_ok=True)
            if not folder:
                path.touch()
