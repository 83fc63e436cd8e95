"""Print the names of SkyPilot's commands as JSON: run with the Python that has SkyPilot."""

import importlib
import json
from collections.abc import Iterator
from typing import Any


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield the commands below a group, the hidden ones included."""
    for name, child in command.commands.items():
        if hasattr(child, "commands"):
            yield from commands(child, (*path, name))
        else:
            yield " ".join((*path, name))


if __name__ == "__main__":
    print(json.dumps(list(commands(importlib.import_module("sky.client.cli.command").cli))))
