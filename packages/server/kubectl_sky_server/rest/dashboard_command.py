"""`kubectl sky dashboard`."""

import html
import secrets
import tempfile
import webbrowser
from pathlib import Path

import click

from kubectl_sky.cli import commands, options, output

_LOOPBACK = "127.0.0.1"

# The link is a secret until it is used: the arguments of a browser are not, a private file is.
_REDIRECT = """\
<!doctype html>
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={link}">
<title>kubectl sky</title>
<p><a href="{link}">Open the dashboard</a>
"""


@commands.command("dashboard", examples=["dashboard", "dashboard --port 8080 --no-browser"])
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    help="Port on loopback (default: a free port).",
)
@click.option("--no-browser", is_flag=True, help="Print the link, and open no browser.")
@options.cluster
def command(port: int, no_browser: bool, cluster: options.ClusterFlags) -> None:
    """Show tasks, logs, volumes, GPUs and queues in a browser, until Ctrl-C.

    Listens on loopback only. The link logs you in once, with the credentials of your kubeconfig.
    """
    from kubectl_sky.actions import identity
    from kubectl_sky_server.rest.config import Config
    from kubectl_sky_server.rest.serve import Listener, serve

    owner = identity.user(cluster.session(), cluster.user).name
    code = secrets.token_urlsafe(32)
    config = Config(cluster.flags(), owner=owner, login_code=code)
    with tempfile.TemporaryDirectory(prefix="kubectl-sky-") as folder:

        def listening(url: str) -> None:
            link = f"{url}/ui/#/login?code={code}"
            output.note("Open this link, which works once within 10 minutes; stop with Ctrl-C")
            output.out(link)
            if not no_browser:
                page = Path(folder, "dashboard.html")
                page.write_text(_REDIRECT.format(link=html.escape(link)))
                webbrowser.open(page.as_uri())

        serve(config, Listener(_LOOPBACK, port), output.note, listening)
