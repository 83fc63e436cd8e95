"""Commands of other packages arrive as entry points."""

from collections.abc import Sequence
from importlib import metadata
from importlib.metadata import EntryPoint

import click
import pytest
from click.testing import CliRunner

from kubectl_sky.cli import packages
from kubectl_sky.cli.main import COMMANDS, main, sky


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> list[EntryPoint]:
    """The entry points of the packages that are installed: none at first."""
    entries: list[EntryPoint] = []

    def find(group: str, name: str | None = None) -> Sequence[EntryPoint]:
        return [entry for entry in entries if entry.group == group and name in (None, entry.name)]

    monkeypatch.setattr(metadata, "entry_points", find)
    return entries


@click.command()
def greet() -> None:
    """Greet."""
    click.echo("hello")


def register(entries: list[EntryPoint], name: str) -> None:
    entries.append(EntryPoint(name, f"{__name__}:greet", packages.GROUP))


@pytest.mark.parametrize("words", [name.split() for name in packages.EXTRAS], ids=" ".join)
def test_command_whose_package_is_missing_says_how_to_install_it(
    installed: list[EntryPoint], words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, "--help"]) == 2
    extra = packages.EXTRAS[" ".join(words)]
    command = f"kubectl sky {' '.join(words)}"
    assert capsys.readouterr().err == (
        f"error: `{command}` is in kubectl-sky-{extra}, which is not installed\n"
        f"hint: run: pip install 'kubectl-sky[{extra}]'\n"
    )


def test_command_of_any_package_runs(
    installed: list[EntryPoint], capsys: pytest.CaptureFixture[str]
) -> None:
    register(installed, "greet")
    assert main(["greet"]) == 0
    assert capsys.readouterr().out == "hello\n"


def test_command_of_a_package_is_listed_in_its_group(installed: list[EntryPoint]) -> None:
    assert "greet" not in CliRunner().invoke(sky, ["queues", "--help"]).output
    register(installed, "queues greet")
    assert "greet   Greet." in CliRunner().invoke(sky, ["queues", "--help"]).output


def test_commands_of_the_core_look_for_no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading the metadata of all packages takes as long as half of the start."""

    def refuse(**selection: str) -> None:
        raise AssertionError(selection)

    monkeypatch.setattr(metadata, "entry_points", refuse)
    assert CliRunner().invoke(sky, ["--help"]).exit_code == 0
    for name in COMMANDS.keys() - packages.EXTRAS:
        assert sky.get_command(click.Context(sky), name), name
