"""Print SkyPilot's commands and their options as JSON: run with the Python that has SkyPilot.

An option is a list of its names, and whether it takes a value. Hidden ones are included.
"""

import importlib
import json
from collections.abc import Iterator
from typing import Any


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, list[Any]]]:
    """Yield the name and the options of each command below a group."""
    for name, child in command.commands.items():
        if hasattr(child, "commands"):
            yield from commands(child, (*path, name))
        else:
            yield " ".join((*path, name)), [*options(child)]


def options(command: Any) -> Iterator[tuple[list[str], bool]]:
    """Yield the names of each option of a command, and whether it takes a value."""
    for param in command.params:
        if param.param_type_name == "option":
            takes_value = not param.is_flag and not param.count
            yield [*param.opts, *param.secondary_opts], takes_value


if __name__ == "__main__":
    sky = importlib.import_module("sky.client.cli.command").cli
    print(json.dumps(dict(commands(sky))))
