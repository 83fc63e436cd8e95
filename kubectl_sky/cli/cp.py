"""`kubectl sky cp`."""

import click

from kubectl_sky.cli import commands, options, output
from kubectl_sky.errors import UserError


@commands.command(
    "cp", examples=["cp data.csv train:/data/", "cp train:results ./results --rank 1"]
)
@click.argument("source")
@click.argument("target")
@click.option("--rank", type=click.IntRange(min=0), default=0, help="This node; else rank 0.")
@options.where_all
@options.all_users
def command(source: str, target: str, rank: int, where: options.Where, all_users: bool) -> None:
    """Copy a file or folder to a node of a task, or from it, as kubectl cp does.

    \b
        kubectl sky cp data.csv abcd:/data/          # into a folder that is there
        kubectl sky cp abcd:results ./results        # below ~/sky_workdir
        kubectl sky cp abcd:~/model.pt . --rank 1

    TASK:PATH is a path in the node; without a slash before it, below its working directory. The
    image needs tar. From a node nothing is written outside of TARGET, whatever the node sends.
    """  # noqa: D301 -- click reads the \b
    from kubectl_sky.actions import cp, exec, find  # noqa: A004

    theirs, ours = cp.place(source), cp.place(target)
    if bool(theirs.task) == bool(ours.task):
        raise UserError("one of the two is in a task", "write TASK:PATH for it")
    session = where.session()
    wanted = theirs.task or ours.task
    found = find.task(session, options.scope(session, where, all_users), wanted)
    node = cp.Node(session, exec.inside(session, found), exec.node(found, rank), output.note)
    if theirs.task:
        node.get(theirs.path, ours.path)
    else:
        node.put(theirs.path, ours.path)
