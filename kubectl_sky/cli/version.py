"""`kubectl sky version`."""

import platform
import sys

import click

from kubectl_sky import __version__
from kubectl_sky.cli import commands, options, output
from kubectl_sky.errors import ClusterError


@commands.command("version", examples=["version", "version -o json", "version --client -o yaml"])
@click.option("--client", "client_only", is_flag=True, help="With -o: do not ask the cluster.")
@options.connection
@options.output("json", "yaml")
def command(form: str | None, client_only: bool, cluster: options.ClusterFlags) -> int:
    """Print the version; with -o, that of the cluster too, in kubectl's format."""
    if not form:
        output.out(__version__)
        return 0
    versions: dict[str, object] = {"version": __version__, "clientVersion": _client()}
    error = None
    if not client_only:
        try:
            versions["serverVersion"] = cluster.session().request("GET", "/version")
        except ClusterError as refused:  # as kubectl, print the client's version anyway
            error = refused
    output.out(output.document("Version", versions, form))
    if error:
        raise error
    return 0


def _client() -> dict[str, str]:
    major, minor = __version__.split(".")[:2]
    return {
        "major": major,
        "minor": minor,
        "gitVersion": f"v{__version__}",
        "pythonVersion": platform.python_version(),
        "platform": f"{sys.platform}/{platform.machine()}",
    }
