"""`kubectl sky ui`."""

import os
import sys

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
    # Textual draws on stderr.
    if not all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):
        what = "stdin, stdout or stderr is not a terminal"
        raise UserError(what, "use `kubectl sky list --watch`")
    if os.environ.get("TERM") == "dumb":
        raise UserError("the terminal cannot move its cursor: TERM=dumb", "set TERM=xterm-256color")
    from kubectl_sky.actions import identity

    session = cluster.session()
    user = identity.user(session, cluster.user)
    # Textual follows NO_COLOR; --color takes precedence.
    if output.colored(sys.stdout):
        os.environ.pop("NO_COLOR", None)
    else:
        os.environ["NO_COLOR"] = "1"
    from kubectl_sky_ui import app

    namespace = None if cluster.all_namespaces else session.namespace
    return app.run(session, user, namespace, all_users)
