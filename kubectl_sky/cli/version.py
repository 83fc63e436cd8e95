"""`kubectl sky version`."""

from kubectl_sky import __version__
from kubectl_sky.cli import commands, options, output


@commands.command("version", examples=["version"])
@options.output("json", "yaml")
def command(form: str | None) -> None:
    """Print the version."""
    output.out(output.document("Version", {"version": __version__}, form) if form else __version__)
