"""A flag of a task is one row: options, arguments of Python, fields and documentation are its."""

import importlib.util
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import click
import pytest
from click.testing import CliRunner

from kubectl_sky.api import task as api_task
from kubectl_sky.api.task import Task
from kubectl_sky.cli import options
from kubectl_sky.submitting import flags as applied
from kubectl_sky.submitting import overrides
from kubectl_sky.submitting.overrides import FLAGS, Flag, Overrides, Switch, Text, Texts, flags_of

ROOT = Path(__file__).parent.parent.parent
CHANGES = ROOT / "kubectl_sky" / "api" / "changes.py"
HEAD = '''\
"""The arguments of `Task.override`, made of the rows of submitting/overrides.py."""

from collections.abc import Mapping, Sequence
from typing import Literal, TypedDict


class Changes(TypedDict, total=False):
    """What `Task.override` changes: the flags of `kubectl sky submit`, with their meaning."""

'''


class More(Overrides, frozen=True):
    """The flags and one more row."""

    nap: Annotated[
        Text, Flag("--nap", "Sleep before it runs.", "config.kubectl_sky.nap", "TIME")
    ] = None


def write_changes(flags: Iterable[Flag]) -> str:
    """Return the source of kubectl_sky/api/changes.py."""
    lines = (f"    {flag.argument or flag.name}: {describe_type(flag)}\n" for flag in flags)
    return HEAD + "".join(lines)


def describe_type(flag: Flag) -> str:
    """Return the type of an argument of `Task.override`."""
    if flag.is_map:
        return "Mapping[str, str]"
    if flag.type in (bool, Switch):
        return "bool"
    if flag.type == Texts:
        return "Sequence[str]"
    if flag.choices:
        choices = ", ".join(f'"{value}"' for value in flag.choices)
        return f"Literal[{choices}]"
    return "int | str" if flag.is_number else "str"


def test_arguments_of_override_are_the_flags() -> None:
    """`UPDATE_GOLDEN=1` writes them."""
    source = write_changes(FLAGS)
    if os.environ.get("UPDATE_GOLDEN"):
        CHANGES.write_text(source)
    assert CHANGES.read_text() == source, "run it with UPDATE_GOLDEN=1"


def test_flag_of_one_row_is_option_argument_field_and_documented(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = flags_of(More)
    for module in (applied, api_task, overrides):
        monkeypatch.setattr(module, "FLAGS", rows)
    monkeypatch.setattr(api_task, "Overrides", More)

    command = click.command()(options.task_flag(rows[-1])(lambda nap: click.echo(nap)))
    assert "--nap TIME  Sleep before it runs." in CliRunner().invoke(command, ["--help"]).output
    assert CliRunner().invoke(command, ["--nap", "5m"]).output == "5m\n"

    changes: dict[str, Any] = {"nap": "5m"}
    (problem,) = Task(run="true").override(**changes).validate().problems
    assert "config.kubectl_sky.nap: unknown field" in str(problem)

    assert "    nap: str\n" in write_changes(rows)

    spec = importlib.util.spec_from_file_location("reference", ROOT / "docs" / "reference.py")
    assert spec and spec.loader
    reference = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(reference)
    line = "| `--nap` | `nap` | `config.kubectl_sky.nap` | Sleep before it runs. |"
    assert line in list(reference.task_flags(rows))
