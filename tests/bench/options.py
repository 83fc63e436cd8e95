"""Print SkyPilot's commands with their options as JSON: run with the Python that has SkyPilot.

An option is its names, and whether it takes a value: {"launch": [[["--cluster", "-c"], true]]}.
"""

import importlib
import json
from collections.abc import Iterator
from typing import Any


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, list[Any]]]:
    """Yield the commands below a group, the hidden ones included."""
    for name, child in command.commands.items():
        if hasattr(child, "commands"):
            yield from commands(child, (*path, name))
        else:
            yield " ".join((*path, name)), list(options(child))


def options(command: Any) -> Iterator[tuple[list[str], bool]]:
    """Yield the options of a command."""
    for parameter in command.params:
        if parameter.param_type_name == "option":
            yield [*parameter.opts, *parameter.secondary_opts], not parameter.is_flag


if __name__ == "__main__":
    print(json.dumps(dict(commands(importlib.import_module("sky.client.cli.command").cli))))
