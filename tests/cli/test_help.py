"""What --help shows: groups, examples, and the options of the connection last."""

import click
import pytest
from click.testing import CliRunner

from kubectl_sky.cli.commands import Command, ConnectionOption
from kubectl_sky.cli.main import COMMANDS, sky


def commands() -> dict[str, Command]:
    """All commands by what is typed, those of groups too."""
    found: dict[str, Command] = {}
    for name in COMMANDS:
        command = sky.get_command(click.Context(sky), name)
        if isinstance(command, click.Group):
            for inner, one in command.commands.items():
                assert isinstance(one, Command)
                found[f"{name} {inner}"] = one
        else:
            assert isinstance(command, Command)
            found[name] = command
    return found


def help_of(*arguments: str) -> str:
    return CliRunner().invoke(sky, [*arguments, "--help"], prog_name="kubectl sky").output


@pytest.mark.parametrize("name", commands())
def test_every_command_has_examples_that_its_parser_takes(name: str) -> None:
    command, words = commands()[name], name.split()
    assert command.examples
    for example in command.examples:
        line = example.split(" | ")[0].split()
        assert line[: len(words)] == words
        command.make_context(name, line[len(words) :], resilient_parsing=False)


def test_help_of_a_command_ends_with_the_connection_options() -> None:
    for name, command in commands().items():
        if any(isinstance(option, ConnectionOption) for option in command.params):
            text = help_of(*name.split())
            assert text.index("Examples:") < text.index("Options:")
            assert text.index("\nOptions:") < text.index("Connection options:\n  --context")


def test_help_without_a_command_lists_every_command_in_a_group() -> None:
    text = help_of()
    assert all(f"\n  {name} " in text for name in COMMANDS)
    assert text.index("Write and review:") < text.index("Watch:") < text.index("Exit codes:")


@pytest.mark.parametrize(
    ("typed", "meant"), [("launch", "submit"), ("statu", "status"), ("show-gpus", "gpus")]
)
def test_unknown_command_suggests_the_one_that_is_meant(typed: str, meant: str) -> None:
    done = CliRunner().invoke(sky, [typed], prog_name="kubectl sky")
    assert done.exit_code == 2
    assert f"unknown command {typed!r}; did you mean `kubectl sky {meant}`?" in done.output
