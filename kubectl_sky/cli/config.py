"""`kubectl sky config`."""

import os

import click

from kubectl_sky.cli import commands, complete, options, output

_SETTING = complete.Text("settings")


@commands.group("config")
def command() -> None:
    """Show and change the settings: defaults for all tasks."""


@command.command("view", examples=["config view", "config view -o json"])
@options.output("json", "yaml")
def view(form: str | None) -> None:
    """Show the settings and where each value comes from: file and line, default, environment."""
    from kubectl_sky.actions import config

    values = config.view(os.environ)
    if form:
        output.out(output.data(config.Settings(settings=values), form))
        return
    cells = [[row.name, _text(row.value), row.source] for row in values]
    output.out(output.table(["SETTING", "VALUE", "SOURCE"], cells, cut=["SOURCE"]))


@command.command("get", examples=["config get queue", "config get ports.expose"])
@click.argument("setting", type=_SETTING)
def get(setting: str) -> None:
    """Print the value of SETTING, or its default."""
    from kubectl_sky.actions import config

    value = config.get(setting, os.environ)
    output.out("" if value is None else _text(value))


@command.command(
    "set", examples=["config set queue team-queue", "config set ports.expose nodeport"]
)
@click.argument("setting", type=_SETTING)
@click.argument("value", type=complete.Text("values"))
def put(setting: str, value: str) -> None:
    """Set SETTING to VALUE, in YAML, and keep the comments of the file.

    `kubectl sky explain settings` lists the settings.
    """
    from kubectl_sky.actions import config

    output.out(f"{setting} set in {config.put(setting, value, os.environ)}")


@command.command("unset", examples=["config unset queue", "config unset ports.expose"])
@click.argument("setting", type=_SETTING)
def unset(setting: str) -> None:
    """Remove SETTING from the file, so that its default applies."""
    from kubectl_sky.actions import config

    output.out(f"{setting} unset in {config.unset(setting, os.environ)}")


@command.command("path", examples=["config path", "config path | xargs cat"])
def path() -> None:
    """Print the path of the settings file."""
    from kubectl_sky.words import settings

    output.out(str(settings.settings_file()))


def _text(value: object) -> str:
    from kubectl_sky.spec import edit

    return edit.inline(value)
