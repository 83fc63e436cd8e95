"""`kubectl sky auth`: manage the owner recorded on tasks and volumes.

The owner is only for finding objects; RBAC protects them.
"""

import click

from kubectl_sky.cli import commands, options, output
from kubectl_sky.words import owners, settings


@commands.group("auth")
def command() -> None:
    """Manage the owner recorded on your tasks and volumes.

    The owner is a label for finding them. Only the cluster's RBAC decides what you can do.
    """


@command.command("login", examples=["auth login alice", "auth login alice@example.com"])
@click.argument("name", metavar="USER")
def login(name: str) -> None:
    """Use USER, such as alice@example.com, as the owner from now on."""
    user = owners.name_owner(name)
    settings.log_in(user.name)
    label_note = "" if user.label == user.name else f" (as a label: {user.label})"
    output.out(f"Logged in as {user.name}{label_note}")


@command.command("whoami", examples=["auth whoami", "auth whoami -o json"])
@options.cluster
@options.output("json", "yaml", "name")
def whoami(cluster: options.ClusterFlags, form: str | None) -> None:
    """Print the current user, and on stderr the source of the name."""
    from kubectl_sky.actions import identity

    name = cluster.user or settings.read_login()
    source = "--user" if cluster.user else "auth login"
    user = owners.name_owner(name) if name else None
    if user is None:
        user, source = identity.whoami(cluster.session(), None)
    if form not in (None, "name"):
        document = identity.Identity(username=user.name, label=user.label, source=source)
        output.out(output.data(document, form))
    else:
        output.out(user.name)
        output.note(f"source: {source}")


@command.command("logout", examples=["auth logout", "auth logout && kubectl sky auth whoami"])
def logout() -> None:
    """Forget the user that `auth login` set."""
    name = settings.log_out()
    output.out(f"Logged out {name}" if name else "No user was logged in")
