"""The commands of the program."""

from functools import cache

import click

from kubectl_sky.cli.commands import Command
from kubectl_sky.cli.main import COMMANDS, sky


@cache
def commands() -> dict[str, Command]:
    """Return all commands by name, including subcommands."""
    by_name: dict[str, Command] = {}
    for name in COMMANDS:
        command = sky.get_command(click.Context(sky), name)
        if isinstance(command, click.Group):
            for inner, child in command.commands.items():
                assert isinstance(child, Command)
                by_name[f"{name} {inner}"] = child
        else:
            assert isinstance(command, Command)
            by_name[name] = command
    return by_name


def parse(words: list[str]) -> None:
    """Parse the words of a command line. Raises click.UsageError."""
    command: click.Command = sky
    parent = click.Context(sky, info_name="kubectl sky")
    while isinstance(command, click.Group):
        name, *words = words
        child = command.get_command(parent, name)
        if child is None:
            raise click.UsageError(f"unknown command {name}")
        command = child
    command.make_context(command.name, words, parent=parent)
