"""`kubectl sky version`."""

import click

from kubectl_sky import __version__
from kubectl_sky.cli import options, output


@click.command("version")
@options.output("json", "yaml")
def command(form: str | None) -> None:
    """Print the version."""
    output.out(output.data({"version": __version__}, form) if form else __version__)
