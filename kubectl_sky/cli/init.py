"""`kubectl sky init`."""

import click

from kubectl_sky.cli import commands, output

_DEFAULT = "task"


@commands.command("init", examples=["init", "init train", "init train --force", "init - | less"])
@click.argument("name", default=_DEFAULT)
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
def command(name: str, force: bool) -> None:
    """Write a first task file with comments: NAME.yaml (default: task.yaml).

    NAME may be a path. With `-`, the file is printed instead.
    """
    from kubectl_sky.actions import init

    if name == "-":
        output.out(init.text("task.yaml", _DEFAULT).rstrip("\n"))
        return
    path = init.write(name, force)
    output.out(f"{path} created")
    output.note(f'to run it, run "kubectl sky submit {path}"')
