"""Commands of other packages, which arrive as entry points."""

import sys

import click

from kubectl_sky.errors import UserError

# An entry point of it has the words of a command, such as "queues fairshare", and its click object.
GROUP = "kubectl_sky.commands"
# Commands of our own packages, with the extra that installs each.
EXTRAS = {
    "api": "server",
    "controllers": "server",
    "dashboard": "server",
    "queues fairshare": "server",
    "ui": "ui",
    "users": "server",
}


def find_command(name: str) -> click.Command | None:
    """Return a command of another package; None if no installed one has it.

    Raises UserError if it is of one of our packages, and that is not installed.
    """
    from importlib import metadata  # takes as long as half of a start

    for entry in metadata.entry_points(group=GROUP, name=name):
        command = entry.load()
        assert isinstance(command, click.Command), name
        return command
    if name in EXTRAS:
        extra = EXTRAS[name]
        message = f"`kubectl sky {name}` is in kubectl-sky-{extra}, which is not installed"
        hint = f"run: pip install 'kubectl-sky[{extra}]'"
        if getattr(sys, "frozen", False):  # by PyInstaller, for krew
            hint = f"the archive for krew is without it; {hint}"
        raise UserError(message, hint)
    return None


def list_commands(parent: str) -> list[str]:
    """Return the commands that installed packages add to a group."""
    from importlib import metadata

    names = (entry.name.split(" ") for entry in metadata.entry_points(group=GROUP))
    return sorted(words[1] for words in names if words[0] == parent and len(words) > 1)
