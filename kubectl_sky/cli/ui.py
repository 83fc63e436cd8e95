"""`kubectl sky ui`."""

import os
import sys
from importlib.util import find_spec

from kubectl_sky.cli import commands, options, output
from kubectl_sky.errors import UserError


@commands.command("ui", examples=["ui", "ui -A --all-users"])
@options.cluster_all_namespaces
@options.all_users
def command(cluster: options.ClusterFlags, all_users: bool) -> int:
    """Show tasks, nodes, logs and diagnoses on the whole terminal, live.

    The keys are those of k9s: enter shows nodes, l logs, d doctor, ctrl-k stops a task, / filters,
    : takes a command, ? helps, q quits.
    """
    if not find_spec("textual"):
        raise UserError(
            "the packages of the ui are not installed", "run: pip install 'kubectl-sky[ui]'"
        )
    if not (sys.stdin.isatty() and sys.stdout.isatty()) or os.environ.get("TERM") == "dumb":
        raise UserError("stdin or stdout is not a terminal", "use `kubectl sky list --watch`")
    from kubectl_sky.actions import identity

    session = cluster.session()
    user = identity.user(session, cluster.user)
    # Textual follows NO_COLOR; --color takes precedence.
    if output.colored(sys.stdout):
        os.environ.pop("NO_COLOR", None)
    else:
        os.environ["NO_COLOR"] = "1"
    from kubectl_sky.ui import app

    namespace = None if cluster.all_namespaces else session.namespace
    return app.run(session, user, namespace, all_users)
