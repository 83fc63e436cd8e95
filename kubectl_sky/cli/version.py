"""`kubectl sky version`."""

import platform
import re
import sys
from typing import Annotated

import click
from msgspec import field

from kubectl_sky import __version__
from kubectl_sky.cli import commands, options, output
from kubectl_sky.errors import ClusterError, SkyError, Unreachable
from kubectl_sky.words.documents import Document, Note

_RELEASES = "https://github.com/kubectl-sky/kubectl-sky/releases"


class Version(Document, frozen=True, kw_only=True):
    """The versions of the client and the cluster: `version`."""

    version: str
    clientVersion: Annotated[dict[str, str], Note("as in `kubectl version`")]  # noqa: N815
    newestVersion: Annotated[str, Note("with `--check`")] = ""  # noqa: N815
    serverVersion: Annotated[dict[str, str], Note("without `--client`, if it answers")] = field(  # noqa: N815
        default_factory=dict
    )


@commands.command("version", examples=["version", "version --check", "version -o json"])
@click.option("--client", "client_only", is_flag=True, help="With -o: do not ask the cluster.")
@click.option("--check", is_flag=True, help="Ask github.com for the newest release.")
@options.connection
@options.output("json", "yaml")
def command(form: str | None, client_only: bool, check: bool, cluster: options.ClusterFlags) -> int:
    """Print the version; with -o, that of the cluster too, in kubectl's format.

    No command looks for a newer version, except this one with --check.
    """
    newest = _newest() if check else ""
    if not form:
        output.out(__version__)
        if newest and _numbers(newest) <= _numbers(__version__):
            output.note("this is the newest version")
        elif newest:
            output.note(f"version {newest} is available: {_RELEASES}/tag/v{newest}")
        return 0

    server = {}
    error = None
    if not client_only:
        try:
            server = cluster.session().send("GET", "/version").body
        except ClusterError as refused:  # as kubectl, print the client's version anyway
            error = refused

    major, minor = __version__.split(".")[:2]
    client = {
        "major": major,
        "minor": minor,
        "gitVersion": f"v{__version__}",
        "pythonVersion": platform.python_version(),
        "platform": f"{sys.platform}/{platform.machine()}",
    }
    versions = Version(
        version=__version__, clientVersion=client, newestVersion=newest, serverVersion=server
    )

    output.out(output.data(versions, form))
    if error:
        raise error
    return 0


def _newest() -> str:
    """Return the version of the newest release. Raises SkyError."""
    from kubectl_sky.cluster import web

    try:
        answer = web.fetch(web.Fetch(f"{_RELEASES}/latest"))
    except SkyError as error:
        what = f"cannot ask {_RELEASES} for the newest version: {error.what}"
        raise Unreachable(what, "check the network; `version` alone asks nobody") from None
    match = re.fullmatch(
        rf"{re.escape(_RELEASES)}/tag/v([0-9]{{1,6}}(?:\.[0-9]{{1,6}}){{2}})",
        answer.headers.get("Location", ""),
    )
    if not match:
        raise SkyError(f"no release found at {_RELEASES} (HTTP {answer.status})")
    return match[1]


def _numbers(version: str) -> list[int]:
    return list(map(int, re.findall(r"[0-9]+", version)[:3]))
