"""`kubectl sky auth`: whose name stands on tasks and volumes. It finds; RBAC protects."""

import click

from kubectl_sky import settings, users
from kubectl_sky.cli import commands, options, output


@commands.group("auth")
def command() -> None:
    """Say who you are to the tasks and volumes that you make.

    The name is a label for finding them. What you may do is decided by the cluster's RBAC alone.
    """


@command.command("login", examples=["auth login alice"])
@click.argument("name", metavar="USER")
def login(name: str) -> None:
    """Act as USER from now on, such as alice@example.com."""
    user = users.named(name)
    settings.log_in(user.name)
    written = "" if user.label == user.name else f" (as a label: {user.label})"
    output.out(f"Logged in as {user.name}{written}")


@command.command("whoami", examples=["auth whoami"])
@options.where
@options.output("json", "yaml", "name")
def whoami(where: options.Where, form: str | None) -> None:
    """Print the user, and on stderr where the name comes from."""
    from kubectl_sky.actions import who

    known = where.user or settings.logged_in()
    source = "--user" if where.user else "auth login"
    user = users.named(known) if known else None
    if user is None:
        user, source = who.whoami(where.session(), None)
    if form in ("json", "yaml"):
        output.out(
            output.data({"username": user.name, "label": user.label, "source": source}, form)
        )
    else:
        output.out(user.name)
        output.note(f"as said by {source}")


@command.command("logout", examples=["auth logout"])
def logout() -> None:
    """Forget the name that `auth login` was given."""
    name = settings.log_out()
    output.out(f"Logged out {name}" if name else "Nobody was logged in")
